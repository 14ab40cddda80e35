"""uvicorn's HTTP protocol, with invocations taken out in front of ASGI.

The hot path. An invocation needs none of what ASGI brings: no scope, no messages, no routing
(docs/decisions/0015). Only the plain case is taken out; whatever is special about a request or its
connection (HTTP/1.0, `Expect`, an upgrade, a request sent ahead of the last answer, a path that is
quoted) goes the usual way, which answers an invocation alike (routes.InvokeRoute).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from serve.deadline import within
from serve.errors import ServeError, TritonUnavailable
from serve.http.bounded_protocol import BoundedProtocol, Stage
from serve.http.connections import Connections
from serve.http.error_responses import error_answer, status_of
from serve.http.routes import EXTENSION, LAST_WORD
from serve.invoke.headers import keep_piece
from serve.invoke.invocation import Invocation
from serve.invoke.request import Request
from serve.limit import UNCOUNTED
from serve.models.waiting_room import HeldBody, WaitingRooms
from serve.telemetry.record import CALLER_LEFT, InvocationRecord
from serve.telemetry.telemetry import Telemetry
from serve.triton.connection import Headers, write_together

_log = logging.getLogger(__name__)


def invocation_protocol(
    invocation: Invocation,
    model_of: Callable[[bytes], str | None],
    crowd: Connections,
    rooms: WaitingRooms,
    telemetry: Telemetry,
) -> type[BoundedProtocol]:
    """The protocol class that answers invocations itself.

    model_of: the model's name for the path of an invocation, None for any other path. Whole answers
    only: not for an invocation that streams. rooms: count the bytes of bodies. telemetry: is told
    how each ended.
    """
    members = {
        "invocation": invocation,
        "model_of": staticmethod(model_of),
        "crowd": crowd,
        "rooms": rooms,
        "telemetry": telemetry,
        "streams": invocation.streams,
    }
    return type("InvocationProtocol", (_Protocol,), members)


#: The size of an answer, in bytes, up to which its caller has it before it is counted and logged. A
#: larger one may be read slowly, which is no time of ours.
_TOLD_BEHIND = 32 * 1024
#: Of a larger answer this much is written before others are served, in bytes.
_SENT_AT_ONCE = 128 * 1024


class _Exchange:
    """An invocation and its answer, in the place that uvicorn keeps an ASGI cycle in.

    uvicorn reads and writes response_complete, disconnected, keep_alive and message_event.
    """

    #: uvicorn sets it when the connection is lost; nobody waits for it here.
    message_event = asyncio.Event()
    __slots__ = (
        "disconnected",
        "headers",
        "held",
        "keep_alive",
        "model_name",
        "pieces",
        "request",
        "response_complete",
        "response_started",
        "size",
        "task",
        "uncounted_up_to",
    )

    def __init__(self, model_name: str, headers: Headers) -> None:
        self.response_started = self.response_complete = self.disconnected = False
        self.keep_alive = True
        self.model_name, self.headers = model_name, headers
        self.pieces: list[bytes] = []
        self.size, self.uncounted_up_to = 0, UNCOUNTED
        self.held: HeldBody | None = None
        self.task: asyncio.Task[None] | None = None
        self.request: Request | None = None

    def drop_body(self) -> None:
        """It is needed no more: the answer is there, or nobody waits for it."""
        self.pieces.clear()
        if self.held is not None:
            self.held.release()


class _Protocol(BoundedProtocol):
    invocation: Invocation
    model_of: Callable[[bytes], str | None]
    rooms: WaitingRooms
    telemetry: Telemetry

    # -- httptools' callbacks

    def on_message_begin(self) -> None:
        self.stage, self.head_size, self.beside_body, self.hosts = Stage.HEAD, 0, None, 0
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        self.head_read()
        model_name = self._find_invoked_model()
        if model_name is not None:
            self.cycle = _Exchange(model_name, self.headers)  # type: ignore[assignment]
            self.stage = Stage.BODY
            return
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers = self.scope["headers"] = headers
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle: Any = self.cycle
        if cycle.__class__ is not _Exchange:
            super().on_body(body)
            return
        cycle.size += len(body)
        if cycle.size > cycle.uncounted_up_to:
            self._count(cycle)
        keep_piece(cycle.pieces, body)

    def on_message_complete(self) -> None:
        cycle: Any = self.cycle
        if cycle.__class__ is not _Exchange:
            super().on_message_complete()
            return
        if self.stage != Stage.BODY:
            return  # of a head that is read again
        self.read_whole()
        self.answering = cycle
        task = cycle.task = self.loop.create_task(self._answer(cycle))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # -- one invocation

    def _find_invoked_model(self) -> str | None:
        """The model of a plain invocation; None for anything else."""
        parser, last = self.parser, self.cycle
        if (
            parser.get_method() != b"POST"
            or self.expect_100_continue
            or (last is not None and not last.response_complete)
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or parser.should_upgrade()
            or self.beside
        ):
            return None
        return self.model_of(self.url)

    def _count(self, exchange: _Exchange) -> None:
        """The body has grown by much."""
        held = exchange.held
        try:
            if held is None:
                held = exchange.held = self._begin_counting(exchange)
                self.invocation.expect(exchange.model_name)
            held.grow(exchange.size)
        except ServeError as error:
            self.refuse(error)
        exchange.uncounted_up_to = held.uncounted_up_to

    def _begin_counting(self, exchange: _Exchange) -> HeldBody:
        largest = self.crowd.limits.largest_body
        self.check_announced(exchange.headers, largest)
        return HeldBody(self.rooms, exchange.model_name, largest)

    def body_size(self) -> int:
        """How much has come of the body that is being read."""
        cycle: Any = self.cycle
        return cycle.size if cycle.__class__ is _Exchange else super().body_size()

    def give_up(self, cycle: Any) -> None:
        """Nobody wants the answer any more."""
        if cycle.__class__ is not _Exchange:
            super().give_up(cycle)
            return
        cycle.disconnected = True
        if cycle.task is not None:
            cycle.task.cancel()
        cycle.drop_body()

    def drop_unread(self, cycle: Any, word: ServeError | None = None) -> None:
        """The request that was being read will never be whole; word: what its caller is told."""
        if cycle.__class__ is not _Exchange:
            cycle.scope["extensions"][LAST_WORD] = word
        elif not cycle.response_complete:
            status = CALLER_LEFT if word is None else status_of(word)
            self.telemetry.invoked(self._record(cycle), status, word)
        super().drop_unread(cycle, word)

    def tell_refused(self, error: ServeError) -> None:
        """Counted by its cause; no model is known yet."""
        self.telemetry.refused(error)

    def waits(self, cycle: Any) -> bool:
        """Whether it waits for a place in tritonserver, or is a stream that has not begun."""
        if cycle.__class__ is not _Exchange:
            request = cycle.scope.get("extensions", {}).get(EXTENSION)
        else:
            request = cycle.request
        return self.streams if request is None else request.waits

    async def _answer(self, exchange: _Exchange) -> None:
        record = self._record(exchange)
        request = exchange.request = Request(
            exchange.headers, exchange.pieces, self._is_wanted, held=exchange.held, record=record
        )
        try:
            answer = await self.invocation.forward(exchange.model_name, request)
        except BaseException as error:
            if self._is_wanted():
                await self._refuse(exchange, record, error)
            else:
                self.telemetry.invoked(record, CALLER_LEFT, error)
                self._end(exchange)
        else:
            length = record.answer_bytes = sum(map(len, answer.body))
            if length > _TOLD_BEHIND or self.flow.write_paused:
                self.telemetry.invoked(record, answer.status)
            await self._send(exchange, answer.status, answer.headers, answer.body, length)
            self.telemetry.invoked(record, answer.status)
        finally:  # callers may read slowly, or not
            request.release_answer()

    def _record(self, exchange: _Exchange) -> InvocationRecord:
        record, exchange.headers = self.telemetry.begin(
            exchange.model_name, exchange.size, exchange.headers
        )
        return record

    def _is_wanted(self) -> bool:
        """Whether the caller is still there."""
        return not self.transport.is_closing()

    async def _refuse(
        self, exchange: _Exchange, record: InvocationRecord, error: BaseException
    ) -> None:
        if isinstance(error, asyncio.CancelledError):  # the time for what is in flight is over
            error = TritonUnavailable("the container is stopping")
        if not isinstance(error, Exception):
            raise error
        if not isinstance(error, ServeError):
            _log.error("an invocation failed for a reason that was not foreseen", exc_info=error)
        status, headers, body = error_answer(error)
        self.telemetry.invoked(record, status, error)
        await self._send(exchange, status, headers, deque([body]), len(body))

    async def _send(
        self,
        exchange: _Exchange,
        status: int,
        headers: Headers,
        pieces: deque[bytes],
        length: int,
    ) -> None:
        """Send an answer; a large one piece by piece, so that others are served in between.

        length: bytes of all pieces.

        The next request of this connection is not looked at before the caller has read on.
        """
        exchange.response_started = True
        exchange.drop_body()  # a caller may read slowly, and then be idle for long
        batch = [self._head(exchange, status, headers, length)]
        size = 0
        try:
            while self._is_wanted():
                while pieces and size < _SENT_AT_ONCE:
                    size += len(pieces[0])
                    batch.append(pieces.popleft())
                write_together(self.transport, batch)
                batch, size = [], 0
                if self.flow.write_paused:  # a caller that reads no further is not waited for
                    await within(self.flow.drain(), self.invocation.timeout_s)
                if not pieces:
                    break
                await asyncio.sleep(0)
        except (asyncio.CancelledError, asyncio.TimeoutError):
            self.transport.abort()  # its head is out: only the connection's end can say so
        self._end(exchange)

    def _head(self, exchange: _Exchange, status: int, headers: Headers, length: int) -> bytes:
        lines = [STATUS_LINE[status]]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        if not exchange.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"content-length: %d\r\n\r\n" % length)
        return b"".join(lines)

    def _end(self, exchange: _Exchange) -> None:
        exchange.response_complete = True
        exchange.drop_body()
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()
