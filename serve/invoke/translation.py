"""Large JSON goes to tritonserver as binary tensors, and comes back as JSON.

tritonserver needs several times as long for large JSON (decision 14). The work is done
on the event loop, in steps of about a tenth of a millisecond between which other requests are
served. Of very large ones one is worked on at a time; others take their steps beside it. It is one
thread's work, and tritonserver has many: where there are cores for it, a very large one that would
wait longer for its turn than it gains goes as it came (serve/invoke/pace.py).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import ParamSpec, TypeVar

from serve.errors import CallerError
from serve.invoke.headers import HEADER_LENGTH
from serve.invoke.json.binary_request import BinaryRequest, make_binary_request
from serve.invoke.json.json_response import write_json_answer
from serve.invoke.json.tensor_json import NotTaken, Steps
from serve.invoke.pace import Pace
from serve.invoke.request_checks import LONGEST_JSON
from serve.invoke.triton_request import TritonRequest
from serve.limit import UNCOUNTED
from serve.models.registry import Model
from serve.triton.connection import Answer, Grown

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Others are let through once the loop has been held for this long, in seconds.
_HELD_S = 0.0001
#: What is larger than this waits for its turn, in bytes: work on one of them takes milliseconds,
#: and memory. The rest goes between its steps.
_IN_TURN = 512 * 1024
#: Less than this is put together in one step, in bytes.
_JOINED_AT_ONCE = 256 * 1024

_JSON, _BINARY = b"application/json", b"application/octet-stream"


class TurnLate(Exception):
    """Others were translated until there was no time left."""


class FairLock:
    """One after another, in the order in which they came, none later than its deadline.

    Not asyncio.wait_for around a lock, which up to Python 3.11 may lose a cancellation.
    """

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, deadline: float) -> None:
        """deadline: of time.monotonic(). Raises TurnLate."""
        if not self._taken:
            self._taken = True
            return
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        timer = loop.call_later(max(0.0, deadline - time.monotonic()), _end_late, mine)
        try:
            await mine
        except BaseException:
            if not mine.cancelled() and mine.exception() is None:  # given, and not wanted any more
                self.release()
            raise
        finally:
            timer.cancel()

    def release(self) -> None:
        """To the next who still waits."""
        while self._waiting:
            mine = self._waiting.popleft()
            if not mine.done():
                mine.set_result(None)
                return
        self._taken = False


def _end_late(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_exception(TurnLate())


class Translation:
    """Between callers who write JSON and tritonserver.

    threshold_bytes: of JSON, in a request or an answer, from which on it is worth it.
    lock: whose turn it is among the very large. beside: how many of these tritonserver may be given
    as they came at the same time. pace: how long one may wait for its turn. do: the work itself.
    """

    def __init__(
        self,
        threshold_bytes: int,
        lock: FairLock | None = None,
        *,
        beside: int = 0,
        pace: Pace | None = None,
        do: Callable[[Steps[BinaryRequest]], Awaitable[BinaryRequest]] | None = None,
    ) -> None:
        self._threshold_bytes, self._do = threshold_bytes, do or stepwise
        self._lock = lock or FairLock()
        self._beside, self._pace = beside, pace or Pace()

    def is_worth_it(self, model: Model, triton_request: TritonRequest) -> bool:
        """Whether a request may be translated: it is large JSON, or its answer will be."""
        large = model.answers_large or sum(map(len, triton_request.body)) >= self._threshold_bytes
        return large and triton_request.json_size is None and not triton_request.takes_compressed

    async def translate_request(
        self,
        model: Model,
        triton_request: TritonRequest,
        deadline: float,
        is_wanted: Callable[[], bool],
        held: ExitStack,
    ) -> TritonRequest:
        """The same request with binary tensors, or as it came if that is not certainly the same.

        deadline: of time.monotonic(). is_wanted: asked when the turn comes. held: is to be closed
        when tritonserver has answered. Raises TurnLate, and CallerError where nobody waits any
        more.
        """
        if not self.is_worth_it(model, triton_request):
            return triton_request
        size = sum(map(len, triton_request.body))
        in_turn = size > _IN_TURN
        if in_turn and not await self._has_turn(triton_request.body, size, deadline, held):
            return triton_request
        try:
            if not is_wanted():
                raise CallerError("the caller is gone")
            began = time.monotonic()
            request = await self._do(_read_request(triton_request.body, model.answers_large))
            if in_turn:
                self._pace.tell(size, time.monotonic() - began)
        except NotTaken:
            return triton_request
        finally:
            if in_turn:
                self._lock.release()
        return TritonRequest(
            triton_request.forwarded,
            [request.head, *request.tensors],
            len(request.head) if request.tensors else None,
            translated=True,
            in_json=request.in_json,
        )

    async def _has_turn(
        self, body: Sequence[bytes], size: int, deadline: float, held: ExitStack
    ) -> bool:
        """Whether the turn has come; if not, the request goes as it came, beside others.

        That is not for what tritonserver reads less exactly (FP64), nor for what is larger than
        JSON may be that is not translated.
        """
        if not self._beside or size > LONGEST_JSON or any(b'"FP64"' in piece for piece in body):
            await self._lock.acquire(deadline)
            return True
        self._beside -= 1
        with ExitStack() as going:
            going.callback(self._end_beside)
            estimate_worth_s = self._pace.estimate_worth_s(size)
            if estimate_worth_s is not None:
                with suppress(TurnLate):
                    await self._lock.acquire(min(deadline, time.monotonic() + estimate_worth_s))
                    return True
            held.push(going.pop_all())
        return False

    def _end_beside(self) -> None:
        self._beside += 1

    async def translate_answer(
        self,
        model: Model,
        request: TritonRequest,
        answer: Answer,
        deadline: float,
        grown: Grown | None = None,
    ) -> Answer:
        """The answer as it would have been to the request that was made.

        grown: told how many bytes there are, those it is written from included, while it is
        written; what it raises ends it. Raises CallerError for outputs that JSON cannot hold,
        InvocationFailed for a broken answer, TurnLate.
        """
        if request.translated:
            async with self._locked_by(deadline, sum(map(len, answer.body))):
                answer = await write_in_json(request, answer, grown)
        if answer.header(b"content-type") == _JSON:
            model.note_answer(large=sum(map(len, answer.body)) >= self._threshold_bytes)
        return answer

    @asynccontextmanager
    async def _locked_by(self, deadline: float, size: int) -> AsyncIterator[None]:
        if size <= _IN_TURN:
            yield
            return
        await self._lock.acquire(deadline)
        try:
            yield
        finally:
            self._lock.release()


async def write_in_json(
    request: TritonRequest, answer: Answer, grown: Grown | None = None
) -> Answer:
    """The answer to a translated request, its outputs as they were asked for; raises as above."""
    length = answer.header(HEADER_LENGTH)
    size = sum(map(len, answer.body))

    def written(more: int) -> None:
        nonlocal size
        size += more
        if grown is not None and size > UNCOUNTED:
            grown(size)

    pieces, head_size = await stepwise(
        _write_answer(answer.body, None if length is None else int(length), request, written)
    )
    headers = [
        header
        for header in answer.headers
        if header[0] not in (HEADER_LENGTH, b"content-type", b"content-length")
    ]
    if head_size is None:
        headers.append((b"content-type", _JSON))
    else:
        headers.append((b"content-type", _BINARY))
        headers.append((HEADER_LENGTH, b"%d" % head_size))
    return Answer(answer.status, headers, deque(pieces))


def in_steps(work: Callable[_P, Steps[_T]]) -> Callable[_P, Awaitable[_T]]:
    """Wraps stepwise work into a coroutine of the same arguments."""

    def begin(*arguments: _P.args, **named: _P.kwargs) -> Awaitable[_T]:
        return stepwise(work(*arguments, **named))

    return begin


async def stepwise(steps: Steps[_T]) -> _T:
    """Do the work, and let others through between its steps."""
    let_through = time.perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: _T = end.value
            return value
        if time.perf_counter() - let_through > _HELD_S:
            await asyncio.sleep(0)
            let_through = time.perf_counter()


def _read_request(body: Sequence[bytes], answer_is_large: bool) -> Steps[BinaryRequest]:
    text = yield from _join(body)
    return (yield from make_binary_request(text, answer_is_large))


def _write_answer(
    body: deque[bytes],
    head_size: int | None,
    request: TritonRequest,
    written: Callable[[int], object],
) -> Steps[tuple[list[bytes], int | None]]:
    whole = yield from _join(body)
    body.clear()
    return (
        yield from write_json_answer(whole, head_size, request.in_json, written, request.wanted)
    )


def _join(pieces: Collection[bytes]) -> Steps[bytes]:
    """The pieces in one; a large one is put together in steps, since memory is slow to come by."""
    size = sum(map(len, pieces))
    if size < _JOINED_AT_ONCE:
        return b"".join(pieces)
    whole = bytearray(size)
    start = 0
    for piece in pieces:
        whole[start : start + len(piece)] = piece
        start += len(piece)
        yield
    # Whoever reads it takes slices, which are copies in any case.
    return whole  # type: ignore[return-value]
