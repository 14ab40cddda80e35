"""uvicorn's HTTP protocol within bounds: a request's size and time, and an end that costs nobody.

What a connection is owed comes first: a request that is refused while an earlier one is being
answered is refused after that answer, and a caller who closes his side only still gets his. The
last word on a connection is said with the writing side closed and the rest read away for a while,
since closing at once may take the word back (RFC 9112 9.6).

A caller who hung up and one who half-closed look alike. One whose request has to wait is asked by
an interim `100 Continue`, which any HTTP/1.1 client passes over (RFC 9110 15.2): the system of one
who hung up refuses it, and his request is given up. What tritonserver works on could not be.
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from serve.errors import (
    BadRequest,
    BodyTooLarge,
    RequestLate,
    ServeError,
    shortened,
)
from serve.http.connections import BESIDE_S, Connections
from serve.http.error_responses import make_error_answer
from serve.http.request_bounds import (
    LARGEST_HEAD,
    LARGEST_LINE,
    LARGEST_OTHER_BODY,
    MOST_AHEAD,
    MOST_HEADERS,
    BesideBody,
    has_path,
    head_too_large,
    head_without_upgrade,
    no_request,
)
from serve.http.sockets import TCP_CLOSE, TCP_CLOSE_WAIT, count_unread_bytes, read_tcp_state

_log = logging.getLogger(__name__)

#: What is said to one who has to make way is out within so long, in seconds, or never will be.
_WORD_OUT_S = 0.1
#: One who closed his side, and waits so long after, is asked whether he is there; again and again;
#: and how long until his system has said so; in seconds.
_DOUBTED_S, _ASKED_AGAIN_S, _LOOKED_AFTER_S = 0.3, 1.0, 0.1
#: Of HTTP, those that are spoken.
_VERSIONS = ("1.1", "1.0")
#: What an interim answer is.
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Phase:
    """How much of a request has come, as plain numbers: they are written twice for each request.

    After NO_MORE nothing more is read.
    """

    NOTHING, HEAD, BODY, NO_MORE, LAST_WORD_SAID = range(5)


class _Refused(Exception):
    """Ends the parser: what it reads is refused."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection; `crowd` is all of them. A subclass may answer requests of its own.

    streams: answers are streams. Whoever closes his side of one is asked at once whether he is
    there: until it begins, tritonserver can have it cancelled.
    """

    crowd: Connections
    streams = False

    # -- asyncio's callbacks

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.phase = Phase.NOTHING
        self._quiet_since = self.loop.time()
        self._reading_since: float | None = None
        self._heard_at = self._quiet_since
        self._stuck_since: float | None = None
        self._fed = self.head_size = 0
        self._body_size = self._most = 0
        self.beside_body: BesideBody | None = None
        self._eof = self._doubted = False
        self.answering: Any = None
        self._word: ServeError | None = None
        self._why: ServeError | None = None
        admitted = self.crowd.admit(self, self._quiet_since)
        self.beside = not admitted
        if admitted is None:
            self.phase = Phase.LAST_WORD_SAID
            error = self.crowd.too_many()
            self.tell_refused(error)
            transport.write(_write_error(error))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.crowd.forget(self)
        answering = self.answering
        if answering is not None and not answering.response_complete:
            self.give_up(answering)
        if self.phase == Phase.BODY:
            self.drop_unread(self.cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.phase >= Phase.NO_MORE:
            return
        self._fed = len(data)
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as wish:
                self._read_without_upgrade(memoryview(data)[wish.args[0] :])
        except httptools.HttpParserError as error:
            self._end_with(self._why or no_request(error))
            return
        if self.phase:
            self._partly_read()

    def _read_without_upgrade(self, rest: memoryview) -> None:
        """Read a head again without its wish to upgrade, and then the rest as its head frames it.

        Upgrades are not offered, and whoever offers none passes over the wish (RFC 9110 7.8). The
        parser would take a body for another protocol's bytes, and the next bytes for a request.
        """
        while True:
            head = head_without_upgrade(self.parser, self.url, self.headers)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
            self._fed = len(head)
            self.parser.feed_data(head)
            self._fed = len(rest)
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as wish:
                rest = rest[wish.args[0] :]

    def eof_received(self) -> bool | None:  # type: ignore[override] # asyncio.Protocol's
        if self.phase == Phase.LAST_WORD_SAID or not self._owes() or self._never_whole():
            return None  # which closes it
        self._eof = True
        self._doubt()
        return True

    def pause_writing(self) -> None:
        self._stuck_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stuck_since = None
        super().resume_writing()

    # -- httptools' callbacks

    def on_message_begin(self) -> None:
        self.phase, self.head_size, self.beside_body, self.hosts = Phase.HEAD, 0, None, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, without a call more; but a trailer is no header (RFC 9110 6.5.1)."""
        if self.phase == Phase.BODY:
            if self._count_beside().trailer_too_much(len(name) + len(value) + 4):
                self.refuse(head_too_large())
            return
        name = name.lower()
        if name == b"host":
            self.hosts += 1
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"transfer-encoding" and value.lower() != b"chunked":
            self.refuse(BadRequest("the header Transfer-Encoding", _quoted(value), "chunked"))
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """What is no invocation; its head has been looked at."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":  # what follows is no HTTP (RFC 9110 9.3.6)
                self.refuse(BadRequest("the request's method", "CONNECT", "no tunnel"))
            return  # the head is read again without it
        invoked = self.url.partition(b"?")[0].endswith((b"/invoke", b"/invocations"))
        self._most = self.crowd.limits.largest_body if invoked else LARGEST_OTHER_BODY
        self.check_special()
        self.check_announced(self.headers, self._most)
        if self.beside and invoked:
            self.refuse(self.crowd.too_many())
        if not has_path(self.url):  # uvicorn would raise
            self.refuse(BadRequest("the request's target", _quoted(self.url), "a path"))
        self._body_size = 0
        super().on_headers_complete()
        self.phase = Phase.BODY

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._most:
            self.refuse(BodyTooLarge("more", self._most))
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.phase != Phase.BODY:
            return  # the head is read again
        self.read_whole()
        super().on_message_complete()

    # -- for subclasses

    def head_read(self) -> None:
        """The head is whole: refuse it if it is too large, or says twice which host is meant."""
        if self.hosts > 1:  # RFC 9112 3.2; without one it is taken, as simple tools send it
            self.refuse(BadRequest("the header Host", f"it {self.hosts} times", "it once"))
        if self._fed + self.head_size > LARGEST_LINE or len(self.headers) > MOST_HEADERS:
            self._check_head()

    def body_size(self) -> int:
        """How much has come of the body that is being read."""
        return self._body_size

    def read_whole(self) -> None:
        """The request is whole."""
        self.phase = Phase.NOTHING
        self._reading_since = None

    def refuse(self, error: ServeError) -> NoReturn:
        """Refuse the request that is being read, from within one of httptools' callbacks."""
        self._why = error
        raise _Refused

    def check_special(self) -> None:
        """Refuse another version, and too many requests ahead of their answers."""
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            self.refuse(BadRequest("the request", f"HTTP/{version}", "HTTP/1.1"))
        if len(self.pipeline) >= MOST_AHEAD:
            self.refuse(
                BadRequest(
                    "requests sent ahead of their answers", f"more than {MOST_AHEAD}", "fewer"
                )
            )

    def check_announced(self, headers: list[tuple[bytes, bytes]], most: int) -> None:
        """Refuse a body that says that it is larger, before any of it has come."""
        for name, value in headers:
            if name == b"content-length" and (len(value) > 18 or int(value) > most):
                self.refuse(BodyTooLarge(f"{value[:20].decode('latin-1')} bytes", most))

    def drop_unread(self, cycle: Any, word: ServeError | None = None) -> None:
        """The request that was being read will never be whole; word: what its caller is told."""
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
        elif cycle.response_started and not cycle.response_complete:
            self.transport.abort()  # nothing can be said inside its answer
        else:
            self.give_up(cycle)
        cycle.response_complete = True

    def give_up(self, cycle: Any) -> None:
        """Nobody wants the answer any more: whoever works on it learns it."""
        cycle.disconnected = True
        cycle.waiting_for_100_continue = False  # nor is he told to go on, behind the last word
        cycle.message_event.set()

    def tell_refused(self, error: ServeError) -> None:
        """A connection, or a request of which only a part of the head came."""

    def waits(self, cycle: Any) -> bool:
        """Whether what was asked could still be given up without anything having been done.

        And whether its caller may be told something meanwhile: not in HTTP/1.0 (RFC 9110 15.2).
        """
        return False

    # -- requests, their answers, and the end

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.answering = cycle
        super()._start_asgi_task(cycle, app)

    def _owes(self) -> bool:
        answering = self.answering
        return (answering is not None and not answering.response_complete) or bool(self.pipeline)

    def _never_whole(self) -> bool:
        """Whether all that is owed is the answer to a request whose body has just broken off."""
        unread = self.phase == Phase.BODY and self.answering is self.cycle
        return unread and not self.cycle.response_started and not self.pipeline

    def on_response_complete(self) -> None:
        """An answer is out: on with what comes next, or the end."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._quiet_since = self.loop.time()
            return
        if self.pipeline:
            self.flow.resume_reading()
            self._start_asgi_task(*self.pipeline.pop())
        elif self.phase == Phase.NO_MORE:
            self._say_last_word()
        elif self._eof or self.beside:
            self.transport.close()
        else:
            self.flow.resume_reading()
            self._quiet_since = self.loop.time()

    def _end_with(self, word: ServeError | None) -> None:
        """Read no further request; say this when all that is owed has been answered."""
        if self.phase == Phase.BODY:
            if self.cycle.response_complete:  # it was answered before its body was read
                word = None
            self.drop_unread(self.cycle, word)
        elif word is not None:
            self.tell_refused(word)
        self.phase, self._word, self._reading_since = Phase.NO_MORE, word, None
        if self.transport.is_closing():
            return
        if self._owes():
            self.flow.pause_reading()
        else:
            self._say_last_word()

    def _say_last_word(self) -> None:
        self.phase, self._quiet_since = Phase.LAST_WORD_SAID, self.loop.time()
        if self._word is not None:
            self.transport.write(_write_error(self._word))
        if self._eof:
            self.transport.close()
            return
        self.transport.write_eof()
        self.flow.resume_reading()

    def shutdown(self) -> None:
        """The server ends: finish what is owed."""
        if self._owes():
            self.answering.keep_alive = self.cycle.keep_alive = False
        else:
            super().shutdown()

    # -- bounds

    def _partly_read(self) -> None:
        """Bytes have come, and a request is not whole."""
        if self.phase == Phase.HEAD:
            # What came before it in the same read is another request's.
            self.head_size += self._fed if self.head_size else 1 + sum(self._head_sizes())
            too_large = self.head_size > LARGEST_HEAD or len(self.headers) > MOST_HEADERS
        else:
            too_large = self._count_beside().too_much_fed(self._fed, self.body_size())
        if too_large:
            self._end_with(head_too_large())
            return
        self._heard_at = self.loop.time()
        if self._reading_since is None:
            self._reading_since = self._heard_at

    def _count_beside(self) -> BesideBody:
        if self.beside_body is None:
            self.beside_body = BesideBody()
        return self.beside_body

    def _head_sizes(self) -> list[int]:
        return [len(self.url), *(len(name) + len(value) + 4 for name, value in self.headers)]

    def _check_head(self) -> None:
        sizes = self._head_sizes()
        if max(sizes) > LARGEST_LINE or sum(sizes) > LARGEST_HEAD or len(sizes) > MOST_HEADERS:
            self.refuse(head_too_large())

    @property
    def idle_since(self) -> float | None:
        """Since when nothing is asked; None while something is."""
        is_asked = self.phase in (Phase.HEAD, Phase.BODY) or self._owes()
        return None if is_asked else self._quiet_since

    @property
    def has_asked(self) -> bool:
        """Whether anything has ever been asked on it."""
        return self.answering is not None

    @property
    def reading_since(self) -> float | None:
        """Since when a request has been coming that nobody works on yet; else None."""
        if self._reading_since is None or self._owes():
            return None
        return max(self._reading_since, self._quiet_since)

    @property
    def stalled_since(self) -> float:
        """Since when such a request has not gone on: a head is to come at once, a body may take."""
        head = self.phase == Phase.HEAD and self._reading_since is not None
        return self._reading_since if head else self._heard_at  # type: ignore[return-value]

    def is_under_way(self, now: float) -> bool:
        """Whether a first request lies unread (a system call), or its caller reads an answer."""
        if self.answering is None:
            return count_unread_bytes(self.transport) > 0
        return self._has_unsent() and now - self._quiet_since < self.crowd.limits.linger_s

    def make_way(self) -> None:
        """Another connection needs its descriptor, which is free at once, or in _WORD_OUT_S."""
        if self._reading_since is None or self._has_unsent():
            self._end_for_certain()
            return
        self._end_with(self.crowd.too_many())
        self.transport.close()
        self.loop.call_later(_WORD_OUT_S, self.transport.abort)

    def _has_unsent(self) -> bool:
        """Whether its caller leaves unread what the kernel has no more room for."""
        return self.transport.get_write_buffer_size() > 0

    def _end_for_certain(self) -> None:
        """A close would wait until its caller has read, or for ever."""
        if self._has_unsent():
            self.transport.abort()
        else:
            self.transport.close()

    def look(self, now: float) -> None:
        """End what takes too long."""
        limits = self.crowd.limits
        quiet = now - self._quiet_since
        if self._stuck_since is None and self.transport.is_closing():
            self._stuck_since = now  # it waits until its caller has read
        if self._stuck_since is not None and now - self._stuck_since > self._patience():
            self.transport.abort()
        elif self.flow.read_paused and self._owes():
            if not self._doubted and read_tcp_state(self.transport) in (TCP_CLOSE, TCP_CLOSE_WAIT):
                self._doubt()
            if self._reading_since is not None:
                self._reading_since = now  # it is us who do not read
        elif self._reading_since is not None:
            if now - self._reading_since > limits.read_s:
                self._end_with(RequestLate(limits.read_s))
        elif self.idle_since is not None:
            allowed = limits.keep_alive_s if self.answering is not None else limits.read_s
            if self.beside:
                allowed = min(allowed, BESIDE_S)
            if self.phase != Phase.LAST_WORD_SAID and quiet > allowed:
                self._end_for_certain()
            elif self.phase == Phase.LAST_WORD_SAID and quiet > limits.linger_s:
                self.transport.close()

    def _patience(self) -> float:
        """For how long its caller may leave unread what there is for him."""
        stuck_s = self.crowd.limits.stuck_s
        return min(stuck_s, BESIDE_S) if self.beside else stuck_s

    # -- callers who closed their side

    def _doubt(self) -> None:
        if not self._doubted:
            self._doubted = True
            self.loop.call_later(0 if self.streams else _DOUBTED_S, self._ask)

    def _ask(self) -> None:
        """Whether the caller is there: what is sent to one who is not is refused by his system."""
        self._look_whether_gone()
        answering = self.answering
        if self.transport.is_closing() or not self._owes():
            self._doubted = False
            return
        if self.waits(answering) and not answering.response_started:
            self.transport.write(CONTINUE)
            self.loop.call_later(_LOOKED_AFTER_S, self._look_whether_gone)
        self.loop.call_later(_ASKED_AGAIN_S, self._ask)

    def _look_whether_gone(self) -> None:
        if not self.transport.is_closing() and read_tcp_state(self.transport) == TCP_CLOSE:
            self.transport.abort()


def _quoted(raw: bytes) -> str:
    return shortened(raw.decode("latin-1"))


def _write_error(error: ServeError) -> bytes:
    status, headers, body = make_error_answer(error)
    lines = [STATUS_LINE[status], *(b"%s: %s\r\n" % header for header in headers)]
    lines.append(b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body))
    return b"".join([*lines, body])
