"""One connection to tritonserver: a request's bytes out, the answer's bytes back.

It carries one request at a time. A connection that received what it did not ask for is closed and
not used again. The hot path (decision 3).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

import httptools

from serve.limit import UNCOUNTED

Headers = list[tuple[bytes, bytes]]

#: An answer whose consumer is slower than tritonserver is read no further than this, in bytes.
STREAM_HIGH_WATER = 4 * 1024 * 1024
#: Of an answer that is no 200 so many bytes are kept: somebody reads them all at once.
MOST_OF_ERROR = 64 * 1024
#: Below this a copy costs less than a system call that gathers pieces, in bytes.
_COPIED_BELOW = 32 * 1024
#: uvloop's timers are due up to half of this too early, in seconds.
_TIMER_ROUNDS_S = 0.001


class ConnectionFailed(Exception):
    """The connection could not be made, or ended before the answer was whole."""


class AnswerLate(Exception):
    """The answer, or its head, did not come within the time given."""


#: Told how many bytes of a 200's body have come, if more than UNCOUNTED have; says up to how many
#: it need not be told. What it raises ends the request.
Grown = Callable[[int], int]


@dataclass
class Answer:
    """An HTTP answer. Header names are lower case."""

    status: int = 0
    headers: Headers = field(default_factory=list)
    body: deque[bytes] = field(default_factory=deque)  # in the pieces it came in
    cut: bool = False  # it is no 200, and had more than MOST_OF_ERROR bytes
    rest: AnswerStream | None = None  # what has not come yet of one that streams

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        return next((value for key, value in self.headers if key == name), None)


def write_together(transport: asyncio.WriteTransport, pieces: Collection[bytes]) -> None:
    """Write pieces with as few system calls and copies as it takes."""
    if sum(map(len, pieces)) < _COPIED_BELOW:
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)


class _Limit:
    """A connection's wait for an answer, or for a piece of one. A class: generators cost more."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._connection.deadline = math.inf


class Connection(asyncio.Protocol):
    """One connection: writes a request, collects the answer, says when something came."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.reusable = True
        #: Nothing is read from it until the body so far has been taken.
        self.paused = False
        self._parser: httptools.HttpResponseParser | None = None
        self._answer = Answer()
        self._head = self._complete = self._streamed = False
        #: Bytes of the body that have come and have not been taken.
        self.buffered = 0
        self._grown: Grown | None = None
        self._uncounted_up_to = UNCOUNTED
        self._error_room = 0
        self._refused: Exception | None = None
        self._error: str | None = None
        self._expired = False
        #: The end of the wait under way, of the loop's time. There is a timer for it or an earlier
        #: one, which is moved when it is due: one for each wait costs a small request 3 us.
        self.deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._when_over: Callable[[], None] | None = None
        self._over_at_head = False

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods only

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._complete:
            self._fail("it sent bytes that nothing was asked for")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"its answer is no HTTP/1.1 that was asked for ({error})")
        if self._streamed and self.buffered > STREAM_HIGH_WATER and not self._complete:
            self._pause()
        if self._when_over is not None and (self._complete or (self._head and self._over_at_head)):
            self._when_over()
        self._wake()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        self._stop_timer()
        if not self._complete and self._refused is None:
            self._error = self._error or f"the connection ended{f' ({exc})' if exc else ''}"
        if self._when_over is not None:
            self._when_over()
        self._wake()

    # -- httptools' callbacks. Interim answers (1xx) come as messages of their own; so does a second
    #    answer behind the one that was asked for, which must not change it.

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._complete:
            self._answer.headers.append((name.lower(), value.rstrip()))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if self._complete:
            return
        self._answer.status = self._parser.get_status_code()
        if self._is_interim():
            self._answer.headers.clear()
        else:
            self._head = True
            self._error_room = MOST_OF_ERROR

    def on_body(self, body: bytes) -> None:
        if self._complete or self._when_over is not None or self._refused is not None:
            return
        if self._answer.status != 200:
            self._keep_error(body)
            return
        self._answer.body.append(body)
        self.buffered += len(body)
        if self._grown is not None and self.buffered > self._uncounted_up_to:
            self._count(self._grown)

    def _keep_error(self, body: bytes) -> None:
        part = body[: self._error_room]
        self._answer.cut = self._answer.cut or len(part) < len(body)
        self._error_room -= len(part)
        if part:
            self._answer.body.append(part)
            self.buffered += len(part)

    def _count(self, grown: Grown) -> None:
        try:
            self._uncounted_up_to = grown(self.buffered)
        except Exception as error:  # for whoever waits for the answer
            self._refused = error
            self._answer.body.clear()
            self.close()

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if not self._complete and self._is_interim():
            return
        self.reusable = not self._complete and self.reusable and self._parser.should_keep_alive()
        self._complete = True

    def on_message_begin(self) -> None:
        if self._complete:
            self.reusable = False

    def _is_interim(self) -> bool:
        return 100 <= self._answer.status < 200

    # -- the requests' side

    @property
    def closed(self) -> bool:
        return self.transport is None or self.transport.is_closing() or not self.reusable

    @property
    def whole(self) -> bool:
        """Whether all of the answer has come."""
        return self._complete

    def send(self, head: bytes, body: Sequence[bytes], grown: Grown | None = None) -> None:
        if self.transport is None or self.closed:  # it can end while it is being made
            raise ConnectionFailed(self._error or "the connection ended before the request")
        self._parser = httptools.HttpResponseParser(self)
        self._answer = Answer()
        self._head = self._complete = self._streamed = False
        self.buffered, self._uncounted_up_to = 0, UNCOUNTED
        self._grown, self._refused = grown, None
        self._error = None
        write_together(self.transport, [head, *body])

    async def whole_answer(self, timeout_s: float) -> Answer:
        """The answer once all of it is here; raises AnswerLate, and what `grown` raised."""
        with self._limit(timeout_s):
            while not self._complete and self._refused is None:
                await self._something()
        self._grown = None  # who is told knows the request's body, and nobody may keep that
        if self._refused is not None:
            try:
                raise self._refused
            finally:
                self._refused = None
        return self._answer

    async def answer_head(self, timeout_s: float) -> Answer:
        """The answer once its headers are here, its body taken from pieces(); raises AnswerLate."""
        self._streamed = True
        with self._limit(timeout_s):
            while not self._head:
                await self._something()
        return self._answer

    async def piece(self, timeout_s: float) -> bytes | None:
        """The next piece of the body, None at its end; raises AnswerLate."""
        with self._limit(timeout_s):
            while not self._answer.body and not self._complete:
                self._resume()
                await self._something()
        if not self._answer.body:
            return None
        piece = self._answer.body.popleft()
        self.buffered -= len(piece)
        return piece

    def close(self) -> None:
        self.reusable, self._grown = False, None
        if self.transport is not None:
            self.transport.abort()

    def leave(self, then: Callable[[], None], limit_s: float, at_head: bool = False) -> bool:
        """Wait no longer for the answer to what was sent, but take it when it comes.

        then: called once, when it has come (with at_head: when its head has), when the connection
        ends, or after limit_s, which closes it. False where nothing is on its way.
        """
        if self.closed or self._parser is None or self._complete or (at_head and self._head):
            return False
        timer = asyncio.get_running_loop().call_later(limit_s, self.close)

        def ended() -> None:
            self._when_over = None
            timer.cancel()
            then()

        self._when_over, self._over_at_head, self._grown = ended, at_head, None
        self._answer.body.clear()
        return True

    def _pause(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
            self.paused = True

    def _resume(self) -> None:
        if self.paused and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
            self.paused = False

    def _limit(self, timeout_s: float) -> _Limit:
        # within() would start a task for each request: a tenth of the whole budget.
        loop = asyncio.get_running_loop()
        self.deadline, self._expired = loop.time() + timeout_s, False
        if self._timer is not None and self._timer.when() > self.deadline:
            self._stop_timer()
        if self._timer is None:
            self._timer = loop.call_at(self.deadline, self._look_at_deadline)
        return _Limit(self)

    def _look_at_deadline(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if self.deadline - loop.time() > _TIMER_ROUNDS_S:
            if self.deadline < math.inf:
                self._timer = loop.call_at(self.deadline, self._look_at_deadline)
            return
        self._expired = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(AnswerLate())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _something(self) -> None:
        if self._error is not None:
            raise ConnectionFailed(self._error)
        if self._expired:  # between two waits, when there was nobody to tell
            raise AnswerLate
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._error is not None and not self._complete:
            raise ConnectionFailed(self._error)

    def _fail(self, why: str) -> None:
        self._error = why
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class AnswerStream:
    """An answer's body as it comes.

    Read it to its end or close it: until then it holds its connection, which give_back takes when
    all of it has come. Raises AnswerLate when no piece comes for timeout_s, ConnectionFailed when
    the connection ends before the body.

    at_end: what is to be done then, once, by whoever hands the stream on. It is told of an error as
    `__exit__` is, and may raise another one in its place. whole: the body was read to its end; else
    it was given up.
    """

    def __init__(
        self, connection: Connection, timeout_s: float, give_back: Callable[[Connection], None]
    ) -> None:
        self._give_back, self._timeout_s = give_back, timeout_s
        self._connection: Connection | None = connection
        self.at_end, self.whole = ExitStack(), False

    def __aiter__(self) -> AnswerStream:
        return self

    async def __anext__(self) -> bytes:
        if self._connection is None:
            raise StopAsyncIteration
        try:
            piece = await self._connection.piece(self._timeout_s)
        except BaseException:
            with self.at_end:
                self._drop()
                raise
        if piece is None:
            self._give_back(self._connection)
            self._connection, self.whole = None, True
            self.at_end.close()
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Give up what has not been read, which tells tritonserver; idempotent."""
        with self.at_end:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
