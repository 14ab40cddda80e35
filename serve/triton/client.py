"""Health and inference. What a connection raises becomes an error of ours here; gRPC's, in control.

Inference goes over HTTP, since a caller's bytes can be passed through as they are. Model control
goes over gRPC: tritonserver carries out an HTTP load on the thread that also serves invocations,
which stand still for as long as the load takes (decision 2).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tritonclient.grpc import aio as triton_grpc

from serve.deadline import Deadline, within
from serve.errors import (
    HeaderTooLarge,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.threads import InThread, run_in_daemon_thread
from serve.triton.access import TritonAccess
from serve.triton.connection import Answer, AnswerLate, ConnectionFailed, Grown, Headers
from serve.triton.control import ModelControl, connect_to_control
from serve.triton.diagnosis.load_errors import ModelsSide
from serve.triton.diagnosis.verdicts import read_message, was_carried_out
from serve.triton.http import LONGEST_HEADER, HeaderLong, Place, TritonHttp
from serve.triton.suspects import RequestWork, Standing, Suspects, Work
from serve.triton.trials import Trials

#: How long tritonserver may take to say whether it lives; /ping must answer well inside 2 s.
HEALTH_TIMEOUT_S = 1.0
#: Between two looks at whether tritonserver has come up.
_LIVE_LOOK_S = 0.05

_LIVE = b"/v2/health/live"


def _note_end(work: Work, suspects: Suspects, error: BaseException, timeout_s: float) -> None:
    """Note that an inference ended without an answer; raise our error for HTTP's, if it is one."""
    if isinstance(error, HeaderLong):
        suspects.answered(work)  # it was not sent
        name = error.name.decode("latin-1")
        raise HeaderTooLarge(name, error.size, LONGEST_HEADER) from error
    if isinstance(error, ServeError):
        suspects.answered(work)  # by more than is taken
        return
    suspects.lost(work, broken=isinstance(error, ConnectionFailed))
    if isinstance(error, ConnectionFailed):
        raise TritonUnavailable(str(error)) from error
    if isinstance(error, AnswerLate):
        raise TritonTimeout("the invocation", timeout_s) from error


def _note_end_of_stream(
    work: RequestWork, suspects: Suspects, answer: Answer, timeout_s: float
) -> Callable[[object, BaseException | None, object], None]:
    """The same for an answer's rest, as its `at_end` calls it."""

    def note(_: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            _note_end(work, suspects, error, timeout_s)
        elif answer.rest is None or not answer.rest.whole:
            suspects.lost(work, broken=False)
        else:
            suspects.answered(work)
            if answer.status == 200:
                suspects.clear(work)

    return note


class TritonClient:
    """One tritonserver: its inference, and the control of its models. Callers bound all waits.

    socket_path: where it listens for HTTP. grpc_target: where for gRPC, as gRPC's clients take it.
    access: what opens its APIs; none for one that has them open. trials: what requests that are
    suspected of having killed it have to pass. http: the connections for inference, own ones where
    there are none. connect: makes the client of model control at an address. models_side: what
    messages about loads that failed say of what models run with. memory: bytes that the machine
    has.
    """

    def __init__(
        self,
        socket_path: Path,
        grpc_target: str,
        access: TritonAccess | None = None,
        trials: Trials | None = None,
        *,
        http: TritonHttp | None = None,
        connect: Callable[[str], triton_grpc.InferenceServerClient] = connect_to_control,
        in_thread: InThread = run_in_daemon_thread,
        models_side: Callable[[], ModelsSide] = ModelsSide,
        memory: float = math.inf,
    ) -> None:
        own_lines = access.http_line if access else b""
        self._http = http or TritonHttp(socket_path, own_lines=own_lines)
        self._in_thread = in_thread
        self._trials = trials or Trials()
        self._suspects = self._trials.suspects
        self._suspects.hash_later = self._hash_later
        self._hashing: asyncio.Task[None] | None = None
        self.memory = memory
        headers = access.grpc_headers if access else {}
        self.control = ModelControl(
            grpc_target, headers, self._is_gone, connect, models_side, memory
        )

    async def close(self) -> None:
        """Close every connection."""
        self._http.close()
        await self.control.close()

    # -- health

    async def is_live(self) -> bool:
        """Whether tritonserver answers and says that it lives; never raises."""
        return await self._gets_ok(_LIVE)

    async def is_model_ready(self, triton_name: str) -> bool:
        """Whether one Triton model is ready; never raises."""
        return await self._gets_ok(f"/v2/models/{triton_name}/ready".encode())

    async def _gets_ok(self, path: bytes) -> bool:
        try:
            return await self._get_status(path) == 200
        except (ConnectionFailed, AnswerLate, asyncio.TimeoutError):
            return False

    async def _is_gone(self) -> bool:
        """Whether nobody listens. One that is late is there; one that we fail to ask may be."""
        try:
            await self._get_status(_LIVE)
        except ConnectionFailed as error:
            return isinstance(error.__cause__, (ConnectionRefusedError, FileNotFoundError))
        except (AnswerLate, asyncio.TimeoutError):
            pass
        return False

    async def _get_status(self, path: bytes) -> int:
        request = self._http.request(b"GET", path, [], timeout_s=HEALTH_TIMEOUT_S)
        return (await within(request, HEALTH_TIMEOUT_S)).status  # with connecting

    async def wait_until_live(self, timeout_s: float) -> None:
        """Wait until tritonserver lives; raises TritonUnavailable after timeout_s."""
        deadline = Deadline(timeout_s)
        while not await self.is_live():
            if not deadline.remaining:
                raise TritonUnavailable(f"not live within {timeout_s:g} s")
            await asyncio.sleep(_LIVE_LOOK_S)

    # -- inference

    def infer(
        self,
        path: bytes,
        headers: Headers,
        body: Sequence[bytes],
        timeout_s: float,
        *,
        held: Place | None = None,
        left_s: float = 0.0,
        grown: Grown | None = None,
        streams: bool = False,
    ) -> Awaitable[Answer]:
        """Send an inference; Triton's answer, whatever its status.

        held: kept for as long as tritonserver has the inference, left_s beyond its end here at
        most. grown: once it is told of the bytes of a 200, nobody reads the body any more.
        Raises TritonUnavailable, TritonTimeout or RequestRefused, and what grown raises.

        streams: the answer comes when its head has come. Its rest is to be read to its end or
        closed, and raises alike; timeout_s bounds the wait for each piece, too.
        """
        suspects = self._suspects
        work = RequestWork(path, tuple(body))  # a caller who leaves takes the list's pieces away

        def counted(size: int) -> int:  # not of a small answer
            suspects.begun(work)
            return grown(size) if grown is not None else size

        async def send() -> Answer:
            suspects.enter(work)
            try:
                answer = await self._http.request(
                    b"POST",
                    path,
                    headers,
                    body,
                    timeout_s=timeout_s,
                    held=held,
                    left_s=left_s,
                    grown=None if streams else counted,
                    streams=streams,
                )
            except BaseException as error:
                _note_end(work, suspects, error, timeout_s)
                raise
            if answer.rest is not None:
                answer.rest.at_end.push(_note_end_of_stream(work, suspects, answer, timeout_s))
                return answer
            suspects.answered(work)
            if suspects.watching and (
                answer.status == 200 or was_carried_out(read_message(answer))
            ):
                suspects.clear(work)
            return answer

        if suspects.watching and suspects.standing(work) is not Standing.INNOCENT:
            return Deadline(timeout_s).bound(self._trials.run(work, send), "the invocation")
        return send()

    def _hash_later(self) -> None:
        if self._hashing is None or self._hashing.done():
            self._hashing = asyncio.get_running_loop().create_task(self._hash())

    async def _hash(self) -> None:
        """Requests that were given up, one by one, while the loop goes on."""
        while (work := self._suspects.unhashed) is not None:
            try:
                key = await self._in_thread(work.key, "hash")
            except RuntimeError:  # no thread is to be had
                key = work.key()
            self._suspects.hashed(work, key)
