"""Invocations on the wire: the plain ones in front of ASGI, the others behind it, all alike."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
import uvicorn

from serve.app import multi_model_app
from serve.errors import ModelNotLoaded, ResourceExhausted
from serve.http_protocol import invocation_protocol
from serve.invocation import Invocation, Request
from serve.lifecycle import Lifecycle
from serve.registry import Registry
from serve.routes import InvokeRoute, ModelRoutes, PingRoute, invoked_model
from serve.triton_http import Answer

WAIT_S = 10.0


@dataclass
class Forwarding:
    """In the place of an Invocation: says how it was reached, and what it got."""

    streams = False
    timeout_s = WAIT_S
    asked: list[tuple[str, Request]] = field(default_factory=list)
    behind: Callable[[str, bytes], Awaitable[None]] | None = None

    async def forward(self, name: str, request: Request) -> Answer:
        """The body again, with the model's name in front."""
        self.asked.append((name, request))
        body = b"".join(request.body)
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


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Leave the signals alone."""
        yield


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
class Served:
    """The server and what stands behind it."""

    server: _Server
    port: int
    forwarding: Forwarding
    wires: list[Wire] = field(default_factory=list)

    async def connect(self) -> Wire:
        """A new connection, which ends with the test."""
        self.wires.append(Wire(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.wires[-1]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """The multi-model routes in front of a Forwarding."""
    forwarding = Forwarding()
    invocation = cast(Invocation, forwarding)

    async def healthy() -> bool:
        return True

    routes = ModelRoutes(Registry(), cast(Lifecycle, None))
    config = uvicorn.Config(
        multi_model_app(PingRoute(healthy), routes, InvokeRoute(invocation)),
        http=invocation_protocol(invocation, invoked_model),
        host="127.0.0.1", port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = _Server(config)
    running = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110 # uvicorn has no event for it
        await asyncio.sleep(0.01)
    served = Served(server, server.servers[0].sockets[0].getsockname()[1], forwarding)
    yield served
    for wire in served.wires:
        wire.writer.close()
        with contextlib.suppress(OSError):
            await wire.writer.wait_closed()
    server.should_exit = True
    await asyncio.wait_for(running, WAIT_S)


def post(name: str, body: bytes = b"{}", *, version: str = "1.1", headers: str = "") -> bytes:
    """An invocation as it goes over the wire."""
    head = f"POST /models/{name}/invoke HTTP/{version}\r\nhost: x\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("request_", "through_asgi"),
    [
        (post("m"), False),
        (post("%6d"), True),
        (post("m").replace(b"/invoke", b"/invoke?a=b"), True),
        (post("m", headers="Connection: close\r\n"), True),
        (post("m", version="1.0"), True),
    ],
    ids=["plain", "quoted", "query", "close", "HTTP/1.0"],
)
async def test_an_invocation(
    served: Served, monkeypatch: pytest.MonkeyPatch, request_: bytes, through_asgi: bool
) -> None:
    """The same answer on both ways, and the way that is meant."""
    called = []
    route = InvokeRoute.__call__

    async def noted(self, scope, receive, send):  # type: ignore[no-untyped-def]
        called.append(scope["path"])
        await route(self, scope, receive, send)

    monkeypatch.setattr(InvokeRoute, "__call__", noted)
    wire = await served.connect()
    await wire.send(request_)
    status, headers, body = await wire.answer()
    assert (status, body) == (200, b"m:{}")
    assert (headers["content-type"], headers["x-of"]) == ("application/json", "triton")
    assert headers["content-length"] == "4"
    assert bool(called) == through_asgi
    ((name, request),) = served.forwarding.asked
    assert name == "m"
    assert (b"host", b"x") in list(request.headers)
    ends = b"close" in request_ or b"HTTP/1.0" in request_
    assert headers.get("connection") == ("close" if ends else None)
    if ends:
        assert await wire.is_closed()


async def test_expect(served: Served) -> None:
    """A caller that waits to be told to go on is told."""
    wire = await served.connect()
    whole = post("m", b"abc", headers="Expect: 100-continue\r\n")
    await wire.send(whole[:-3])
    assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await wire.send(b"abc")
    assert (await wire.answer())[2] == b"m:abc"


async def test_in_pieces_and_again(served: Served) -> None:
    """A request byte by byte, one in chunks, and others on the same connection, /ping too."""
    wire = await served.connect()
    await wire.send(*(bytes([byte]) for byte in post("m", b"abc")))
    assert (await wire.answer())[2] == b"m:abc"
    chunked = post("m").replace(
        b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n"
    )
    await wire.send(chunked, b"2\r\nde\r\n", b"1\r\nf\r\n0\r\n\r\n")
    assert (await wire.answer())[2] == b"m:def"
    await wire.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await wire.answer())[0] == 200
    await wire.send(post("n", b"g" * 3_000_000))
    assert (await wire.answer())[2] == b"n:" + b"g" * 3_000_000


async def test_an_empty_body(served: Served) -> None:
    """Is forwarded as one; what it means is not the protocol's."""
    wire = await served.connect()
    await wire.send(post("m", b""))
    assert (await wire.answer())[2] == b"m:"


async def test_ahead_of_the_answer(served: Served) -> None:
    """Requests that come before the last answer are answered in their order, whatever they are."""
    wire = await served.connect()
    let_go = asyncio.Event()

    async def behind(name: str, body: bytes) -> None:
        if name == "slow":
            await let_go.wait()

    served.forwarding.behind = behind
    ping = b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
    await wire.send(post("slow", b"1") + post("m", b"2") + ping + post("m", b"3"))
    await asyncio.sleep(0.1)
    assert [name for name, _ in served.forwarding.asked] == ["slow"]
    let_go.set()
    assert (await wire.answer())[2] == b"slow:1"
    assert (await wire.answer())[2] == b"m:2"
    assert (await wire.answer())[2] == b""
    assert (await wire.answer())[2] == b"m:3"
    await wire.send(post("m", b"4"))
    assert (await wire.answer())[2] == b"m:4"


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize(
    ("name", "status", "says"),
    [("missing", 404, b"not loaded"), ("full", 507, b"no memory"), ("bug", 500, b"LookupError")],
)
async def test_errors(served: Served, name: str, status: int, says: bytes, quoted: bool) -> None:
    """By the one table, as JSON; the connection goes on, or is closed after a bug."""
    wire = await served.connect()
    await wire.send(post(f"%{ord(name[0]):02x}{name[1:]}" if quoted else name))
    found, headers, body = await wire.answer()
    assert (found, headers["content-type"]) == (status, "application/json")
    assert says in body
    if name != "bug":
        await wire.send(post("m"))
        assert (await wire.answer())[0] == 200


async def test_a_caller_that_leaves(served: Served) -> None:
    """Before its request is whole: nobody is asked. Before its answer: nobody minds."""
    wire = await served.connect()
    await wire.send(post("m", b"abc")[:-1])
    wire.writer.close()
    wire = await served.connect()
    started, let_go = asyncio.Event(), asyncio.Event()

    async def behind(name: str, body: bytes) -> None:
        started.set()
        await let_go.wait()

    served.forwarding.behind = behind
    await wire.send(post("left"))
    await asyncio.wait_for(started.wait(), WAIT_S)
    wire.writer.close()
    await asyncio.sleep(0.05)
    let_go.set()
    await asyncio.sleep(0.05)
    assert [name for name, _ in served.forwarding.asked] == ["left"]
    assert not served.server.server_state.tasks
    assert not served.server.server_state.connections


async def test_the_end(served: Served) -> None:
    """What is in flight at the end is answered, and its connection closed; later, it is a 503."""
    wire, late, idle = [await served.connect() for _ in range(3)]
    let_go = asyncio.Event()

    async def behind(name: str, body: bytes) -> None:
        await (asyncio.Event() if name == "late" else let_go).wait()

    served.forwarding.behind = behind
    await wire.send(post("m"))
    await late.send(post("late"))
    await idle.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await idle.answer())[0] == 200
    served.server.should_exit = True
    assert await idle.is_closed()
    let_go.set()
    status, headers, body = await wire.answer()
    assert (status, headers["connection"], body) == (200, "close", b"m:{}")
    assert await wire.is_closed()
    status, _, body = await late.answer()
    assert status == 503
    assert b"stopping" in body


async def test_a_caller_that_does_not_read(served: Served) -> None:
    """Its next requests are not looked at before it has read on; then all are answered."""
    wire = await served.connect()
    body = b"x" * 4_000_000
    for _ in range(8):
        wire.writer.write(post("m", body))
    await asyncio.sleep(0.5)
    assert len(served.forwarding.asked) < 5
    for _ in range(8):
        assert (await wire.answer())[2] == b"m:" + body
    assert served.forwarding.asked[0][1].body == [], "an idle connection would keep it"


async def test_trailers_are_no_headers(served: Served) -> None:
    """RFC 9110 6.5.1."""
    wire = await served.connect()
    head = b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    await wire.send(head + b"1\r\na\r\n0\r\ncontent-encoding: gzip\r\n\r\n")
    assert (await wire.answer())[2] == b"m:a"
    ((_, request),) = served.forwarding.asked
    assert [name for name, _ in request.headers] == [b"host", b"transfer-encoding"]


async def test_no_request_behind_a_large_answer(served: Served) -> None:
    """What is said about it does not stand inside the answer: the connection ends."""
    wire = await served.connect()
    wire.writer.write(post("m", b"x" * 20_000_000))
    while not served.forwarding.asked:  # noqa: ASYNC110 # it has no event
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    wire.writer.write(b"\0\0 no request \r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        received = await asyncio.wait_for(wire.reader.read(-1), WAIT_S)
        assert received.count(b"HTTP/1.1") == 1
        assert len(received) < 20_000_000


async def test_no_request_behind_an_answer(served: Served) -> None:
    """On a connection that is idle it is a 400."""
    wire = await served.connect()
    await wire.send(post("m"))
    assert (await wire.answer())[0] == 200
    await wire.send(b"\0\0 no request \r\n\r\n")
    assert (await asyncio.wait_for(wire.reader.read(-1), WAIT_S)).startswith(b"HTTP/1.1 400")


async def test_a_caller_that_never_reads(served: Served) -> None:
    """Its answer is held no longer than an invocation may take."""
    served.forwarding.timeout_s = 0.2
    wire = await served.connect()
    wire.writer.write(post("m", b"x" * 20_000_000))
    await asyncio.sleep(1)
    assert not served.server.server_state.tasks
    assert not served.server.server_state.connections


@pytest.mark.parametrize("name", ["m", "%6d"])
async def test_a_body_that_is_too_large(
    served: Served, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing of it is kept; the answer says what may be sent."""
    monkeypatch.setattr("serve.payload.LARGEST_BODY", 1_000_000)
    wire = await served.connect()
    await wire.send(post(name, b"x" * 1_000_001))
    status, _, body = await wire.answer()
    assert status == 413
    assert b"found 1000001 bytes, expected at most 1000000" in body
    assert not served.forwarding.asked
    await wire.send(post(name, b"x" * 1_000_000))
    assert (await wire.answer())[0] == 200
