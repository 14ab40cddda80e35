"""A server that says exactly the bytes that a test gives it: one coroutine for each connection."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from serve.triton.http import TritonHttp

#: For anything that must happen; a failure, not a sleep.
WAIT_S = 60.0


@dataclass
class Peer:
    """The server's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> tuple[bytes, bytes]:
        """(head, body) of the next request; raises IncompleteReadError at the end."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head, await self.reader.readexactly(size)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def closed(self) -> bool:
        """Whether the client closes, rather than sends something more; waits for either."""
        try:
            return await asyncio.wait_for(self.reader.read(1), WAIT_S) == b""
        except ConnectionError:
            return True


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class FakeServer:
    """A running server: how many connections it got, and the client under test."""

    http: TritonHttp
    path: Path
    connections: int = 0
    scripts: list[asyncio.Task[None]] = field(default_factory=list)

    async def over(self) -> None:
        """Wait for every connection's script; what one raised is raised."""
        await asyncio.wait_for(asyncio.gather(*self.scripts), WAIT_S)


@contextlib.asynccontextmanager
async def fake_server(script: Script, limit: int = 2**16) -> AsyncIterator[FakeServer]:
    """A server that runs the script on each connection, and closes it after that."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stage.connections += 1
        task = asyncio.current_task()
        assert task is not None
        stage.scripts.append(task)
        try:
            await script(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        except asyncio.CancelledError:  # the test is over
            writer.transport.abort()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "http")
    server = await asyncio.start_unix_server(connection, path, limit=limit)
    stage = FakeServer(TritonHttp(path, connect_timeout_s=WAIT_S), path)
    try:
        yield stage
    finally:
        stage.http.close()
        server.close()
        for task in stage.scripts:
            task.cancel()
        await asyncio.gather(*stage.scripts, return_exceptions=True)
        await server.wait_closed()
        folder.cleanup()


def answer(body: bytes = b"ok", *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer with a content-length."""
    rows = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(rows) + b"\r\n\r\n" + body


def saying(*pieces: bytes) -> Script:
    """Reads one request and says the pieces, then closes."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)

    return script


def repeating(*pieces: bytes) -> Script:
    """The same answer to every request of the connection."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(*pieces)

    return script
