"""The multi-model routes over real sockets, in front of a fake Invocation."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import uvicorn

from serve.errors import ModelNotLoaded, ResourceExhausted
from serve.http.app import make_multi_model_app
from serve.http.connections import ConnectionLimits, Connections
from serve.http.invoke_protocol import find_invoked_model, make_invocation_protocol
from serve.http.routes import ModelRoutes, PingRoute
from serve.invoke.invocation import Invocation
from serve.invoke.request import Request
from serve.limit import Limit
from serve.models.lifecycle import Lifecycle
from serve.models.registry import Registry
from serve.models.request_queue import Bounds, RequestQueues
from serve.models.request_rate import RequestRate
from serve.telemetry.captures import CaptureQueue
from serve.telemetry.metrics import Metrics
from serve.telemetry.telemetry import Telemetry
from serve.triton.connection import Answer, AnswerStream
from tests.support.prompt_server import PromptServer

#: For anything that must happen; longer than each of the limits below.
WAIT_S = 120.0


@dataclass
class FakeInvocation:
    """A fake Invocation: says how it was reached, and what it got."""

    streams: bool = False
    timeout_s: float = WAIT_S
    asked: list[tuple[str, Request]] = field(default_factory=list)
    behind: Callable[[str, bytes], Awaitable[None]] | None = None
    most_pieces: int = 0
    waits: bool = True
    #: What a stream gives, piece by piece, and raises at its end.
    pieces: list[bytes] = field(default_factory=list)
    failure: Exception | None = None

    def expect(self, name: str) -> None:
        """All are there but one."""
        if name == "missing":
            raise ModelNotLoaded(name)

    async def forward(self, name: str, request: Request) -> Answer:
        """The body again, with the model's name in front; or the pieces that there are."""
        self.asked.append((name, request))
        if self.streams:
            rest = cast(AnswerStream, _FakeAnswerStream(self))
            return Answer(200, [(b"x-of", b"triton")], rest=rest)
        self.most_pieces = max(self.most_pieces, len(request.body))
        body = b"".join(request.body)
        request.waits = self.waits
        if self.behind is not None:
            await self.behind(name, body)
        if name == "missing":
            raise ModelNotLoaded(name)
        if name == "full":
            raise ResourceExhausted("no memory")
        if name == "bug":
            raise LookupError("a bug")
        pieces = deque([name.encode() + b":", body])
        return Answer(200, [(b"content-type", b"application/json"), (b"x-of", b"triton")], pieces)


class _FakeAnswerStream:
    """A fake AnswerStream."""

    def __init__(self, invocation: FakeInvocation) -> None:
        self._left, self._failure = deque(invocation.pieces), invocation.failure

    def __aiter__(self) -> _FakeAnswerStream:
        return self

    async def __anext__(self) -> bytes:
        if self._left:
            return self._left.popleft()
        raise self._failure or StopAsyncIteration

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Wire:
    """One connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        """Each piece by itself."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.01)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), WAIT_S)
        first, *lines = head.decode().splitlines()[:-1]
        headers = dict(line.split(": ", 1) for line in lines)
        body = await asyncio.wait_for(
            self.reader.readexactly(int(headers.get("content-length", 0))), WAIT_S
        )
        return int(first.split()[1]), headers, body

    async def is_closed(self) -> bool:
        """Whether the server closes it now."""
        return await asyncio.wait_for(self.reader.read(1), WAIT_S) == b""


@dataclass
class RoutesOnFake:
    """The server and what stands behind it."""

    server: PromptServer
    port: int
    invocation: FakeInvocation
    crowd: Connections
    queues: RequestQueues
    metrics: Metrics
    wires: list[Wire] = field(default_factory=list)

    def refused(self, cause: str) -> float:
        """How many refusals of that cause were counted."""
        labels = {"cause": cause}
        return self.metrics.events.get_sample_value("serve_refusals_total", labels) or 0.0

    async def connect(self, receive_buffer: int | None = None) -> Wire:
        """A new connection, which ends with the test; the kernel may hold so much for it."""
        own = socket.socket()
        own.setblocking(False)
        limit = 2**16
        if receive_buffer is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            limit = 1
        await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", self.port))
        self.wires.append(Wire(*await asyncio.open_connection(sock=own, limit=limit)))
        return self.wires[-1]


#: Times that no busy machine uses up, so that tests pass them by a clock of their own; and a bound
#: that a few requests meet.
LIMITS = ConnectionLimits(
    connections=8,
    read_s=30,
    keep_alive_s=60,
    stuck_s=20.0,
    largest_body=Limit(20_000_000, "SERVE_THE_LARGEST"),
)
BOUNDS = Bounds(
    held_bytes=Limit(48_000_000, "a quarter of SERVE_MAX_WAITING_TOTAL_MB"),
    total_held_bytes=Limit(64_000_000, "SERVE_MAX_WAITING_TOTAL_MB"),
)


@contextlib.asynccontextmanager
async def routes_on_fake(
    rate: RequestRate | None = None, captures: CaptureQueue | None = None
) -> AsyncIterator[RoutesOnFake]:
    """The multi-model routes in front of a FakeInvocation; rate, captures: as the protocol's."""
    fake = FakeInvocation()
    crowd, queues = Connections(LIMITS), RequestQueues(BOUNDS)

    async def healthy() -> bool:
        return True

    metrics = Metrics()
    telemetry = Telemetry(metrics)
    model_routes = ModelRoutes(Registry(), cast(Lifecycle, None))
    config = uvicorn.Config(
        make_multi_model_app(
            PingRoute(healthy),
            model_routes,
        ),
        http=make_invocation_protocol(
            cast(Invocation, fake), find_invoked_model, crowd, queues, telemetry, rate, captures
        ),
        host="127.0.0.1",
        port=0,
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = PromptServer(config)
    running = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110 # uvicorn has no event for it
        await asyncio.sleep(0.01)
    watching = asyncio.ensure_future(crowd.watch())
    port = server.servers[0].sockets[0].getsockname()[1]
    routes = RoutesOnFake(server, port, fake, crowd, queues, metrics)
    yield routes
    watching.cancel()
    for wire in routes.wires:
        wire.writer.close()
        with contextlib.suppress(OSError):
            await wire.writer.wait_closed()
    server.should_exit = True
    await asyncio.wait_for(running, WAIT_S)
    assert (len(crowd), queues.held_bytes) == (0, 0)


def post(name: str, body: bytes = b"{}", *, version: str = "1.1", headers: str = "") -> bytes:
    """An invocation as it goes over the wire."""
    head = f"POST /models/{name}/invoke HTTP/{version}\r\nhost: x\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
