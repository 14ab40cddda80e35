"""uvicorn's HTTP protocol, with invocations taken out in front of ASGI.

The hot path. An invocation needs none of what ASGI brings: no scope, no messages, no routing
(decision 15). What is special about a request or its connection (HTTP/1.0, `Expect`, a
request sent ahead of the last answer) is looked at beside the plain case, which it costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from serve.deadline import within
from serve.errors import AskedTooOften, ServeError, TritonUnavailable
from serve.http.bounded_protocol import CONTINUE, BoundedProtocol, Phase
from serve.http.connections import Connections
from serve.http.error_responses import find_status, make_error_answer
from serve.http.request_bounds import has_path
from serve.invoke.invocation import Invocation
from serve.invoke.request import Request
from serve.limit import UNCOUNTED
from serve.log_context import bind
from serve.models.request_queue import HeldBody, RequestQueues
from serve.models.request_rate import RequestRate
from serve.telemetry.captures import CapturedExchange, CaptureQueue
from serve.telemetry.invocation_record import CALLER_LEFT, InvocationRecord
from serve.telemetry.telemetry import Telemetry
from serve.triton.connection import Answer, AnswerStream, Headers, write_together
from serve.triton.diagnosis.stream_errors import StreamErrors

_log = logging.getLogger(__name__)

#: Pieces of a body that are smaller than this are put together, up to so many bytes: each costs a
#: hundred bytes beside its own.
_SMALL_PIECE, _PUT_TOGETHER = 4 * 1024, 64 * 1024


def make_invocation_protocol(
    invocation: Invocation,
    model_of: Callable[[bytes], str | None],
    crowd: Connections,
    queues: RequestQueues,
    telemetry: Telemetry,
    rate: RequestRate | None = None,
    captures: CaptureQueue | None = None,
) -> type[BoundedProtocol]:
    """The protocol class that answers invocations itself.

    model_of: the model's name for the url of an invocation, None for any other url. queues: count
    the bytes of bodies. telemetry: is told how each ended. rate: None for any. captures: where a
    sample of requests and answers goes, None for none.
    """
    members: dict[str, Any] = {
        "invocation": invocation,
        "model_of": staticmethod(model_of),
        "crowd": crowd,
        "queues": queues,
        "telemetry": telemetry,
        "streams": invocation.streams,
    }
    bases: tuple[type[BoundedProtocol], ...] = (_Protocol,)
    if captures is not None:
        bases, members["captures"] = (_CapturingProtocol,), captures
    if rate is not None:  # in front: what it refuses is nobody's sample
        bases, members["rate"] = (_RatedProtocol, *bases), rate
    return type("InvocationProtocol", bases, members)


#: The size of an answer, in bytes, up to which its caller has it before it is counted and logged. A
#: larger one may be read slowly, which is no time of ours.
_TOLD_BEHIND = 32 * 1024
#: Of a larger answer this much is written before others are served, in bytes.
_SENT_AT_ONCE = 128 * 1024


#: Of HTTP, the version in which an answer may come in chunks, and be preceded by an interim one.
_CHUNKED_VERSION = "1.1"

_UNFORESEEN = "an invocation failed for a reason that was not foreseen"

#: Nearly every url is a path in which nothing is quoted, without a query.
_PLAIN_PATH = re.compile(rb"/[A-Za-z0-9_.~/-]*")
_MODELS, _INVOKE, _INVOCATIONS = b"/models/", b"/invoke", b"/invocations"


def find_invoked_model(url: bytes) -> str | None:
    """The model_name of /models/{model_name}/invoke; None for any other url."""
    path = _read_path(url)
    name = path[len(_MODELS) : -len(_INVOKE)]
    if not name or b"/" in name or not (path.startswith(_MODELS) and path.endswith(_INVOKE)):
        return None
    return name.decode(errors="replace")


def is_invocations(url: bytes) -> bool:
    """Whether it is /invocations."""
    return url == _INVOCATIONS or _read_path(url) == _INVOCATIONS


def _read_path(url: bytes) -> bytes:
    """As uvicorn reads it, for routes; empty where there is none."""
    if _PLAIN_PATH.fullmatch(url):
        return url
    return unquote_to_bytes(httptools.parse_url(url).path) if has_path(url) else b""


class _Exchange:
    """An invocation and its answer, in the place that uvicorn keeps an ASGI cycle in.

    uvicorn reads and writes response_complete, disconnected, keep_alive and message_event.
    expects: its caller waits to be told to go on. has_turn: whether those before it on its
    connection have been answered. whole: whether all of it has come.
    """

    #: uvicorn sets it when the connection is lost; nobody waits for it here.
    message_event = asyncio.Event()
    __slots__ = (
        "captured",
        "chunked",
        "disconnected",
        "expects",
        "has_turn",
        "headers",
        "held",
        "keep_alive",
        "model_name",
        "pieces",
        "refusal",
        "request",
        "response_complete",
        "response_started",
        "size",
        "task",
        "uncounted_up_to",
        "whole",
    )

    def __init__(self, model_name: str, headers: Headers) -> None:
        self.response_started = self.response_complete = self.disconnected = False
        self.keep_alive = self.chunked = self.has_turn = True
        self.expects = self.whole = False
        self.model_name, self.headers = model_name, headers
        self.pieces: list[bytes] = []
        self.size, self.uncounted_up_to = 0, UNCOUNTED
        self.held: HeldBody | None = None
        self.task: asyncio.Task[None] | None = None
        self.request: Request | None = None
        self.refusal: AskedTooOften | None = None
        self.captured: CapturedExchange | None = None

    def drop_body(self) -> None:
        """It is needed no more: the answer is there, or nobody waits for it."""
        self.pieces.clear()
        if self.held is not None:
            self.held.release()


class _Protocol(BoundedProtocol):
    invocation: Invocation
    model_of: Callable[[bytes], str | None]
    queues: RequestQueues
    telemetry: Telemetry

    # -- asyncio's and httptools' callbacks

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for cycle, _ in self.pipeline:
            if isinstance(cycle, _Exchange):
                cycle.drop_body()

    def on_message_begin(self) -> None:
        self.phase, self.head_size, self.beside_body, self.hosts = Phase.HEAD, 0, None, 0
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        self.head_read()
        parser = self.parser
        is_invocation = parser.get_method() == b"POST" and not parser.should_upgrade()
        model_name = self.model_of(self.url) if is_invocation else None
        if model_name is not None:
            self._begin_exchange(model_name)
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
        _keep_piece(cycle.pieces, body)

    def on_message_complete(self) -> None:
        cycle: Any = self.cycle
        if cycle.__class__ is not _Exchange:
            super().on_message_complete()
            return
        if self.phase != Phase.BODY:
            return  # of a head that is read again
        self.read_whole()
        cycle.whole = True
        if cycle.has_turn:
            self._begin_answer(cycle)

    # -- one invocation

    def _begin_exchange(self, model_name: str) -> None:
        parser, last = self.parser, self.cycle
        exchange = _Exchange(model_name, self.headers)
        plain = (
            parser.should_keep_alive()
            and parser.get_http_version() == _CHUNKED_VERSION
            and not (self.expect_100_continue or self.beside)
            and (last is None or last.response_complete)
        )
        if not plain:
            self._begin_special(exchange)
        self.cycle = exchange  # type: ignore[assignment]
        self.phase = Phase.BODY
        self.check_announced(self.headers, self.crowd.limits.largest_body)

    def _begin_special(self, exchange: _Exchange) -> None:
        """One that ends its connection, expects a word, comes ahead of its turn, or is refused."""
        self.check_special()
        if self.beside:
            self.refuse(self.crowd.too_many())
        exchange.chunked = self.parser.get_http_version() == _CHUNKED_VERSION
        exchange.keep_alive = exchange.chunked and self.parser.should_keep_alive()
        exchange.expects = exchange.chunked and self.expect_100_continue
        if self.cycle is None or self.cycle.response_complete:
            self._give_turn(exchange)
        else:
            exchange.has_turn = False
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))  # type: ignore[arg-type]

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if cycle.__class__ is not _Exchange:
            super()._start_asgi_task(cycle, app)
            return
        self._give_turn(cycle)
        if cycle.whole:
            self._begin_answer(cycle)

    def _give_turn(self, exchange: _Exchange) -> None:
        exchange.has_turn = True
        if exchange.expects:  # the bytes that came with its head may be why it is refused
            self.loop.call_soon(self._tell_to_go_on, exchange)

    def _tell_to_go_on(self, exchange: _Exchange) -> None:
        if self._is_wanted() and not exchange.response_started and not exchange.disconnected:
            self.transport.write(CONTINUE)

    def _begin_answer(self, exchange: _Exchange) -> None:
        self.answering = exchange
        task = exchange.task = self.loop.create_task(self._answer(exchange))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _count(self, exchange: _Exchange) -> None:
        """The body has grown by much."""
        held = exchange.held
        try:
            if held is None:
                largest = self.crowd.limits.largest_body
                held = exchange.held = HeldBody(self.queues, exchange.model_name, largest)
                self.invocation.expect(exchange.model_name)
            held.grow(exchange.size)
        except ServeError as error:
            self.refuse(error)
        exchange.uncounted_up_to = held.uncounted_up_to

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
        if cycle.__class__ is _Exchange and not cycle.response_complete:
            status = CALLER_LEFT if word is None else find_status(word)
            self.telemetry.invoked(self._record(cycle), status, word)
            cycle.drop_body()
        super().drop_unread(cycle, word)

    def tell_refused(self, error: ServeError) -> None:
        """Counted by its cause; no model is known yet."""
        self.telemetry.refused(error)

    def waits(self, cycle: Any) -> bool:
        """Whether it waits for a place in tritonserver, or is a stream that has not begun."""
        if cycle.__class__ is not _Exchange or not cycle.chunked:
            return False
        return self.streams if cycle.request is None else cycle.request.waits

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
            if answer.rest is not None:
                await self._send_stream(exchange, record, answer, answer.rest)
                return
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
            _log.error(_UNFORESEEN, exc_info=error)
        status, headers, body = make_error_answer(error)
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
        batch = [_write_head(exchange, status, headers, b"content-length: %d\r\n" % length)]
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

    async def _send_stream(
        self, exchange: _Exchange, record: InvocationRecord, answer: Answer, rest: AnswerStream
    ) -> None:
        """Send an answer as it comes; whoever leaves it unread may not hold the model for ever."""
        exchange.response_started = True
        exchange.drop_body()
        record.status, errors, why = answer.status, StreamErrors(), ""
        chunked = b"transfer-encoding: chunked\r\n" if exchange.chunked else b""
        try:
            with closing(rest):
                self.transport.write(_write_head(exchange, answer.status, answer.headers, chunked))
                async for piece in rest:
                    body = errors.pass_on(piece)
                    record.answer_bytes += len(body)
                    self._write_piece(exchange, body, errors)
                    if self.flow.write_paused:
                        await within(self.flow.drain(), self.invocation.timeout_s)
                self._write_piece(exchange, errors.end(), errors)
        except ServeError as error:
            self.telemetry.invoked(record, answer.status, error)
            why = str(error)
        except asyncio.TimeoutError:
            why = "its caller reads no further"
        except Exception as error:
            self.telemetry.invoked(record, answer.status, error)
            why = f"internal error ({type(error).__name__})"
            _log.error(_UNFORESEEN, exc_info=error)
        except asyncio.CancelledError as gone:
            if self._is_wanted():  # the time for what is in flight is over
                stopping = TritonUnavailable("the container is stopping")
                self.telemetry.invoked(record, find_status(stopping), stopping)
                self.transport.abort()
            else:
                self.telemetry.invoked(record, CALLER_LEFT, gone)
        if why:
            with bind(model_name=exchange.model_name):
                _log.error("an answer was broken off: %s", why)
            self.transport.close()  # its head is out: only the connection's end can say so
        elif exchange.chunked and self._is_wanted():
            self.transport.write(b"0\r\n\r\n")
        # An answer that its caller did not read to the end counts as what its head said.
        self.telemetry.invoked(record, record.status)
        self._end(exchange)

    def _write_piece(self, exchange: _Exchange, body: bytes, errors: StreamErrors) -> None:
        while errors.told:
            with bind(model_name=exchange.model_name):
                _log.info("an error inside a stream: %s", errors.told.pop(0))
        if body and self._is_wanted():
            chunk = (b"%x\r\n" % len(body), body, b"\r\n") if exchange.chunked else (body,)
            write_together(self.transport, chunk)

    def _end(self, exchange: _Exchange) -> None:
        exchange.response_complete = True
        exchange.drop_body()
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()


class _RatedProtocol(_Protocol):
    """Refuses requests of models that are asked too often. Where none is, it costs nothing.

    Whether a request is refused is decided at its head. A small body is read, since the connection
    stays then; a larger one, or one that its caller has not begun, ends the connection instead.
    """

    rate: RequestRate

    def _begin_exchange(self, model_name: str) -> None:
        super()._begin_exchange(model_name)
        refusal = self.rate.count(model_name)
        if refusal is None:
            return
        if self.expect_100_continue or _is_large(self.headers):
            self.refuse(refusal)
        exchange: Any = self.cycle
        exchange.refusal = refusal

    def _count(self, exchange: _Exchange) -> None:
        if exchange.refusal is not None:
            self.refuse(exchange.refusal)
        super()._count(exchange)

    def _answer(self, exchange: _Exchange) -> Coroutine[Any, Any, None]:
        if exchange.refusal is None:
            return super()._answer(exchange)
        return self._refuse(exchange, self._record(exchange), exchange.refusal)


class _CapturingProtocol(_Protocol):
    """Keeps a sample of requests with their answers of 200."""

    captures: CaptureQueue

    def _answer(self, exchange: _Exchange) -> Coroutine[Any, Any, None]:
        return (
            self._answer_captured(exchange) if self.captures.draw() else super()._answer(exchange)
        )

    async def _answer_captured(self, exchange: _Exchange) -> None:
        captured = exchange.captured = self.captures.begin(
            exchange.model_name, exchange.headers, exchange.pieces, exchange.size
        )
        try:
            await super()._answer(exchange)
        finally:
            exchange.captured = None  # its connection may be idle for long
            if captured is not None:
                self.captures.end(captured)

    async def _send(
        self,
        exchange: _Exchange,
        status: int,
        headers: Headers,
        pieces: deque[bytes],
        length: int,
    ) -> None:
        if exchange.captured is not None and status == 200:
            exchange.captured.keep_answer(headers, [*pieces])  # sending empties them
        await super()._send(exchange, status, headers, pieces, length)


def _is_large(headers: Headers) -> bool:
    """Whether a body is announced that is worth counting; one in chunks announces nothing."""
    return any(name == b"content-length" and int(value) > UNCOUNTED for name, value in headers)


def _write_head(exchange: _Exchange, status: int, headers: Headers, framing: bytes) -> bytes:
    """framing: the line that says where the body ends."""
    lines = [STATUS_LINE[status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    if not exchange.keep_alive:
        lines.append(b"connection: close\r\n")
    lines += (framing, b"\r\n")
    return b"".join(lines)


def _keep_piece(pieces: list[bytes], piece: bytes) -> None:
    """Put a body's next piece to those before it; many small ones become few."""
    if pieces and len(piece) < _SMALL_PIECE:
        last: object = pieces[-1]
        if isinstance(last, bytearray) and len(last) < _PUT_TOGETHER:
            last += piece  # in its place: a caller may send each byte in a chunk of its own
            return
        pieces.append(bytearray(piece))  # type: ignore[arg-type] # joined and written alike
        return
    pieces.append(piece)
