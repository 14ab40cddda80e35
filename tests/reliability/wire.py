"""HTTP/1.1 over a raw socket: whatever bytes are to be sent, and answers as they come.

Nothing is repaired on the way, so that what a well-behaved client would never send can be sent.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: RFC 9112 6.3: these have no body whatever their headers say.
_BODILESS = (204, 304)
_RECEIVED_AT_ONCE = 1 << 18


class NoAnswer(Exception):
    """The connection ended, or nothing came in time; said: which of it."""

    def __init__(self, said: str, partial: bytes = b"") -> None:
        super().__init__(said)
        self.said, self.partial = said, partial


@dataclass(frozen=True)
class Answer:
    """One whole answer; header names in lower case. closes: no other will follow."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    closes: bool = False

    def complaint(self) -> str | None:
        """What is wrong with it as an error of the contract: JSON with one sentence; or None."""
        if self.headers.get("content-type") != "application/json":
            return f"its Content-Type is {self.headers.get('content-type')}"
        try:
            body = json.loads(self.body)
        except ValueError:
            return "its body is no JSON"
        if not isinstance(body, dict) or list(body) != ["error"]:
            return "its body is not {'error': ...}"
        said = body["error"]
        if not isinstance(said, str) or not said or "\n" in said:
            return "its error is not one sentence"
        return None


class Wire:
    """A connection to 127.0.0.1; opened when it is first needed, and again after it has ended."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._port, self._timeout_s = port, timeout_s
        self._socket: socket.socket | None = None
        self._buffer = b""

    def send(self, pieces: Iterable[bytes], pause_s: float = 0.0) -> None:
        """Each piece in a write of its own; raises NoAnswer when the other side takes no more."""
        try:
            for number, piece in enumerate(pieces):
                if number and pause_s:
                    time.sleep(pause_s)
                self.connected().sendall(piece)
        except TimeoutError as error:
            raise NoAnswer("the request was not read in time") from error
        except OSError as error:
            self._collect()
            if not self._buffer:  # it may have answered before it hung up
                raise NoAnswer(f"broken while sending ({error.strerror})") from error

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):
            self.connected().shutdown(socket.SHUT_WR)

    def answer(self, method: str = "POST") -> Answer:
        """The next answer; raises NoAnswer. What comes of 100 Continue is skipped."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            head = self._until(b"\r\n\r\n", deadline)
            status, headers = _head(head)
            if status >= 200 or status < 100:
                break
        body = self._body(status, method, headers, deadline)
        closes = headers.get("connection", "").lower() == "close"
        if closes:
            self.close()
        return Answer(status, headers, body, closes)

    def is_silent(self) -> bool:
        """Whether nothing has come that nobody has asked for."""
        if self._socket is None:
            return not self._buffer
        self._socket.setblocking(False)
        try:
            self._buffer += self._socket.recv(_RECEIVED_AT_ONCE)
        except OSError:
            pass
        else:
            self._socket.settimeout(self._timeout_s)
            return not self._buffer
        self._socket.settimeout(self._timeout_s)
        return True

    def close_if_ended(self) -> None:
        """Hang up where the other side has closed a connection that nothing was asked on."""
        if self._socket is None or self._buffer:
            return
        try:
            self._socket.setblocking(False)
            has_ended = not self._socket.recv(1, socket.MSG_PEEK)
            self._socket.settimeout(self._timeout_s)
        except BlockingIOError:
            self._socket.settimeout(self._timeout_s)
        except OSError:
            self.close()
        else:
            if has_ended:
                self.close()

    def connected(self) -> socket.socket:
        """The open socket."""
        if self._socket is None:
            self._buffer = b""
            self._socket = socket.create_connection(("127.0.0.1", self._port), self._timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def close(self) -> None:
        """Hang up; idempotent."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def _body(self, status: int, method: str, headers: Mapping[str, str], deadline: float) -> bytes:
        if method == "HEAD" or status in _BODILESS:
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(deadline)
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]), deadline)
        return self._rest(deadline)

    def _chunks(self, deadline: float) -> bytes:
        pieces = []
        while size := int(self._until(b"\r\n", deadline).split(b";")[0], 16):
            pieces.append(self._exactly(size + 2, deadline)[:-2])
        self._until(b"\r\n", deadline)
        return b"".join(pieces)

    def _rest(self, deadline: float) -> bytes:
        with contextlib.suppress(NoAnswer):
            while True:
                self._receive(deadline)
        body, self._buffer = self._buffer, b""
        self.close()
        return body

    def _until(self, mark: bytes, deadline: float) -> bytes:
        while (end := self._buffer.find(mark)) < 0:
            self._receive(deadline)
        found, self._buffer = self._buffer[:end], self._buffer[end + len(mark) :]
        return found

    def _exactly(self, size: int, deadline: float) -> bytes:
        pieces, length = [self._buffer], len(self._buffer)
        while length < size:
            self._buffer = b""
            self._receive(deadline)
            pieces.append(self._buffer)
            length += len(self._buffer)
        whole = b"".join(pieces)
        self._buffer = whole[size:]
        return whole[:size]

    def _receive(self, deadline: float) -> None:
        """More into the buffer; raises NoAnswer at the end of the connection or of the time."""
        if self._socket is None:
            raise NoAnswer("the connection is closed", self._buffer)
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            received = self._socket.recv(_RECEIVED_AT_ONCE)
        except TimeoutError as error:
            raise self._broken(f"nothing for {self._timeout_s:g} s") from error
        except OSError as error:
            raise self._broken(f"the connection broke ({error.strerror})") from error
        if not received:
            raise self._broken("the connection was closed")
        self._buffer += received

    def _broken(self, said: str) -> NoAnswer:
        partial = self._buffer
        self.close()
        return NoAnswer(said, partial)

    def _collect(self) -> None:
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.settimeout(self._timeout_s)
                while received := self._socket.recv(_RECEIVED_AT_ONCE):
                    self._buffer += received


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise NoAnswer(f"no HTTP: {first[:80]!r}", head)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(words[1]), headers


def request(
    path: str,
    body: bytes,
    headers: Iterable[tuple[str, str]] = (),
    method: str = "POST",
) -> bytes:
    """A request as it should be: with Host and Content-Length."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def asked(
    port: int, raw: bytes | Iterable[bytes], timeout_s: float, method: str = "POST"
) -> Answer:
    """The answer on a connection of its own; raises NoAnswer."""
    wire = Wire(port, timeout_s)
    try:
        wire.send([raw] if isinstance(raw, bytes) else raw)
        return wire.answer(method)
    except OSError as error:
        raise NoAnswer(f"no connection ({error.strerror})") from error
    finally:
        wire.close()
