"""HTTP/1.1 to tritonserver's Unix socket, over connections that stay open: bytes out, bytes back.

Written for the invoke path, where the libraries measured cost more than the whole budget of 0.3 ms
(decision 3). It does what that path needs and no more: POST and GET with a body that is
already in memory, answers with a length or in chunks.

A connection whose request was given up is closed and not used again; but where closing cancels
nothing, since tritonserver works on, it can be left open until tritonserver has answered, which
then is known.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from serve.deadline import within
from serve.triton.connection import (
    Answer,
    AnswerStream,
    Connection,
    ConnectionFailed,
    Grown,
    Headers,
)

#: The longest name or value of a header that tritonserver takes, in bytes; at a longer one it
#: closes the connection without a word (seen on 2.36 and 2.51: 8,150 pass, 8,192 do not).
LONGEST_HEADER = 8000
#: After a burst so many connections stay: each is a descriptor of tritonserver's, too.
_MOST_IDLE = 64
#: Bytes of a request that may be on their way to tritonserver: with twice as many as a Unix socket
#: has by default, which is the kernel's usual limit, a large body takes half as many turns.
_SENT_AHEAD = 1024 * 1024
#: Between two tries to connect while too many others wait to be accepted.
_FULL_S = 0.005


class HeaderLong(Exception):
    """A header that tritonserver's HTTP library does not take; nothing was sent."""

    def __init__(self, name: bytes, size: int) -> None:
        super().__init__(f"the header {name!r} has {size} bytes")
        self.name, self.size = name, size


class Place(Protocol):
    """What a request holds for as long as tritonserver has it (request_queue.RequestQueue).

    keep: called when the request is given up here and tritonserver still has it. What it returns is
    called once tritonserver has it no more.
    """

    def keep(self) -> Callable[[], None]: ...


class TritonHttp:
    """A pool of connections to one tritonserver; idle ones are taken last in, first out.

    own_lines: lines of header that each request carries, each with its end. idle: those that wait
    for a request. left: those whose request was given up and is still being answered.
    """

    def __init__(
        self, socket_path: Path, connect_timeout_s: float = 2.0, own_lines: bytes = b""
    ) -> None:
        self._socket_path = str(socket_path)
        self._connect_timeout_s = connect_timeout_s
        self._own_lines = b"host: localhost\r\n" + own_lines
        self.idle: list[Connection] = []
        self.left: set[Connection] = set()

    async def request(
        self,
        method: bytes,
        path: bytes,
        headers: Headers,
        body: Sequence[bytes] = (),
        *,
        timeout_s: float,
        held: Place | None = None,
        left_s: float = 0.0,
        grown: Grown | None = None,
        streams: bool = False,
    ) -> Answer:
        """Send a request and return the answer, whatever its status.

        timeout_s bounds the time after the request was sent. Raises ConnectionFailed or AnswerLate.
        Either, and cancelling it, closes the connection, which tells tritonserver; but with held,
        one that is sound is left open until the answer has come, for left_s at most.
        Raises HeaderLong before anything is sent, and what grown raises.

        streams: the answer is returned when its head has come; timeout_s then bounds the wait for
        each piece as well. A connection that is left open is closed when the head has come:
        tritonserver looks for a closed one when it writes, so closing it earlier cancels nothing.
        """
        head = self._write_head(method, path, headers, body)
        connection = self._take_idle() or await self._connect()
        try:
            connection.send(head, body, grown)
            if streams:
                answer = await connection.answer_head(timeout_s)
            else:
                answer = await connection.whole_answer(timeout_s)
        except BaseException:
            if held is None or not self._leave(connection, held, left_s, streams):
                connection.close()
            raise
        if streams:
            answer.rest = AnswerStream(connection, timeout_s, self.give_back)
        else:
            self.give_back(connection)
        return answer

    def _leave(self, connection: Connection, held: Place, left_s: float, at_head: bool) -> bool:
        def then() -> None:
            self.left.discard(connection)
            self.give_back(connection)
            release()

        if not connection.leave(then, left_s, at_head):
            return False
        self.left.add(connection)
        release = held.keep()
        return True

    def close(self) -> None:
        """Close the idle connections, and those left open; others are closed by their requests."""
        for connection in list(self.left):
            connection.close()
        while self.idle:
            self.idle.pop().close()

    def _take_idle(self) -> Connection | None:
        while self.idle:
            connection = self.idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self) -> Connection:
        connection = Connection()
        try:
            await within(self._connect_when_possible(connection), self._connect_timeout_s)
        except (OSError, asyncio.TimeoutError) as error:
            raise ConnectionFailed(str(error) or "connecting took too long") from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def _connect_when_possible(self, connection: Connection) -> None:
        """Connect as soon as there is room among those that tritonserver has not accepted yet.

        A connection to a Unix socket is there at once, or the kernel refuses it with EAGAIN, which
        asyncio takes for one that is on its way.
        """
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_AHEAD)
        try:
            while True:
                try:
                    connected.connect(self._socket_path)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_FULL_S)
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: connection, sock=connected)
        except BaseException:
            connected.close()
            raise

    def give_back(self, connection: Connection) -> None:
        """Take a connection for the next request; one whose answer is not whole is closed."""
        full = len(self.idle) >= _MOST_IDLE
        if connection.closed or connection.paused or not connection.whole or full:
            connection.close()
        else:
            self.idle.append(connection)

    def _write_head(
        self, method: bytes, path: bytes, headers: Headers, body: Sequence[bytes]
    ) -> bytes:
        lines = [method, b" ", path, b" HTTP/1.1\r\n", self._own_lines]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        length = sum(map(len, body))
        lines.append(b"content-length: %d\r\n\r\n" % length)
        head = b"".join(lines)
        if len(head) > LONGEST_HEADER:
            _check_headers(headers)
        return head


def _check_headers(headers: Headers) -> None:
    for name, value in headers:
        if len(name) > LONGEST_HEADER or len(value) > LONGEST_HEADER:
            raise HeaderLong(name, max(len(name), len(value)))
