"""The seam to tritonserver. Foreign errors become ours here and nowhere else.

Inference goes over HTTP, since a caller's bytes can be passed through as they are. Model control
goes over gRPC: tritonserver carries out an HTTP load on the thread that also serves invocations,
which stand still for as long as the load takes (docs/decisions/0002).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import grpc
from tritonclient.grpc import aio as triton_grpc
from tritonclient.utils import InferenceServerException

from ensemble_tools import ServingPlan
from serve.deadline import Deadline, within
from serve.errors import (
    HeaderTooLarge,
    ModelUnusable,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.threads import in_daemon_thread
from serve.triton.access import TritonAccess
from serve.triton.exhaustion import means_exhaustion
from serve.triton.http import (
    LONGEST_HEADER,
    Answer,
    AnswerLate,
    Body,
    ConnectionFailed,
    Grown,
    HeaderLong,
    Headers,
    Held,
    TritonHttp,
)
from serve.triton.messages import (
    Verdict,
    judge,
    load_failure_reason,
    was_carried_out,
    without_regions,
)
from serve.triton.suspects import RequestWork, Standing, Suspects, Work
from serve.triton.trials import Trials

#: How long tritonserver may take to say whether it lives; /ping must answer well inside 2 s.
HEALTH_TIMEOUT_S = 1.0
#: How long a question about models may take; the index of hundreds is some ms.
INDEX_TIMEOUT_S = 10.0
#: Between two looks at the index while a model unloads: short first, since most are gone at once.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.002, 0.1
#: A model whose stub died may say UNLOADING for ever (below); after this it counts as gone. Where
#: its other instances do end (2.36), that takes 1 to 2 s, and gives back memory for a new load.
_LOST_UNLOAD_S = 3.0
#: After this an ensemble that still says UNLOADING holds a request that tritonserver lost.
_LEAKED_UNLOAD_S = 10.0
#: Between two looks at whether tritonserver has come up.
_LIVE_LOOK_S = 0.05

#: This question waits while gRPC connects: it looks for one that was away every 0.1 to 0.2 s.
_LIVE_WAITS = """{"methodConfig": [{"waitForReady": true, "name": [
    {"service": "inference.GRPCInferenceService", "method": "ServerLive"}]}]}"""
#: min_reconnect_backoff_ms is left alone: in gRPC it is the time that connecting may take.
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", _LIVE_WAITS),
]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_LIVE = b"/v2/health/live"
#: In front of an error under generate_stream.
_EVENT = b"data: "
#: A character that JSON writes by its number has so many letters.
_LONGEST_ESCAPE = 6
_DIRECTORY_VANISHED = "failed to stat file"

_GONE = {"", "UNKNOWN", "UNAVAILABLE"}
_LATE = "StatusCode.DEADLINE_EXCEEDED"
_UNREACHABLE = {"StatusCode.UNAVAILABLE", "StatusCode.CANCELLED"}


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
        raise TritonTimeout("the invocation", timeout_s, "SERVE_INVOKE_TIMEOUT") from error


class Stream:
    """The body of an inference's answer as it comes; read it to its end or close it.

    Raises TritonUnavailable, or TritonTimeout when no piece comes for timeout_s.
    """

    def __init__(
        self, body: Body, timeout_s: float, work: Work, suspects: Suspects, *, clears: bool
    ) -> None:
        self._body, self._timeout_s = body, timeout_s
        self._work, self._suspects, self._clears = work, suspects, clears

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._body)
        except StopAsyncIteration:
            self._suspects.answered(self._work)
            if self._clears:
                self._suspects.clear(self._work)
            raise
        except BaseException as error:
            _note_end(self._work, self._suspects, error, self._timeout_s)
            raise

    def close(self) -> None:
        """Give up what has not been read; idempotent."""
        self._suspects.lost(self._work, broken=False)
        self._body.close()


@dataclass(frozen=True)
class Refusal:
    """An inference that was not carried out, and whose fault that is.

    cut: the message had more words than are kept.
    """

    verdict: Verdict
    message: str
    cut: bool = False


class TritonClient:
    """One tritonserver: its models and its inference. All waits are bounded by the caller's.

    access: what opens its APIs; none for one that has them open. trials: what requests that are
    suspected of having killed it have to pass.
    """

    def __init__(
        self,
        host: str,
        http_port: int,
        grpc_port: int,
        access: TritonAccess | None = None,
        trials: Trials | None = None,
    ) -> None:
        self._http = TritonHttp(host, http_port, own_lines=access.http_line if access else b"")
        self._trials = trials or Trials()
        self._suspects = self._trials.suspects
        self._suspects.hash_later = self._hash_later
        self._hashing: asyncio.Task[None] | None = None
        self._grpc_address = f"{host}:{grpc_port}"
        self._access = access.grpc_headers if access else {}
        self._grpc: triton_grpc.InferenceServerClient | None = None

    @property
    def _control(self) -> triton_grpc.InferenceServerClient:
        # A gRPC channel belongs to the event loop that it was made in.
        if self._grpc is None:
            self._grpc = triton_grpc.InferenceServerClient(
                self._grpc_address, channel_args=_CHANNEL
            )
        return self._grpc

    async def close(self) -> None:
        """Close every connection."""
        self._http.close()
        if self._grpc is not None:
            await self._grpc.close()
            self._grpc = None

    # -- health

    async def is_live(self) -> bool:
        """Whether tritonserver answers and says that it lives; never raises."""
        return await self._says_yes(_LIVE)

    async def is_ready(self) -> bool:
        """Whether tritonserver is ready for inference; never raises."""
        return await self._says_yes(b"/v2/health/ready")

    async def is_model_ready(self, triton_name: str) -> bool:
        """Whether one Triton model is ready; never raises."""
        return await self._says_yes(f"/v2/models/{triton_name}/ready".encode())

    async def _says_yes(self, path: bytes) -> bool:
        try:
            return await self._asked(path) == 200
        except (ConnectionFailed, AnswerLate, asyncio.TimeoutError):
            return False

    async def _is_gone(self) -> bool:
        """Whether nobody listens. One that is late is there; one that we fail to ask may be."""
        try:
            await self._asked(_LIVE)
        except ConnectionFailed as error:
            return isinstance(error.__cause__, ConnectionRefusedError)
        except (AnswerLate, asyncio.TimeoutError):
            pass
        return False

    async def _asked(self, path: bytes) -> int:
        asked = self._http.request(b"GET", path, [], timeout_s=HEALTH_TIMEOUT_S)
        return (await within(asked, HEALTH_TIMEOUT_S)).status  # with connecting

    async def until_live(self, timeout_s: float) -> None:
        """Wait until tritonserver lives; raises TritonUnavailable after timeout_s."""
        deadline = time.monotonic() + timeout_s
        while not await self.is_live():
            if time.monotonic() > deadline:
                raise TritonUnavailable(f"not live within {timeout_s:g} s")
            await asyncio.sleep(_LIVE_LOOK_S)

    # -- models

    async def load(self, plan: ServingPlan, timeout_s: float) -> None:
        """Load what is called by name, then the entry model; with an ensemble come its steps.

        Returns when the entry model can be invoked. timeout_s is for all of it.
        Raises ModelUnusable with the innermost reason, ResourceExhausted, TritonUnavailable or
        TritonTimeout.
        """
        deadline = time.monotonic() + timeout_s
        try:
            # The loads themselves do not wait: all of them have to reach the same tritonserver.
            await self._control.is_server_live(headers=self._access, client_timeout=timeout_s)
            for name in (*plan.called, plan.entry):
                remaining = max(0.0, deadline - time.monotonic())
                await self._control.load_model(name, headers=self._access, client_timeout=remaining)
        except InferenceServerException as error:
            if error.status() == _LATE and await self._is_gone():
                raise TritonUnavailable("nobody is there") from error
            raise self._load_error(plan, error, timeout_s) from error
        except grpc.aio.UsageError as error:
            raise TritonUnavailable("the connection is closed") from error

    async def unload(
        self, plan: ServingPlan, timeout_s: float, *, lost: Collection[str] = ()
    ) -> None:
        """Unload every Triton model of the plan; returns when they are gone.

        Of a name that was loaded again meanwhile tritonserver tells the newest state only: stubs of
        the one before may end later.

        lost: those whose python stub died. tritonserver 2.51 never releases a request that met a
        dead stub (2.36 does), so that such a model, and the ensembles over it, say UNLOADING for
        ever. They can be loaded again in that state; their regions of shared memory stay until
        tritonserver ends, and the stubs of their other instances until somebody ends those. The
        other models are waited for.

        Nor does any version up to 2.6x release an ensemble's request when a step erred while
        another one ran. An ensemble has nothing of its own to give back, so one that says UNLOADING
        for long holds such a request; what is left of the plan is then not waited for, but logged.

        A tritonserver that is not there holds nothing. Raises TritonTimeout, also when it is there
        and gRPC does not reach it.
        """
        stuck = {*lost, plan.entry, *_ensembles(plan)} if lost else set()
        try:
            await within(self._unload_from_any(plan, stuck), timeout_s)
        except asyncio.TimeoutError as error:
            raise TritonTimeout(
                f"unloading the model {plan.model_name}", timeout_s, "SERVE_UNLOAD_TIMEOUT"
            ) from error
        except InferenceServerException as error:
            raise TritonUnavailable(without_regions(error.message() or str(error))) from error
        except grpc.aio.UsageError as error:
            raise TritonUnavailable("the connection is closed") from error

    async def _unload_from_any(self, plan: ServingPlan, stuck: set[str]) -> None:
        """Unload from the tritonserver that is there, if there is one, also from a new one."""
        while True:
            try:
                return await self._unload(plan, stuck)
            except InferenceServerException as error:
                if error.status() not in _UNREACHABLE:
                    raise
            if await self._is_gone():
                return None
            await asyncio.sleep(_LIVE_LOOK_S)

    async def _unload(self, plan: ServingPlan, stuck: set[str]) -> None:
        await self._ask_to_unload(plan.entry)
        pause, started = _FIRST_LOOK_S, time.monotonic()
        ensembles = _ensembles(plan)
        while held := await self._held(plan):
            waited = time.monotonic() - started
            unloading = "READY" not in held.values()
            if unloading and held.keys() <= stuck and waited > _LOST_UNLOAD_S:
                return
            if unloading and ensembles & held.keys() and waited > _LEAKED_UNLOAD_S:
                why = "met a dead stub" if stuck else "erred in a step beside another one"
                _log.warning(
                    "tritonserver does not release requests that %s, and keeps: %s",
                    why, ", ".join(sorted(held)),
                )  # fmt: skip
                return
            # What is called goes after its caller, which may call it to the very end.
            if plan.entry not in held or plan.entry in stuck or not plan.called:
                for name in reversed(plan.triton_names):
                    if held.get(name) == "READY" and name != plan.entry:
                        await self._ask_to_unload(name)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK_S)

    async def states(self, plan: ServingPlan) -> dict[str, str]:
        """The plan's Triton models that tritonserver has, with their states.

        Raises TritonUnavailable.
        """
        try:
            return await within(self._held(plan), INDEX_TIMEOUT_S)
        except asyncio.TimeoutError as error:
            raise TritonUnavailable("its index does not come") from error
        except InferenceServerException as error:
            raise TritonUnavailable(error.message() or str(error)) from error

    async def answers_load(self, triton_name: str, timeout_s: float) -> bool:
        """Whether the load of that model is answered, whatever the answer is.

        True also for a tritonserver that is not there: it is not stuck.
        """
        try:
            await self._control.load_model(
                triton_name, headers=self._access, client_timeout=timeout_s
            )
            await self._control.unload_model(
                triton_name, headers=self._access, client_timeout=timeout_s
            )
        except InferenceServerException as error:
            return error.status() != _LATE or await self._is_gone()
        except grpc.aio.UsageError:  # the connection is closed: we are stopping
            return True
        return True

    async def _ask_to_unload(self, triton_name: str) -> None:
        await self._control.unload_model(triton_name, headers=self._access, unload_dependents=True)

    async def _held(self, plan: ServingPlan) -> dict[str, str]:
        """The plan's Triton models that are not gone, with their states."""
        names = set(plan.triton_names)
        return {
            model.name: model.state
            for model in await self._index()
            if model.name in names and model.state not in _GONE
        }

    async def _index(self) -> list[triton_grpc.service_pb2.ModelIndex]:
        """Every Triton model. Unbounded: the caller names the limit.

        tritonserver lists the repository's directories and then looks at each; it gives up when one
        of another model is taken away between the two. The next look is a new list.
        """
        while True:
            try:
                index = await self._control.get_model_repository_index(
                    headers=self._access, client_timeout=INDEX_TIMEOUT_S
                )
                return list(index.models)
            except InferenceServerException as error:
                if _DIRECTORY_VANISHED not in (error.message() or ""):
                    raise
            await asyncio.sleep(_FIRST_LOOK_S)

    def _load_error(
        self, plan: ServingPlan, error: InferenceServerException, timeout_s: float
    ) -> Exception:
        message = error.message() or ""
        if error.status() in _UNREACHABLE:
            return TritonUnavailable("it went away during the load")
        if error.status() == _LATE:
            return TritonTimeout(
                f"loading the model {plan.model_name}", timeout_s, "SERVE_LOAD_TIMEOUT"
            )
        reason = load_failure_reason(message)
        if means_exhaustion(message):
            return ResourceExhausted(f"no resources to load the model {plan.model_name}: {reason}")
        doubts = "".join(f"; {doubt}" for doubt in plan.doubts)
        return ModelUnusable(
            f"{_failing_model(plan, message)} failed to load: {reason}{doubts}; see the log of the "
            "container for more"
        )

    # -- inference

    async def infer(
        self,
        path: bytes,
        headers: Headers,
        body: Sequence[bytes],
        timeout_s: float,
        held: Held | None = None,
        left_s: float = 0.0,
        grown: Grown | None = None,
    ) -> Answer:
        """Send an inference and return Triton's whole answer, whatever its status.

        held: kept for as long as tritonserver has the inference, left_s beyond its end here at
        most. grown: once it is told of the bytes of a 200, nobody reads the body any more.
        Raises TritonUnavailable, TritonTimeout or RequestRefused, and what grown raises.
        """
        work = RequestWork(path, tuple(body))  # a caller who leaves takes the list's pieces away
        if not self._suspects.watching:
            return await self._infer(work, path, headers, body, timeout_s, held, left_s, grown)

        async def send() -> Answer:
            return await self._infer(work, path, headers, body, timeout_s, held, left_s, grown)

        return await self._watched(work, lambda: self._tried(work, send), timeout_s)

    async def _infer(
        self,
        work: RequestWork,
        path: bytes,
        headers: Headers,
        body: Sequence[bytes],
        timeout_s: float,
        held: Held | None,
        left_s: float,
        grown: Grown | None,
    ) -> Answer:
        def counted(size: int) -> int:  # not of a small answer
            self._suspects.begun(work)
            return grown(size) if grown is not None else size

        self._suspects.enter(work)
        try:
            answer = await self._http.request(
                b"POST", path, headers, body,
                timeout_s=timeout_s, held=held, left_s=left_s, grown=counted,
            )  # fmt: skip
        except BaseException as error:
            _note_end(work, self._suspects, error, timeout_s)
            raise
        self._suspects.answered(work)
        return answer

    def _hash_later(self) -> None:
        if self._hashing is None or self._hashing.done():
            self._hashing = asyncio.get_running_loop().create_task(self._hash())

    async def _hash(self) -> None:
        """Requests that were given up, one by one, while the loop goes on."""
        while (work := self._suspects.unhashed) is not None:
            try:
                key = await in_daemon_thread(work.key, "hash")
            except RuntimeError:  # no thread is to be had
                key = work.key()
            self._suspects.hashed(work, key)

    async def _tried(self, work: Work, send: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await send()
        if answer.status == 200 or was_carried_out(_said(answer)):
            self._suspects.clear(work)
        return answer

    async def _watched(self, work: Work, send: Callable[[], Awaitable[_T]], timeout_s: float) -> _T:
        """Send it as its standing has it: with others, alone, or not at all."""
        if self._suspects.standing(work) is Standing.INNOCENT:
            return await send()
        deadline = Deadline(timeout_s, "SERVE_INVOKE_TIMEOUT")
        return await deadline.bound(self._trials.of(work, send), "the invocation")

    async def stream(
        self, path: bytes, headers: Headers, body: Sequence[bytes], timeout_s: float
    ) -> tuple[Answer, Stream]:
        """Send an inference and return the answer's head and its body as it comes.

        timeout_s bounds the wait for the head and for each piece. Raises TritonUnavailable or
        TritonTimeout, and so does the stream; also RequestRefused.
        """
        work = RequestWork(path, body)
        if self._suspects.watching:
            return await self._watched(
                work, lambda: self._begin_stream(work, path, headers, body, timeout_s), timeout_s
            )
        return await self._begin_stream(work, path, headers, body, timeout_s)

    async def _begin_stream(
        self, work: Work, path: bytes, headers: Headers, body: Sequence[bytes], timeout_s: float
    ) -> tuple[Answer, Stream]:
        self._suspects.enter(work)
        try:
            answer, pieces = await self._http.stream(
                b"POST", path, headers, body, timeout_s=timeout_s
            )
        except BaseException as error:
            _note_end(work, self._suspects, error, timeout_s)
            raise
        return answer, Stream(pieces, timeout_s, work, self._suspects, clears=answer.status == 200)


def refusal(answer: Answer, plan: ServingPlan, said: Sequence[bytes] = ()) -> Refusal:
    """What an answer of the plan's entry model that is no 200 means.

    said: what the caller wrote, in pieces; words of his prove no lack of memory.
    """
    message = _said(answer)
    return Refusal(judge(answer.status, message, plan.triton_names, said), message, answer.cut)


def _said(answer: Answer) -> str:
    body = b"".join(answer.body)
    return _cut_message(body) if answer.cut else error_message(body)


def error_message(body: bytes) -> str:
    """The text of Triton's error body, or the body itself when it is none.

    Under generate_stream an error is a server-sent event.
    """
    try:
        error = json.loads(body.removeprefix(_EVENT))["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return body.decode(errors="replace").strip()
    return str(error)


def _cut_message(body: bytes) -> str:
    """As error_message, for the beginning of a body, which may end inside an escape."""
    text = body.removeprefix(_EVENT).decode(errors="replace")
    for dropped in range(_LONGEST_ESCAPE):
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            return str(json.loads(text[: len(text) - dropped] + '"}')["error"])
    return text.strip()


def _ensembles(plan: ServingPlan) -> set[str]:
    return {
        model.triton_name
        for model in plan.models
        if "ensemble_scheduling" in (model.config_text or "")
    }


def _failing_model(plan: ServingPlan, message: str) -> str:
    """The model of the archive that the message of a failed load is about."""
    for triton_name, source in plan.source_names.items():
        # In a namespace a name stands behind the repository's path: '/repository::name'.
        named = f"'{triton_name}'" in message or f"::{triton_name}'" in message
        if triton_name != plan.entry and named:
            part = "called model" if triton_name in plan.called else "step"
            return f"the {part} {source} of the model {plan.model_name}"
    return f"the model {plan.model_name}"
