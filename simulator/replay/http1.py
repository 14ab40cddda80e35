"""A lean HTTP/1.1 client for load: hundreds of requests in flight cost the same each.

httpx's pool looks at every connection for every request (10 ms of CPU each with 500 in flight, as
measured here), which the measured latencies would have in them. Parsing is httptools', uvicorn's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import httptools

#: Shorter than servers keep idle connections (uvicorn: 5 s), so that none is used as it closes.
_KEPT_IDLE_S = 2.0
_READ_BYTES = 65536


class Closed(ConnectionError):
    """The server closed the connection without a whole answer."""


@dataclass
class HttpAnswer:
    """Status, headers by lower-case name, body; filled by the parser's calls."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        """A part of the body, without its framing."""
        self.body += data

    def on_message_complete(self) -> None:
        """The end."""
        self.whole = True


@dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0

    @property
    def usable(self) -> bool:
        fresh = time.monotonic() - self.idle_since < _KEPT_IDLE_S
        return fresh and not self.reader.at_eof() and not self.writer.is_closing()

    async def ask(self, request: bytes) -> tuple[HttpAnswer, bool]:
        """The answer, and whether the connection may be used again."""
        self.writer.write(request)
        answer = HttpAnswer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.whole:
            data = await self.reader.read(_READ_BYTES)
            if not data:
                raise Closed("the connection was closed without a whole answer")
            parser.feed_data(data)
        answer.status = parser.get_status_code()
        # RFC 9112, 9.3. The parser's own word is no more to be had after the end of the message.
        closing = answer.headers.get("connection", "").lower() == "close"
        return answer, parser.get_http_version() == "1.1" and not closing


class Http1:
    """POST to one server; connections are kept for a moment, the youngest is used first."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._idle: list[_Connection] = []

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Raises OSError (Closed among them) and httptools.HttpParserError."""
        connection = self._kept() or await self._opened()
        keep = False
        try:
            answer, keep = await connection.ask(self._request(path, headers, body))
        finally:
            if keep:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.writer.close()
        return answer

    async def close(self) -> None:
        """Close what is kept."""
        for connection in self._idle:
            connection.writer.close()
        self._idle.clear()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.writer.close()
        return None

    async def _opened(self) -> _Connection:
        return _Connection(*await asyncio.open_connection(self._host, self._port))

    def _request(self, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"POST {path} HTTP/1.1", f"Host: {self._host}:{self._port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join((*lines, f"Content-Length: {len(body)}", "", ""))
        return head.encode("latin-1") + body
