"""What callers may do to a connection: send too much, too slowly, nonsense, or leave."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any, cast

import pytest

from serve.errors import TritonUnavailable
from serve.http import bounded_protocol
from serve.http.connections import Connections
from tests.support.clock import Clock
from tests.unit.serve.parts_on_fake import until
from tests.unit.serve.routes_on_fake import LIMITS, WAIT_S, RoutesOnFake, Wire, post

PING = b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
GARBAGE = b"\0\0 no request \r\n\r\n"
NAMES = pytest.mark.parametrize("name", ["m", "%6d"], ids=["plain", "ASGI"])


class Slow:
    """Holds each request until it is let go, and knows which were given up."""

    def __init__(self, routes: RoutesOnFake) -> None:
        self.let_go = asyncio.Event()
        self.given_up: list[bytes] = []
        self.started = asyncio.Semaphore(0)
        routes.invocation.behind = self._behind

    async def _behind(self, _: str, body: bytes) -> None:
        self.started.release()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.given_up.append(body)
            raise

    async def has_started(self) -> None:
        """Wait for one more."""
        await asyncio.wait_for(self.started.acquire(), WAIT_S)

    async def knows(self, *bodies: bytes) -> None:
        """Wait until these were given up."""
        await until(lambda: sorted(self.given_up) == sorted(bodies))


async def refused(wire: Wire, status: int, says: bytes) -> None:
    """One sentence of that status, and the end."""
    found, headers, body = await wire.answer()
    assert (found, headers["connection"], headers["content-type"]) == (
        status,
        "close",
        "application/json",
    )
    assert says in body
    assert await wire.is_closed()


# -- callers who leave


@NAMES
async def test_a_half_closed_caller_is_answered(routes: RoutesOnFake, name: str) -> None:
    """He said all that he had to say; after the answer the connection ends."""
    routes.invocation.waits = False  # else he is asked whether he is there, a third of a second on
    wire = await routes.connect()
    slow = Slow(routes)
    await wire.send(post(name, b"1"))
    wire.writer.write_eof()
    await slow.has_started()
    await asyncio.sleep(0.1)
    slow.let_go.set()
    assert (await wire.answer())[2] == b"m:1"
    assert await wire.is_closed()


@NAMES
async def test_a_half_closed_caller_who_does_not_wait(
    clock: Clock, routes: RoutesOnFake, name: str
) -> None:
    """However long tritonserver takes, he is not asked anything."""
    routes.invocation.waits = False
    wire = await routes.connect()
    slow = Slow(routes)
    await wire.send(post(name, b"1"))
    wire.writer.write_eof()
    await slow.has_started()
    for _ in range(5):
        clock.advance(5)
        await asyncio.sleep(0.02)
    slow.let_go.set()
    assert (await wire.answer())[2] == b"m:1"


@NAMES
async def test_a_half_closed_caller_who_waits_long(routes: RoutesOnFake, name: str) -> None:
    """He is asked by an interim answer whether he is there, and then gets his own."""
    wire = await routes.connect()
    slow = Slow(routes)
    await wire.send(post(name, b"1"))
    wire.writer.write_eof()
    assert (await wire.answer())[0] == 100
    slow.let_go.set()
    assert (await wire.answer())[2] == b"m:1"


@NAMES
@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
async def test_a_caller_who_hung_up(
    clock: Clock, routes: RoutesOnFake, name: str, reset: bool
) -> None:
    """His request is given up, in a second or so, or at once where the connection is reset."""
    slow = Slow(routes)
    wires = [await routes.connect() for _ in range(3)]
    for number, wire in enumerate(wires):
        await wire.send(post(name, b"%d" % number))
        await slow.has_started()
    for wire in wires[:2]:
        if reset:
            number = os.dup(wire.writer.get_extra_info("socket").fileno())
            with socket.socket(fileno=number) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.writer.close()
    both = [b"0", b"1"]
    await clock.until(lambda: sorted(slow.given_up) == both, within_s=0.4 if reset else 3)
    slow.let_go.set()
    assert (await wires[2].answer())[2] == b"m:2"


async def test_a_caller_who_hung_up_behind_another_request(routes: RoutesOnFake) -> None:
    """A request sent ahead keeps the connection from being read; it is seen all the same."""
    slow = Slow(routes)
    wire = await routes.connect()
    await wire.send(post("m", b"1") + post("m", b"2"))
    await slow.has_started()
    wire.writer.close()
    await slow.knows(b"1")


@NAMES
async def test_garbage_behind_a_good_request(routes: RoutesOnFake, name: str) -> None:
    """The good one gets its answer, then the garbage a 400."""
    slow = Slow(routes)
    wire = await routes.connect()
    await wire.send(post(name, b"1") + post("m", b"2") + GARBAGE)
    await slow.has_started()
    slow.let_go.set()
    assert (await wire.answer())[2] == b"m:1"
    assert (await wire.answer())[2] == b"m:2"
    await refused(wire, 400, b"the request: found no HTTP/1.1")


async def test_half_a_body_behind_a_good_request(routes: RoutesOnFake) -> None:
    """In chunks that are none: the good one is answered, the other one refused."""
    slow = Slow(routes)
    wire = await routes.connect()
    broken = post("m").replace(
        b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n"
    )
    await wire.send(post("m", b"1") + broken + b"1\r\na\r\nnonsense\r\n")
    await slow.has_started()
    slow.let_go.set()
    assert (await wire.answer())[2] == b"m:1"
    await refused(wire, 400, b"no HTTP/1.1")
    assert len(routes.invocation.asked) == 1


async def test_too_many_ahead(routes: RoutesOnFake) -> None:
    """Those within the bound are answered, then one sentence."""
    wire = await routes.connect()
    slow = Slow(routes)
    await wire.send(post("m", b"1") + PING * 5000)
    await slow.has_started()
    slow.let_go.set()
    statuses = [(await wire.answer())[0] for _ in range(102)]
    assert statuses == [200] * 101 + [400]
    assert await wire.is_closed()


# -- too much


@pytest.mark.parametrize("path", [b"POST /models/m/invoke", b"GET /ping", b"POST /models"])
@pytest.mark.parametrize(
    "head",
    [
        b"a: " + b"x" * 17_000 + b"\r\n\r\n",
        b"a: " + b"x" * 400_000,
        b"".join(b"a%d: x\r\n" % number for number in range(300)) + b"\r\n",
        b"".join(b"a%d: x\r\n" % number for number in range(300)),
        b"".join(b"a%d: %s\r\n" % (number, b"x" * 1000) for number in range(70)) + b"\r\n",
    ],
    ids=["line", "endless line", "headers", "endless headers", "in all"],
)
async def test_a_large_head(routes: RoutesOnFake, path: bytes, head: bytes) -> None:
    """One sentence, and nobody is asked."""
    wire = await routes.connect()
    wire.writer.write(path + b" HTTP/1.1\r\n" + head)
    await refused(wire, 431, b"at most 65536 bytes, 16384 in a line, and 256 headers")
    assert not routes.invocation.asked


async def test_a_head_in_small_pieces(routes: RoutesOnFake) -> None:
    """Is measured like one that comes at once, whatever came before it on the connection."""
    wire = await routes.connect()
    wire.writer.write(post("m", b"x" * 300_000) + b"POST /models/m/invoke HTTP/1.1\r\n")
    assert (await wire.answer())[0] == 200
    await wire.send(*[b"a%d: %s\r\n" % (number, b"x" * 3000) for number in range(20)])
    await wire.send(b"content-length: 1\r\n\r\na")
    assert (await wire.answer())[2] == b"m:a"
    wire.writer.write(b"POST /models/m/invoke HTTP/1.1\r\n")
    await wire.send(*[b"a%d: %s\r\n" % (number, b"x" * 3000) for number in range(24)])
    await refused(wire, 431, b"at most 65536 bytes")


#: The way of one's own, and three that are ASGI's.
WAYS = pytest.mark.parametrize(
    "line",
    [
        b"POST /models/m/invoke HTTP/1.1\r\n",
        b"POST /models/%6d/invoke HTTP/1.1\r\n",
        b"POST /models/m/invoke HTTP/1.0\r\n",
        b"POST /models/m/invoke HTTP/1.1\r\nexpect: 100-continue\r\n",
    ],
    ids=["plain", "ASGI", "HTTP/1.0", "expect"],
)
CHUNKED = b"host: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"


@WAYS
@pytest.mark.parametrize(
    "pieces",
    [
        [b"0\r\n" + b"aa: bb\r\n" * 300 + b"\r\n"],
        [b"0\r\n" + b"aa: bb\r\n" * 300],
        [b"0\r\na: " + b"x" * 17_000 + b"\r\n\r\n"],
        [b"0\r\n" + (b"a: " + b"x" * 1000 + b"\r\n") * 70 + b"\r\n"],
        [b"0\r\na: ", *[b"x" * 20_000] * 8],
        [b"1;a=", *[b"x" * 20_000] * 8],
        [b"0" * 20_000] * 8,
    ],
    ids=["trailers", "endless trailers", "line", "in all", "endless line", "extension", "size"],
)
async def test_what_is_beside_a_body(
    routes: RoutesOnFake, line: bytes, pieces: list[bytes]
) -> None:
    """Trailers, and what a chunk says before its bytes, are bounded as heads are."""
    wire = await routes.connect()
    await wire.send(line + CHUNKED)
    if b"expect" in line:
        assert (await wire.answer())[0] == 100
    await wire.send(*pieces)
    await refused(wire, 431, b"at most 65536 bytes, 16384 in a line, and 256 headers")
    assert not routes.invocation.asked


async def test_refused_before_it_is_told_to_go_on(
    routes: RoutesOnFake, caplog: pytest.LogCaptureFixture
) -> None:
    """One who would wait for a 100 and did not: he gets one answer, and the log says nothing."""
    wire = await routes.connect()
    head = b"POST /models/m/invoke HTTP/1.1\r\nexpect: 100-continue\r\n"
    with caplog.at_level(logging.INFO):
        await wire.send(head + CHUNKED + b"0\r\n" + b"aa: bb\r\n" * 300)
        await refused(wire, 431, b"at most 65536 bytes")
    assert not caplog.records


ANNOUNCED = b"host: x\r\ncontent-length: 1000000000\r\n"


@pytest.mark.parametrize(
    ("head", "most"),
    [
        (b"POST /models/m/invoke HTTP/1.1\r\n" + ANNOUNCED, LIMITS.largest_body),
        (b"POST /models/%6d/invoke HTTP/1.1\r\n" + ANNOUNCED, LIMITS.largest_body),
        (b"POST /models/m/invoke HTTP/1.0\r\n" + ANNOUNCED, LIMITS.largest_body),
        (b"POST /models/m/invoke?a=b HTTP/1.1\r\n" + ANNOUNCED, LIMITS.largest_body),
        (
            b"POST /models/m/invoke HTTP/1.1\r\nExpect: 100-continue\r\n" + ANNOUNCED,
            LIMITS.largest_body,
        ),
        (b"POST /models HTTP/1.1\r\n" + ANNOUNCED, 65536),
        (b"GET /ping HTTP/1.1\r\n" + ANNOUNCED, 65536),
        (b"DELETE /models/m HTTP/1.1\r\n" + ANNOUNCED, 65536),
    ],
)
async def test_an_announced_body(routes: RoutesOnFake, head: bytes, most: int) -> None:
    """What says that it is too large is refused before any of it has come; an invocation counts."""
    wire = await routes.connect()
    await wire.send(head + b"\r\n")
    named = b" (SERVE_THE_LARGEST)" if most == LIMITS.largest_body else b""
    expected = b'expected at most %d bytes%s"' % (most, named)
    await refused(wire, 413, b"found 1000000000 bytes, " + expected)
    assert not routes.invocation.asked
    assert routes.metrics.meters.unknown.codes == ({413: 1} if named else {})


@pytest.mark.parametrize(
    "line",
    [
        b"CONNECT x:80",
        b"CONNECT m/invoke:80",
        b"GET http://",
        b"GET http://a",
        b"GET http://a:99999999/",
    ],
)
async def test_a_target_without_a_path(
    routes: RoutesOnFake, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A caller's mistake as others are: the log does not grow by it."""
    wire = await routes.connect()
    with caplog.at_level(logging.INFO):
        await wire.send(line + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        await refused(wire, 400, b"the request")
    assert not caplog.records


@pytest.mark.slow
@NAMES
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large(routes: RoutesOnFake, name: str, chunked: bool) -> None:
    """Nothing of it is kept, all of it may be sent; the answer says what may be."""
    wire = await routes.connect()
    body = b"x" * (LIMITS.largest_body + 1)
    request = post(name, body)
    if chunked:
        request = post(name).replace(
            b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n"
        ) + b"".join(b"100000\r\n%s\r\n" % (b"x" * 0x100000) for _ in range(20))
    wire.writer.write(request)
    expected = b"expected at most %d bytes (SERVE_THE_LARGEST)" % LIMITS.largest_body
    await refused(wire, 413, expected)
    assert not routes.invocation.asked
    wire = await routes.connect()
    await wire.send(post(name, body[1:]))
    assert (await wire.answer())[0] == 200


async def test_a_chunked_body_of_a_load(routes: RoutesOnFake) -> None:
    """64 KB are enough to say what to load; what was answered is read no further than that."""
    wire = await routes.connect()
    chunks = b"transfer-encoding: chunked\r\n\r\n" + b"8000\r\n%s\r\n" % (b"x" * 0x8000) * 3
    await wire.send(b"POST /models HTTP/1.1\r\nhost: x\r\n" + chunks)
    await refused(wire, 413, b'expected at most 65536 bytes"')
    wire = await routes.connect()
    await wire.send(b"GET /ping HTTP/1.1\r\nhost: x\r\n" + chunks)
    assert await asyncio.wait_for(wire.reader.read(-1), WAIT_S) is not None


@NAMES
async def test_tiny_chunks(routes: RoutesOnFake, name: str) -> None:
    """A body in a hundred thousand chunks is kept in few pieces, and soon read."""
    wire = await routes.connect()
    head = post(name).replace(b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n")
    started = time.process_time()
    wire.writer.write(head + b"2\r\nab\r\n" * 100_000 + b"0\r\n\r\n")
    assert (await wire.answer())[2] == b"m:" + b"ab" * 100_000
    assert time.process_time() - started < 5
    assert routes.invocation.most_pieces < 50


@NAMES
async def test_bodies_that_are_held(routes: RoutesOnFake, name: str) -> None:
    """Over the bound in bytes: 503 at once, to be tried again; then there is room again."""
    slow = Slow(routes)
    wires = [await routes.connect() for _ in range(4)]
    for wire in wires[:2]:
        wire.writer.write(post("m", b"x" * 20_000_000))
    half = post("m", b"x" * 20_000_000)[:7_000_000]
    wires[2].writer.write(half)
    await slow.has_started()
    await slow.has_started()
    await until(lambda: routes.queues.held_bytes >= 46_000_000)
    wires[3].writer.write(post(name, b"x" * 5_000_000))
    status, headers, body = await wires[3].answer()
    assert (status, headers["retry-after"]) == (503, "1")
    says = b"for the model 'm' are held already (a quarter of SERVE_MAX_WAITING_TOTAL_MB); try"
    assert says in body
    slow.let_go.set()
    for wire in wires[:2]:
        assert (await wire.answer())[0] == 200
    again = await routes.connect()
    again.writer.write(post(name, b"x" * 5_000_000))
    assert (await again.answer())[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST /models/missing/invoke HTTP/1.1\r\n",
        b"POST /models/missin%67/invoke HTTP/1.1\r\n",
        b"POST /models/missing/invoke HTTP/1.1\r\nexpect: 100-continue\r\n",
    ],
    ids=["plain", "ASGI", "expect"],
)
async def test_a_made_up_name_holds_no_bytes(routes: RoutesOnFake, head: bytes) -> None:
    """It is refused before much of its body is kept, and the rest of it is not."""
    wire = await routes.connect()
    wire.writer.write(head + b"host: x\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 5_000_000)
    status = (await wire.answer())[0]
    if status == 100:
        status = (await wire.answer())[0]
    assert (status, routes.queues.held_bytes) == (404, 0)
    assert not routes.invocation.asked


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_made_up_name_on_a_last_request(routes: RoutesOnFake, version: str) -> None:
    """Its body is read away first, since the connection's end would take the answer back."""
    wire = await routes.connect()
    whole = post("missing", b"x" * 9_000_000, version=version, headers="connection: close\r\n")
    wire.writer.write(whole[:-1])
    await asyncio.sleep(0.3)
    assert routes.queues.held_bytes == 0
    await wire.send(whole[-1:])
    assert (await wire.answer())[0] == 404
    assert await wire.is_closed()


# -- answers that are not whole


async def test_a_stream_that_breaks_off(
    routes: RoutesOnFake, caplog: pytest.LogCaptureFixture
) -> None:
    """What came of it is sent, its end is not; the log has one line for it."""
    routes.invocation.streams = True
    routes.invocation.pieces = [b"one", b"two"]
    wire = await routes.connect()
    await wire.send(post("%6d", b"1"))
    whole = await asyncio.wait_for(wire.reader.readuntil(b"0\r\n\r\n"), WAIT_S)
    assert whole.partition(b"\r\n\r\n")[2] == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    routes.invocation.failure = TritonUnavailable("it is gone")
    with caplog.at_level(logging.WARNING):
        await wire.send(post("%6d", b"1") + post("%6d", b"2"))
        broken = await asyncio.wait_for(wire.reader.read(-1), WAIT_S)
        await until(lambda: bool(caplog.records))
        await asyncio.sleep(0.1)
    assert broken.partition(b"\r\n\r\n")[2] == b"3\r\none\r\n3\r\ntwo\r\n"
    (record,) = caplog.records
    assert record.getMessage().startswith("an answer was broken off: tritonserver")
    assert record.exc_info is None
    assert routes.refused("tritonserver") == 1


async def test_a_bug_inside_a_stream(
    routes: RoutesOnFake, caplog: pytest.LogCaptureFixture
) -> None:
    """Its answer breaks off with the status of its head, and counts among the refusals."""
    routes.invocation.streams = True
    routes.invocation.pieces, routes.invocation.failure = [b"one"], LookupError("a bug")
    wire = await routes.connect()
    await wire.send(post("m"))
    broken = await asyncio.wait_for(wire.reader.read(-1), WAIT_S)
    assert broken.endswith(b"\r\n\r\n3\r\none\r\n")
    assert routes.metrics.meters.unknown.codes == {200: 1}
    assert routes.refused("container") == 1
    assert any(record.exc_info for record in caplog.records)


async def test_a_stream_whose_caller_reads_no_further(
    routes: RoutesOnFake, caplog: pytest.LogCaptureFixture
) -> None:
    """The model is not held by it, nor the log filled."""
    routes.invocation.streams = True
    routes.invocation.timeout_s = 0.2
    routes.invocation.pieces = [b"x" * 1_000_000] * 50
    wire = await routes.connect()
    with caplog.at_level(logging.WARNING):
        await wire.send(post("%6d", b"1"))
        await until(lambda: bool(caplog.records))
        await asyncio.sleep(0.1)
    (record,) = caplog.records
    assert record.getMessage() == "an answer was broken off: its caller reads no further"


# -- too slowly


@pytest.mark.parametrize(
    "part", [b"POST /mod", post("m")[:-1], post("%6d")[:-1], b"POST /models HTTP/1.1\r\na: b\r\n"]
)
async def test_half_a_request(clock: Clock, routes: RoutesOnFake, part: bytes) -> None:
    """It may take its time, but not for ever: 408. Meanwhile others are answered."""
    wire, other = await routes.connect(), await routes.connect()
    await wire.send(part)
    late = asyncio.ensure_future(refused(wire, 408, b"not whole after 30 s; send it faster"))
    for seconds in (0, 15):
        clock.advance(seconds)
        await other.send(PING)
        assert (await other.answer())[0] == 200
    assert not late.done()
    clock.advance(16)
    await clock.until(late.done, within_s=2)
    await late


async def test_a_connection_that_says_nothing(clock: Clock, routes: RoutesOnFake) -> None:
    """Neither a byte, nor line ends without end: it is closed."""
    silent, lines = await routes.connect(), await routes.connect()
    began, looks = clock(), 0
    with contextlib.suppress(ConnectionError, RuntimeError):
        while looks < 15 and not lines.reader.at_eof():
            looks += 1
            clock.advance(3)
            await lines.send(b"\r\n")
    assert looks < 15
    assert clock() - began > 29
    assert await silent.is_closed()
    with contextlib.suppress(ConnectionError):  # it may have sent more than was read
        assert await lines.is_closed()


async def test_a_drop_at_a_time(clock: Clock, routes: RoutesOnFake) -> None:
    """The time is for all of a request, however steadily it comes."""
    wire = await routes.connect()
    late = asyncio.ensure_future(refused(wire, 408, b"not whole after 30 s"))
    with contextlib.suppress(ConnectionError, RuntimeError):
        for byte in post("m", b"x" * 1000)[:80]:
            clock.advance(0.5)
            await wire.send(bytes([byte]))
            if late.done():
                break
    await clock.until(late.done, within_s=2)
    await late


# -- callers who do not read


async def unread(routes: RoutesOnFake, request: bytes = PING) -> asyncio.Transport:
    """A connection whose caller has not read what he asked for: some of it is unsent."""
    known = set(routes.server.server_state.connections)
    wire = await routes.connect(receive_buffer=2048)
    await until(lambda: len(routes.server.server_state.connections) > len(known))
    (new,) = set(routes.server.server_state.connections) - known
    protocol = cast(bounded_protocol.BoundedProtocol, new)
    transport: asyncio.Transport = protocol.transport
    sending = transport.get_extra_info("socket")
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
    while transport.get_write_buffer_size() < 10_000:  # of which the kernels may take some later
        await wire.send(request * (40 if request == PING else 1))
        await until(lambda: protocol.idle_since is not None)
    assert transport.get_write_buffer_size() < 65536
    return transport


def is_there(routes: RoutesOnFake, transport: asyncio.Transport) -> bool:
    """Whether the server still has its descriptor."""
    return any(one.transport is transport for one in routes.server.server_state.connections)


async def test_an_idle_connection_whose_answers_are_unread(
    clock: Clock, routes: RoutesOnFake
) -> None:
    """It ends when its time is over, though a close would wait for the caller."""
    routes.crowd.limits = type(LIMITS)(keep_alive_s=30)
    transport = await unread(routes)
    assert is_there(routes, transport)
    clock.advance(31)
    await clock.until(lambda: not is_there(routes, transport), within_s=2)


async def test_a_closed_connection_whose_answer_is_unread(
    clock: Clock, routes: RoutesOnFake
) -> None:
    """Its caller may take as long as any other one who reads slowly, and then it ends."""
    request = post("m", b"x" * 40_000, headers="connection: close\r\n")
    transport = await unread(routes, request)
    assert transport.is_closing()
    clock.advance(10)
    await asyncio.sleep(0.05)
    assert is_there(routes, transport)
    clock.advance(21)
    await asyncio.sleep(0.05)
    clock.advance(21)  # where it was first looked at just now
    await clock.until(lambda: not is_there(routes, transport), within_s=2)


@pytest.mark.parametrize("more", [b"", b"POST /models"], ids=["idle", "slow"])
async def test_unread_answers_hold_no_place(
    clock: Clock, routes: RoutesOnFake, more: bytes
) -> None:
    """Over the bound such a connection goes, and its descriptor with it; not at once."""
    routes.crowd.limits = type(LIMITS)(connections=2, read_s=120, linger_s=30, slow_s=10)
    slow = Slow(routes)
    busy = await routes.connect()
    await busy.send(post("m"))
    await slow.has_started()
    transport = await unread(routes)
    await routes.wires[-1].send(more)
    clock.advance(11)
    beside = await routes.connect()
    await beside.send(PING)
    assert (await beside.answer())[0] == 200
    assert await beside.is_closed()
    assert is_there(routes, transport)
    clock.advance(20)
    new = await routes.connect()
    await new.send(PING * 2)
    assert [(await new.answer())[0] for _ in range(2)] == [200, 200]
    await until(lambda: not is_there(routes, transport))
    slow.let_go.set()
    assert (await busy.answer())[0] == 200


# -- too many


async def test_the_longest_idle_goes(routes: RoutesOnFake) -> None:
    """A new connection is taken in, and the one that was idle for longest is closed."""
    wires = []
    for _ in range(LIMITS.connections):
        wires.append(await routes.connect())
        await wires[-1].send(PING)
        assert (await wires[-1].answer())[0] == 200
    await wires[0].send(PING)
    assert (await wires[0].answer())[0] == 200
    await asyncio.sleep(0.3)
    new = await routes.connect()
    await new.send(PING)
    assert (await new.answer())[0] == 200
    assert await wires[1].is_closed()
    for wire in (wires[0], *wires[2:]):
        await wire.send(PING)
        assert (await wire.answer())[0] == 200


async def test_those_that_never_asked_go_first(routes: RoutesOnFake) -> None:
    """However long others have been idle: a flood does not close its neighbours' connections."""
    asked = [await routes.connect() for _ in range(LIMITS.connections - 2)]
    for wire in asked:
        await wire.send(PING)
        assert (await wire.answer())[0] == 200
    silent = [await routes.connect() for _ in range(2)]
    await asyncio.sleep(0.1)
    for wire in silent:
        new = await routes.connect()
        await new.send(PING)
        assert (await new.answer())[0] == 200
        assert await wire.is_closed()
    for wire in asked:
        await wire.send(PING)
        assert (await wire.answer())[0] == 200


async def test_what_is_on_its_way_is_no_silence(routes: RoutesOnFake) -> None:
    """A silent connection goes soon, but not one whose first request lies in the kernel unread."""
    wires = [await routes.connect() for _ in range(LIMITS.connections)]
    await asyncio.sleep(0.1)
    known = asyncio.get_running_loop().time()
    for wire in wires[:-1]:  # and the server cannot read it before it is asked for a place
        os.write(wire.writer.get_extra_info("socket").fileno(), PING)
    silent = _Silent(known)
    assert routes.crowd.admit(silent, known)
    routes.crowd.forget(silent)
    assert await wires[-1].is_closed()
    for wire in wires[:-1]:
        assert (await wire.answer())[0] == 200


@dataclass(eq=False)
class _Silent:
    """Nobody ever asks on it."""

    idle_since: float
    has_asked: bool = False
    reading_since: float | None = None
    stalled_since: float = 0
    has_gone: bool = False

    def is_under_way(self, now: float) -> bool:
        return False

    def make_way(self) -> None:
        self.has_gone = True

    def look(self, now: float) -> None:
        pass


@pytest.mark.parametrize("part", [b"P", post("m")[:-1]], ids=["a byte", "a body that stands still"])
async def test_half_requests_go_before_idle_neighbours(
    clock: Clock, routes: RoutesOnFake, part: bytes
) -> None:
    """A flood of them is no better than a flood of silence."""
    asked = [await routes.connect() for _ in range(LIMITS.connections - 2)]
    half = [await routes.connect() for _ in range(2)]
    for wire in half:
        await wire.send(part)
    for wire in asked:
        await wire.send(PING)
        assert (await wire.answer())[0] == 200
    clock.advance(1.1)
    for wire in half:
        new = await routes.connect()
        await new.send(PING)
        assert (await new.answer())[0] == 200
        assert (await wire.answer())[0] == 503
    for wire in asked:
        await wire.send(PING)
        assert (await wire.answer())[0] == 200


async def test_an_upload_that_goes_on_is_kept(clock: Clock, routes: RoutesOnFake) -> None:
    """However slow: an idle connection goes, which costs its caller nothing."""
    clock.pass_by_steps()
    routes.crowd.limits = type(LIMITS)(connections=2)
    idle, slow = await routes.connect(), await routes.connect()
    await idle.send(PING)
    assert (await idle.answer())[0] == 200
    whole = post("m", b"12345678")
    await slow.send(whole[:-7])
    for byte in whole[-7:-1]:
        clock.advance(0.4)
        await slow.send(bytes([byte]))
    new = await routes.connect()
    await new.send(PING)
    assert (await new.answer())[0] == 200
    assert await idle.is_closed()
    await slow.send(whole[-1:])
    assert (await slow.answer())[2] == b"m:12345678"


def _flooded(count: int, **facts: object) -> tuple[Connections, list[_Silent]]:
    crowd = Connections(type(LIMITS)(connections=count))
    many = [_Silent(0, **facts) for _ in range(count)]  # type: ignore[arg-type]
    for one in many:
        assert crowd.admit(one, 0)
    return crowd, many


def test_those_who_are_gone_free_no_place_twice() -> None:
    """One that was found and then ended by itself is not counted as one that made way."""
    crowd, many = _flooded(8)
    assert crowd.admit(_Silent(1), 1)
    left = [one for one in many if not one.has_gone]
    for one in left:
        crowd.forget(one)
    for _ in range(20):
        crowd.admit(_Silent(1), 1)
    assert len(crowd) == 8


class _Watched(_Silent):
    """Counts how often any of them is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "idle_since":
            _Watched.looks += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("since", "now"), [(0.0, 1.0), (1.0, 1.0)], ids=["all may go", "none may go"]
)
def test_what_a_flood_costs(since: float, now: float) -> None:
    """Over the bound the many are not looked through for each newcomer."""
    crowd = Connections(type(LIMITS)(connections=10_000))
    for _ in range(10_000):
        crowd.admit(_Watched(since), 0)
    _Watched.looks = 0
    for number in range(300):
        crowd.admit(_Silent(now), now + number * 0.0002)
    assert _Watched.looks < 10 * 10_000


async def test_all_are_busy(routes: RoutesOnFake) -> None:
    """An invocation is refused with 503, and /ping is answered; those at work are not touched."""
    slow = Slow(routes)
    wires = [await routes.connect() for _ in range(LIMITS.connections)]
    for wire in wires:
        await wire.send(post("m", b"1"))
        await slow.has_started()
    for name in ("m", "%6d"):
        new = await routes.connect()
        await new.send(post(name, b"2"))
        status, headers, body = await new.answer()
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"8 connections are in use already" in body
    assert routes.refused("crowd") == 2
    new = await routes.connect()
    await new.send(PING)
    assert (await new.answer())[0] == 200
    assert await new.is_closed()
    flood = await asyncio.gather(*(routes.connect() for _ in range(40)))
    told = [asyncio.ensure_future(one.reader.readuntil(b"\r\n\r\n")) for one in flood]
    await asyncio.wait(told, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
    for one in told:
        one.cancel()
    await asyncio.gather(*told, return_exceptions=True)
    slow.let_go.set()
    for wire in wires:
        assert (await wire.answer())[2] == b"m:1"


async def test_the_slowest_goes(clock: Clock, routes: RoutesOnFake) -> None:
    """Where all connections are sending for long, the one that began first makes way."""
    routes.crowd.limits = type(LIMITS)(connections=4, read_s=60)
    slow = [await routes.connect() for _ in range(4)]
    for wire in slow:
        await wire.send(b"POST /models")
    clock.advance(2.1)
    new = await routes.connect()
    await new.send(PING)
    assert (await new.answer())[0] == 200
    assert (await slow[0].answer())[0] == 503
    assert routes.refused("crowd") == 1
