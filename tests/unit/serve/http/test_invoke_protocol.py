"""Invocations on the wire, in front of ASGI: plain ones and others, all alike."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clock import Clock
from tests.unit.serve.parts_on_fake import until
from tests.unit.serve.routes_on_fake import WAIT_S, RoutesOnFake, post


@pytest.mark.parametrize(
    "request_",
    [
        post("m"),
        post("%6d"),
        post("m").replace(b"/invoke", b"/invoke?a=b"),
        post("m").replace(b"/models", b"http://x/models"),
        post("m", headers="Connection: close\r\n"),
        post("m", version="1.0"),
    ],
    ids=["plain", "quoted", "query", "absolute", "close", "HTTP/1.0"],
)
async def test_an_invocation(routes: RoutesOnFake, request_: bytes) -> None:
    """The same answer, however it is asked for."""
    wire = await routes.connect()
    await wire.send(request_)
    status, headers, body = await wire.answer()
    assert (status, body) == (200, b"m:{}")
    assert (headers["content-type"], headers["x-of"]) == ("application/json", "triton")
    assert headers["content-length"] == "4"
    ((name, request),) = routes.invocation.asked
    assert name == "m"
    assert (b"host", b"x") in list(request.headers)
    ends = b"close" in request_ or b"HTTP/1.0" in request_
    assert headers.get("connection") == ("close" if ends else None)
    if ends:
        assert await wire.is_closed()


async def test_without_traces_a_callers_trace_passes(routes: RoutesOnFake) -> None:
    """As any other header does."""
    wire = await routes.connect()
    await wire.send(post("m", headers="traceparent: its own\r\ntracestate: a=1\r\n"))
    assert (await wire.answer())[0] == 200
    ((_, request),) = routes.invocation.asked
    headers = list(request.headers)
    assert (b"traceparent", b"its own") in headers
    assert (b"tracestate", b"a=1") in headers


@pytest.mark.parametrize(
    "target",
    [
        b"/models/abcdefghij?q=/invoke",
        b"/models/a%2Fb/invoke",
        b"/models//invoke",
        b"/models/invoke",
        b"/models/m/invoke/",
        b"/models/m/invoke%0A",
        b"/other/m/invoke",
    ],
)
async def test_what_looks_like_an_invocation(routes: RoutesOnFake, target: bytes) -> None:
    """Another path is none, whatever stands behind it or is quoted in it."""
    wire = await routes.connect()
    await wire.send(post("m").replace(b"/models/m/invoke", target))
    assert (await wire.answer())[0] in (404, 405)
    assert not routes.invocation.asked


async def test_expect(routes: RoutesOnFake) -> None:
    """A caller that waits to be told to go on is told."""
    wire = await routes.connect()
    whole = post("m", b"abc", headers="Expect: 100-continue\r\n")
    await wire.send(whole[:-3])
    assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await wire.send(b"abc")
    assert (await wire.answer())[2] == b"m:abc"


async def test_expect_in_http_1_0(routes: RoutesOnFake) -> None:
    """It is passed over: HTTP/1.0 knows no interim answers (RFC 9110 10.1.1)."""
    wire = await routes.connect()
    whole = post("m", b"abc", version="1.0", headers="Expect: 100-continue\r\n")
    await wire.send(whole[:-3], b"abc")
    status, _, body = await wire.answer()
    assert (status, body) == (200, b"m:abc")


async def test_in_pieces_and_again(routes: RoutesOnFake) -> None:
    """A request byte by byte, one in chunks, and others on the same connection, /ping too."""
    wire = await routes.connect()
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


@pytest.mark.parametrize("step", [3_001, 200_003, 2_000_000])
@pytest.mark.parametrize("headers", ["", "Connection: close\r\n", "Expect: 100-continue\r\n"])
async def test_a_large_body_in_segments(routes: RoutesOnFake, step: int, headers: str) -> None:
    """Comes whole, with a small one ahead of it and, in its last segment, one behind it."""
    wire = await routes.connect()
    large = bytes(range(251)) * 4_000
    sent = post("m", b"1") + post("n", large, headers=headers)
    ends = "close" in headers
    sent += b"" if ends else post("m", b"2")
    for start in range(0, len(sent), step):
        wire.writer.write(sent[start : start + step])
        await asyncio.sleep(0)
    for body in (b"m:1", b"n:" + large, *([] if ends else [b"m:2"])):
        while (answer := await wire.answer())[0] == 100:  # he is told to go on
            pass
        assert answer[2] == body
    assert not ends or await wire.is_closed()


async def test_large_bodies_that_break_off(routes: RoutesOnFake) -> None:
    """By their callers, or for want of room: nothing of them is held any more."""
    gone = await routes.connect()
    await gone.send(post("m", b"x" * 10_000_000)[:-1])
    await until(lambda: routes.queues.held_bytes > 9_000_000)
    gone.writer.close()
    await until(lambda: routes.queues.held_bytes == 0)
    wires = [await routes.connect() for _ in range(4)]
    for wire in wires:
        await wire.send(post("m", b"x" * 15_000_000)[:-1])
    (status, _, body) = await wires[-1].answer()
    assert status == 503
    assert b"SERVE_MAX_WAITING_TOTAL_MB" in body
    assert await wires[-1].is_closed()
    await wires[0].send(b"x")
    assert (await wires[0].answer())[0] == 200


async def test_an_empty_body(routes: RoutesOnFake) -> None:
    """Is forwarded as one; what it means is not the protocol's."""
    wire = await routes.connect()
    await wire.send(post("m", b""))
    assert (await wire.answer())[2] == b"m:"


async def test_ahead_of_the_answer(routes: RoutesOnFake) -> None:
    """Requests that come before the last answer are answered in their order, whatever they are."""
    wire = await routes.connect()
    let_go = asyncio.Event()

    async def behind(name: str, body: bytes) -> None:
        if name == "slow":
            await let_go.wait()

    routes.invocation.behind = behind
    ping = b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
    await wire.send(post("slow", b"1") + post("m", b"2") + ping + post("m", b"3"))
    await until(lambda: bool(routes.invocation.asked))
    await asyncio.sleep(0.1)
    assert [name for name, _ in routes.invocation.asked] == ["slow"]
    let_go.set()
    assert (await wire.answer())[2] == b"slow:1"
    assert (await wire.answer())[2] == b"m:2"
    assert (await wire.answer())[2] == b""
    assert (await wire.answer())[2] == b"m:3"
    await wire.send(post("m", b"4"))
    assert (await wire.answer())[2] == b"m:4"


@pytest.mark.parametrize("cut", [0, 1], ids=["whole", "half"])
async def test_a_caller_that_leaves_what_he_sent_ahead(routes: RoutesOnFake, cut: int) -> None:
    """What is held of a request whose turn has not come is held no more when its caller is gone."""
    wire = await routes.connect()
    waits = asyncio.Event()

    async def behind(name: str, body: bytes) -> None:
        await waits.wait()

    routes.invocation.behind = behind
    ahead = post("m", b"x" * 50_000)
    await wire.send(post("slow") + ahead[: len(ahead) - cut])
    await until(lambda: routes.queues.held_bytes > 0)
    wire.writer.close()
    state = routes.server.server_state
    await until(lambda: not state.tasks and not state.connections)
    assert routes.queues.held_bytes == 0
    assert [name for name, _ in routes.invocation.asked] == ["slow"]


@pytest.mark.parametrize(
    ("version", "framing", "body"),
    [
        ("1.1", b"transfer-encoding: chunked\r\n", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
        ("1.0", b"connection: close\r\n", b"onetwo"),
    ],
)
async def test_a_stream(routes: RoutesOnFake, version: str, framing: bytes, body: bytes) -> None:
    """In chunks, which HTTP/1.0 does not know: there its end is that of the connection."""
    routes.invocation.streams = True
    routes.invocation.pieces = [b"one", b"two"]
    wire = await routes.connect()
    await wire.send(post("m", version=version))
    expected = b"HTTP/1.1 200 OK\r\nx-of: triton\r\n" + framing + b"\r\n" + body
    assert await asyncio.wait_for(wire.reader.readexactly(len(expected)), WAIT_S) == expected
    assert version == "1.1" or await wire.is_closed()


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [("missing", 404, b"not loaded"), ("full", 507, b"no memory"), ("bug", 500, b"LookupError")],
)
async def test_errors(routes: RoutesOnFake, name: str, status: int, says: bytes) -> None:
    """By the one table, as JSON; the connection goes on, or is closed after a bug."""
    wire = await routes.connect()
    await wire.send(post(name))
    found, headers, body = await wire.answer()
    assert (found, headers["content-type"]) == (status, "application/json")
    assert says in body
    if name != "bug":
        await wire.send(post("m"))
        assert (await wire.answer())[0] == 200


async def test_a_caller_that_leaves(routes: RoutesOnFake) -> None:
    """Before its request is whole: nobody is asked. Before its answer: nobody minds."""
    wire = await routes.connect()
    await wire.send(post("m", b"abc")[:-1])
    wire.writer.close()
    wire = await routes.connect()
    started, let_go = asyncio.Event(), asyncio.Event()

    async def behind(name: str, body: bytes) -> None:
        started.set()
        await let_go.wait()

    routes.invocation.behind = behind
    await wire.send(post("left"))
    await asyncio.wait_for(started.wait(), WAIT_S)
    wire.writer.close()
    await asyncio.sleep(0.05)
    let_go.set()
    state = routes.server.server_state
    await until(lambda: not state.tasks and not state.connections)
    assert [name for name, _ in routes.invocation.asked] == ["left"]


async def test_the_end(clock: Clock, routes: RoutesOnFake) -> None:
    """What is in flight at the end is answered, and its connection closed; later, it is a 503."""
    wire, late, idle = [await routes.connect() for _ in range(3)]
    let_go = asyncio.Event()

    async def behind(name: str, body: bytes) -> None:
        await (asyncio.Event() if name == "late" else let_go).wait()

    routes.invocation.behind = behind
    await wire.send(post("m"))
    await late.send(post("late"))
    await idle.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await idle.answer())[0] == 200
    routes.server.config.timeout_graceful_shutdown = 30
    routes.server.should_exit = True
    assert await idle.is_closed()
    let_go.set()
    status, headers, body = await wire.answer()
    assert (status, headers["connection"], body) == (200, "close", b"m:{}")
    assert await wire.is_closed()
    given_up = asyncio.ensure_future(late.answer())
    while not given_up.done():
        clock.advance(10)
        await asyncio.sleep(0.05)
    status, _, body = given_up.result()
    assert status == 503
    assert b"stopping" in body


async def test_a_caller_that_does_not_read(routes: RoutesOnFake) -> None:
    """Its next requests are not looked at before it has read on; then all are answered."""
    wire = await routes.connect()
    body = b"x" * 4_000_000
    for _ in range(8):
        wire.writer.write(post("m", body))
    await asyncio.sleep(0.5)
    assert len(routes.invocation.asked) < 5
    for _ in range(8):
        assert (await wire.answer())[2] == b"m:" + body
    assert routes.invocation.asked[0][1].body == [], "an idle connection would keep it"


@pytest.mark.parametrize("path", [b"/models/m/invoke", b"/models/%6d/invoke"])
async def test_trailers_are_no_headers(routes: RoutesOnFake, path: bytes) -> None:
    """RFC 9110 6.5.1; in one read with the rest, or behind it."""
    wire = await routes.connect()
    head = b"POST " + path + b" HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    await wire.send(head + b"1\r\na\r\n0\r\n", b"content-encoding: gzip\r\n\r\n")
    assert (await wire.answer())[2] == b"m:a"
    routes.invocation.asked.clear()
    await wire.send(head + b"1\r\na\r\n0\r\ncontent-encoding: gzip\r\n\r\n")
    assert (await wire.answer())[2] == b"m:a"
    ((_, request),) = routes.invocation.asked
    assert [name for name, _ in request.headers] == [b"host", b"transfer-encoding"]


async def test_no_request_behind_a_large_answer(routes: RoutesOnFake) -> None:
    """What is said about it stands behind the answer, which is whole; then the connection ends."""
    wire = await routes.connect()
    wire.writer.write(post("m", b"x" * 20_000_000))
    while not routes.invocation.asked:  # noqa: ASYNC110 # it has no event
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    wire.writer.write(b"\0\0 no request \r\n\r\n")
    assert (await wire.answer())[2] == b"m:" + b"x" * 20_000_000
    assert (await wire.answer())[0] == 400
    assert await wire.is_closed()


async def test_no_request_behind_an_answer(routes: RoutesOnFake) -> None:
    """On a connection that is idle it is a 400."""
    wire = await routes.connect()
    await wire.send(post("m"))
    assert (await wire.answer())[0] == 200
    await wire.send(b"\0\0 no request \r\n\r\n")
    assert (await asyncio.wait_for(wire.reader.read(-1), WAIT_S)).startswith(b"HTTP/1.1 400")


async def test_a_caller_that_never_reads(clock: Clock, routes: RoutesOnFake) -> None:
    """Its answer is held no longer than an invocation may take."""
    routes.invocation.timeout_s = 5
    wire = await routes.connect()
    wire.writer.write(post("m", b"x" * 20_000_000))
    await until(lambda: bool(routes.invocation.asked))
    state = routes.server.server_state
    await clock.until(lambda: not state.tasks and not state.connections, within_s=6)
