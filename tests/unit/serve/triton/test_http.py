"""The connections to tritonserver, against servers that say exactly what a test gives them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from serve.triton.connection import Answer, AnswerLate, Connection, ConnectionFailed
from serve.triton.http import TritonHttp
from tests.support.clock import Clock
from tests.unit.serve.fake_server import (
    WAIT_S,
    FakeServer,
    Peer,
    answer,
    fake_server,
    repeating,
    saying,
)


async def ask(stage: FakeServer, body: bytes = b"?", timeout_s: float = WAIT_S) -> Answer:
    return await stage.http.request(b"POST", b"/x", [], [body] if body else [], timeout_s=timeout_s)


def text(got: Answer) -> bytes:
    return b"".join(got.body)


async def test_what_is_sent() -> None:
    """Method, path, host, the headers given and the length; then the pieces of the body."""
    heads = []

    async def script(peer: Peer) -> None:
        heads.append(await peer.request())
        await peer.send(answer())

    async with fake_server(script) as stage:
        await stage.http.request(
            b"POST", b"/v2/x", [(b"a", b"1"), (b"a", b"2")], [b"he", b"llo"], timeout_s=WAIT_S
        )
    head, body = heads[0]
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v2/x HTTP/1.1"
    assert lines[1] == b"host: localhost"
    assert lines[2:] == [b"a: 1", b"a: 2", b"content-length: 5", b"", b""]
    assert body == b"hello"


async def test_lines_of_its_own() -> None:
    """What every request to this server carries stands before the headers given."""
    heads = []

    async def script(peer: Peer) -> None:
        heads.append(await peer.request())
        await peer.send(answer())

    async with fake_server(script) as stage:
        own = TritonHttp(stage.path, own_lines=b"x-own: 1\r\n")
        await own.request(b"GET", b"/", [(b"a", b"1")], timeout_s=WAIT_S)
        own.close()
    assert heads[0][0].split(b"\r\n")[2:4] == [b"x-own: 1", b"a: 1"]


async def test_a_connection_is_used_again() -> None:
    """A hundred requests one after the other need one connection."""
    async with fake_server(repeating(answer())) as stage:
        for _ in range(100):
            assert text(await ask(stage)) == b"ok"
        assert stage.connections == 1


async def test_many_at_once() -> None:
    """Two hundred requests at once get their own answers; after a burst 64 connections stay."""

    async def script(peer: Peer) -> None:
        while True:
            _, body = await peer.request()
            await peer.send(answer(b"<" + body + b">"))

    async with fake_server(script) as stage:
        for _ in range(2):
            bodies = [b"%d" % number for number in range(200)]
            answers = await asyncio.gather(*(ask(stage, body) for body in bodies))
            assert [text(got) for got in answers] == [b"<" + body + b">" for body in bodies]
        assert stage.connections == 200 + 200 - 64


@pytest.mark.slow
async def test_an_answer_is_counted_as_it_comes() -> None:
    """Small ones are not; what counting raises ends the request long before the answer is whole."""
    told: list[int] = []

    def grown(size: int) -> int:
        told.append(size)
        if size > 1_000_000:
            raise LookupError("too much")
        return size + 100_000

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer(b"x" * 16_000))
        await peer.request()
        await peer.send(answer(b"x" * 900_000))
        await peer.request()
        with contextlib.suppress(ConnectionError):
            await peer.send(answer(b"x" * 200_000_000))

    async with fake_server(script) as stage:

        async def asked() -> Answer:
            return await stage.http.request(
                b"POST", b"/x", [], [b"?"], timeout_s=WAIT_S, grown=grown
            )

        await asked()
        assert told == []
        assert len(text(await asked())) == 900_000
        assert 1 <= len(told) <= 9
        with pytest.raises(LookupError, match="too much"):
            await asked()
        assert told[-1] < 3_000_000
        await stage.over()


async def test_the_words_of_an_error_are_kept_up_to_a_bound() -> None:
    """What is beyond is read and dropped, counted for nobody; the connection is used again."""
    long, status = b"abcdefgh" * 1_000_000, b"500 Internal Server Error"

    def grown(size: int) -> int:
        raise LookupError("told")

    async with fake_server(repeating(answer(long, status=status))) as stage:
        for _ in range(2):
            got = await stage.http.request(
                b"POST", b"/x", [], [b"?"], timeout_s=WAIT_S, grown=grown
            )
            assert (got.status, got.cut) == (500, True)
            assert text(got) == long[: 64 * 1024]
        got = await stage.http.request(b"POST", b"/x", [], [b"?"], timeout_s=WAIT_S, streams=True)
        assert got.rest is not None
        pieces = [piece async for piece in got.rest]
        assert got.cut
        assert b"".join(pieces) == long[: 64 * 1024]
        assert stage.connections == 1
    short = b"x" * 64 * 1024
    async with fake_server(repeating(answer(short, status=status))) as stage:
        got = await ask(stage)
        assert (text(got), got.cut) == (short, False)


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"
)
HUGE = b"X-Long: " + b"y" * 200_000


@pytest.mark.parametrize(
    ("said", "status", "body", "reused"),
    [
        (answer(b"hello"), 200, b"hello", True),
        (CHUNKED, 200, b"hello", True),
        (CHUNKED[:-2] + b"Trailer: x\r\n\r\n", 200, b"hello", True),
        (answer(b"", status=b"404 Not Found"), 404, b"", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b"", True),
        (answer(b"hello", HUGE), 200, b"hello", True),
        (answer(b"hello", *[b"X-%d: y" % number for number in range(500)]), 200, b"hello", True),
        (answer(b"hello", b"Connection: close"), 200, b"hello", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + answer(), 200, b"ok", True),
        (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" * 3 + answer(), 200, b"ok", True),
    ],
    ids=[
        "length",
        "chunked",
        "trailer",
        "empty",
        "204",
        "304",
        "huge header",
        "many headers",
        "close",
        "http 1.0",
        "100-continue",
        "early hints",
    ],
)
@pytest.mark.parametrize("step", [1_000_000, 1])
async def test_answers(said: bytes, status: int, body: bytes, reused: bool, step: int) -> None:
    """Each kind of answer is read right, in one piece or byte by byte; interim ones are not it."""
    step = max(step, len(said) // 2000)  # a huge one in two thousand pieces
    async with fake_server(
        repeating(*(said[at : at + step] for at in range(0, len(said), step)))
    ) as on:
        got = await ask(on)
        assert (got.status, text(got)) == (status, body)
        assert got.header(b"link") is None
        assert (await ask(on)).status == status
        assert on.connections == (1 if reused else 2)


async def test_headers_come_in_order_with_lower_case_names() -> None:
    """Equal names are all kept; values are as they were."""
    async with fake_server(repeating(answer(b"", b"X-A: One", b"x-a:  Two ", b"B:"))) as stage:
        got = await ask(stage)
        assert got.headers[1:] == [(b"x-a", b"One"), (b"x-a", b"Two"), (b"b", b"")]
        assert got.header(b"x-a") == b"One"
        assert got.header(b"none") is None


SECOND = b"HTTP/1.1 500 Evil\r\nX-Evil: y\r\nContent-Length: 4\r\n\r\nevil"


@pytest.mark.parametrize("more", [SECOND, SECOND[:20], b"garbage", b"\0", SECOND * 2])
async def test_what_follows_an_answer_does_not_change_it(more: bytes) -> None:
    """A second answer or garbage behind the first is dropped, and so is the connection."""
    async with fake_server(repeating(answer() + more)) as stage:
        for count in (1, 2):
            got = await ask(stage)
            assert (got.status, text(got), got.header(b"x-evil")) == (200, b"ok", None)
            assert stage.connections == count


@pytest.mark.parametrize("more", [SECOND, b"garbage"])
async def test_bytes_that_nothing_was_asked_for_end_the_connection(more: bytes) -> None:
    """Said while the connection is idle: it is closed, and the answer before stays as it was."""
    go = asyncio.Event()
    ends = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer())
        await go.wait()
        await peer.send(more)
        ends.append(await peer.closed())

    async with fake_server(script) as stage:
        got = await ask(stage)
        go.set()
        await stage.over()
        assert ends == [True]
        assert (got.status, text(got)) == (200, b"ok")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((), "ended"),
        ((b"HTTP/1.1 200 OK\r\nContent-Le",), "ended"),
        ((answer(b"hello")[:-1],), "ended"),
        ((CHUNKED[:-5],), "ended"),
        ((b"HTTP/1.1 200 OK\r\n\r\nuntil the end",), "ended"),
        ((b"HTTP/1.1 100 Continue\r\n\r\n",), "ended"),
        ((b"\0\xffthis is no HTTP\r\n\r\n",), "no HTTP"),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",), "no HTTP"),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",), "no HTTP"),
        ((b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",), "no HTTP"),
        ((CHUNKED.replace(b"3;x=y", b"zz"),), "no HTTP"),
    ],
    ids=[
        "nothing",
        "in the head",
        "in the body",
        "in a chunk",
        "no length",
        "after 100",
        "garbage",
        "negative length",
        "two lengths",
        "upgrade",
        "bad chunk",
    ],
)
async def test_answers_that_are_none(said: tuple[bytes, ...], why: str) -> None:
    """Never taken for whole: ConnectionFailed says what was wrong, and the next one goes anew."""
    async with fake_server(saying(*said)) as stage:
        for count in (1, 2):
            with pytest.raises(ConnectionFailed, match=why):
                await ask(stage)
            assert stage.connections == count


async def test_bytes_before_anything_was_asked() -> None:
    """A server that speaks first gets no request on that connection."""

    async def script(peer: Peer) -> None:
        await peer.send(SECOND)
        await peer.closed()

    async with fake_server(script) as stage:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(Connection, str(stage.path))
        while not connection.closed:  # noqa: ASYNC110 (it has no event)
            await asyncio.sleep(0)
        with pytest.raises(ConnectionFailed, match="bytes that nothing was asked for"):
            connection.send(b"GET / HTTP/1.1\r\n\r\n", [])


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"])
async def test_an_answer_that_is_late(clock: Clock, said: bytes) -> None:
    """AnswerLate at the time given, also when a part came; the server sees the connection close."""
    ends, began = [], asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(said)
        began.set()
        ends.append(await peer.closed())

    async with fake_server(script) as stage:
        waiting = asyncio.ensure_future(ask(stage, timeout_s=WAIT_S / 2))
        await began.wait()
        clock.advance(WAIT_S / 2 + 1)
        with pytest.raises(AnswerLate):
            await waiting
        await stage.over()
        assert ends == [True]


async def test_each_request_has_its_own_limit(clock: Clock) -> None:
    """On one connection: neither a longer one before it nor a shorter one counts."""
    clock.stop()
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        for limited_s in (60, 10, 60):
            await peer.request()
            if limited_s == 10:
                clock.advance(9)
            await peer.send(answer())
        await peer.request()
        asked.set()
        await peer.closed()

    async with fake_server(script) as stage:
        for limit_s in (60, 10, 60):
            assert text(await ask(stage, timeout_s=limit_s)) == b"ok"
        waiting = asyncio.ensure_future(ask(stage, timeout_s=55))
        await asked.wait()
        for seconds in (2, 40):  # the limits of the first two requests
            clock.advance(seconds)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
        clock.advance(14)
        with pytest.raises(AnswerLate):
            await waiting
        assert stage.connections == 1


@pytest.mark.slow
async def test_a_trickle_does_not_make_time_stand_still() -> None:
    """The limit is for the whole answer, however its pieces fall together with its end."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not peer.writer.is_closing():
            await peer.send(b"x")
            await asyncio.sleep(0)

    async with fake_server(script) as stage:
        with pytest.raises(AnswerLate):
            await asyncio.wait_for(ask(stage, timeout_s=0.2), WAIT_S)


async def test_a_piece_and_the_end_of_time_in_one_turn() -> None:
    """Time that runs out between a piece and the look at it is not forgotten."""
    piece = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx"
    loop = asyncio.get_running_loop()
    async with fake_server(saying()) as stage:
        _, connection = await loop.create_unix_connection(Connection, str(stage.path))
        connection.send(b"GET / HTTP/1.1\r\ncontent-length: 10\r\n\r\n", ())
        loop.call_later(0.01, connection.data_received, piece)
        waiting = asyncio.ensure_future(connection.whole_answer(0.02))
        await asyncio.sleep(0)
        time.sleep(0.05)  # noqa: ASYNC251 # both times pass in one turn of the loop
        with pytest.raises(AnswerLate):
            await asyncio.wait_for(waiting, WAIT_S)
        connection.close()


async def test_a_piece_in_the_turn_of_its_limit_leaves_the_next_its_own() -> None:
    """A stream that was nearly late once is not late at the piece after that."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    loop = asyncio.get_running_loop()
    async with fake_server(saying()) as stage:
        _, connection = await loop.create_unix_connection(Connection, str(stage.path))
        connection.send(b"GET / HTTP/1.1\r\ncontent-length: 10\r\n\r\n", ())
        connection.data_received(head)
        await connection.answer_head(WAIT_S)
        loop.call_later(0.01, connection.data_received, b"x")
        waiting = asyncio.ensure_future(connection.piece(0.02))
        await asyncio.sleep(0)
        time.sleep(0.05)  # noqa: ASYNC251 # both times pass in one turn of the loop
        assert await waiting == b"x"
        loop.call_soon(connection.data_received, b"y")
        assert await connection.piece(WAIT_S) == b"y"
        connection.close()


#: Comes in many pieces.
LARGE = bytes(range(251)) * 12_000


@pytest.mark.parametrize("step", [4_099, 300_007, len(LARGE) + 1_000])
async def test_a_large_answer_is_whole(step: int) -> None:
    """However it comes; the connection goes on with small ones."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            said = answer(LARGE)
            for start in range(0, len(said), step):
                await peer.send(said[start : start + step])
                await asyncio.sleep(0)
            await peer.request()
            await peer.send(answer())

    async with fake_server(script) as stage:
        for _ in range(2):
            assert text(await ask(stage)) == LARGE
            assert text(await ask(stage)) == b"ok"
        assert stage.connections == 1


@pytest.mark.parametrize("more", [b"x", answer()])
async def test_what_follows_a_large_answer(more: bytes) -> None:
    """Does not change it, and nothing more is asked on that connection."""
    async with fake_server(repeating(answer(LARGE) + more)) as stage:
        assert text(await ask(stage)) == LARGE
        while stage.http.idle and not stage.http.idle[0].closed:  # noqa: ASYNC110 # it has no event
            await asyncio.sleep(0)
        assert text(await ask(stage)) == LARGE
        assert stage.connections == 2


async def test_a_large_answer_that_breaks_off() -> None:
    """Is none, as a small one."""
    async with fake_server(saying(answer(LARGE)[:-1])) as stage:
        with pytest.raises(ConnectionFailed, match="the connection ended"):
            await ask(stage)


class Held:
    """The place of a request that is given up."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    def keep(self) -> Callable[[], None]:
        return self.released.set


async def test_a_large_answer_that_nobody_waits_for() -> None:
    """Its rest is read and not kept; then the connection is used again."""
    half, go_on = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        said = answer(LARGE)
        await peer.send(said[: len(said) // 2])
        half.set()
        await go_on.wait()
        await peer.send(said[len(said) // 2 :])
        await peer.request()
        await peer.send(answer())

    async with fake_server(script) as stage:
        held = Held()
        asking = stage.http.request(
            b"POST", b"/x", [], [b"?"], timeout_s=WAIT_S, held=held, left_s=WAIT_S
        )
        task = asyncio.ensure_future(asking)
        await asyncio.wait_for(half.wait(), WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (left,) = stage.http.left
        go_on.set()
        await asyncio.wait_for(held.released.wait(), WAIT_S)
        assert left.buffered < len(LARGE) * 2 // 3
        assert text(await ask(stage)) == b"ok"
        assert stage.connections == 1


async def test_a_cancelled_request_closes_its_connection() -> None:
    """tritonserver learns that nobody waits any more."""
    asked = asyncio.Event()
    ends = []

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        ends.append(await peer.closed())

    async with fake_server(script) as stage:
        task = asyncio.ensure_future(ask(stage))
        await asyncio.wait_for(asked.wait(), WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stage.over()
        assert ends == [True]


async def test_nobody_listens(tmp_path: Path) -> None:
    """Refused, or no socket there: ConnectionFailed, with the reason."""
    path = tmp_path / "http"
    for reason in ("No such file", r"(?i)connection refused"):
        with pytest.raises(ConnectionFailed, match=reason):
            await TritonHttp(path).request(b"GET", b"/", [], timeout_s=WAIT_S)
        with socket.socket(socket.AF_UNIX) as left:
            if not path.exists():
                left.bind(str(path))


@pytest.mark.parametrize("accepts", [True, False], ids=["accepts at last", "never accepts"])
async def test_a_full_backlog(accepts: bool, tmp_path: Path) -> None:
    """Who connects waits for a place, which the kernel does not do here; for the time given."""
    path = str(tmp_path / "http")
    with socket.socket(socket.AF_UNIX) as listening, contextlib.ExitStack() as opened:
        listening.bind(path)
        listening.listen(1)
        for _ in range(2):
            filler = opened.enter_context(socket.socket(socket.AF_UNIX))
            filler.connect(path)
        http = TritonHttp(tmp_path / "http", connect_timeout_s=WAIT_S if accepts else 0.2)
        asking = asyncio.ensure_future(http.request(b"GET", b"/", [], timeout_s=WAIT_S))
        if not accepts:
            with pytest.raises(ConnectionFailed, match="too long"):
                await asking
            return
        done, _ = await asyncio.wait({asking}, timeout=0.1)
        assert not done
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        for _ in range(3):
            wire, _ = await asyncio.wait_for(loop.sock_accept(listening), WAIT_S)
            opened.enter_context(wire)
        assert await asyncio.wait_for(loop.sock_recv(wire, 2**16), WAIT_S)
        await loop.sock_sendall(wire, answer())
        assert (await asking).status == 200
        http.close()


async def test_the_server_closes_an_idle_connection() -> None:
    """The next request takes a fresh one, and nobody notices."""
    async with fake_server(saying(answer())) as stage:
        for count in (1, 2, 3):
            assert text(await ask(stage)) == b"ok"
            assert stage.connections == count
            await stage.over()
            while stage.http.idle and not stage.http.idle[0].closed:  # noqa: ASYNC110 # the kernel does
                await asyncio.sleep(0)


async def test_large_bodies_both_ways() -> None:
    """10 MB there and back, equal."""
    sent = bytes(range(256)) * 40_000

    async def script(peer: Peer) -> None:
        _, body = await peer.request()
        await peer.send(answer(body))

    async with fake_server(script) as stage:
        assert text(await ask(stage, sent)) == sent
