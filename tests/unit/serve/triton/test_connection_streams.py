"""Answers that are read as they come: slow readers, early ends, stalls."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from serve.triton.connection import (
    STREAM_HIGH_WATER,
    Answer,
    AnswerLate,
    AnswerStream,
    ConnectionFailed,
)
from tests.support.clock import Clock
from tests.unit.serve.fake_server import (
    WAIT_S,
    FakeServer,
    Peer,
    Script,
    answer,
    fake_server,
    repeating,
    saying,
)

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def stream(stage: FakeServer, timeout_s: float = WAIT_S) -> tuple[Answer, AnswerStream]:
    got = await stage.http.request(b"POST", b"/x", [], [b"?"], timeout_s=timeout_s, streams=True)
    assert got.rest is not None
    return got, got.rest


async def ask(stage: FakeServer) -> bytes:
    got = await stage.http.request(b"POST", b"/x", [], [b"?"], timeout_s=WAIT_S)
    return b"".join(got.body)


@pytest.mark.parametrize(
    "said",
    [answer(b"hello"), HEAD + chunk(b"he") + chunk(b"llo") + END, answer(b"")],
    ids=["length", "chunked", "empty"],
)
async def test_a_stream_read_to_its_end_gives_its_connection_back(said: bytes) -> None:
    """The same bytes as a whole answer has; then the end, again and again."""
    async with fake_server(repeating(said)) as stage:
        for _ in range(3):
            got, body = await stream(stage)
            pieces = [piece async for piece in body]
            assert got.status == 200
            assert b"".join(pieces) in {b"hello", b""}
            assert [piece async for piece in body] == []
            body.close()
        assert stage.connections == 1


async def test_pieces_come_before_the_end() -> None:
    """Each as it is said: the next is said only when the last was read."""
    read = asyncio.Queue[bytes]()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD)
        for number in range(5):
            await peer.send(chunk(b"%d" % number))
            assert await asyncio.wait_for(read.get(), WAIT_S) == b"%d" % number
        await peer.send(END)

    async with fake_server(script) as stage:
        _, body = await stream(stage)
        async for piece in body:
            read.put_nowait(piece)
        await stage.over()


async def test_a_slow_reader_makes_the_server_wait() -> None:
    """Reading stops at the high-water mark and goes on when the reader does; nothing is lost."""
    block = b"x" * 65536
    blocks = 20 * STREAM_HIGH_WATER // len(block)
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(answer())
        await peer.request()
        await peer.send(HEAD)
        for _ in range(blocks):
            await peer.send(chunk(block))
            sent += 1
        await peer.send(END)

    async with fake_server(script) as stage:
        await ask(stage)
        (held,) = stage.http.idle
        _, body = await stream(stage)
        received = len(await anext(body))
        before = -1
        while before != sent:  # until the server gets no further
            before = sent
            await asyncio.sleep(0.1)
        assert sent < blocks
        assert held.buffered < 2 * STREAM_HIGH_WATER
        async for piece in body:
            received += len(piece)
            assert held.buffered < 2 * STREAM_HIGH_WATER
        assert received == blocks * len(block)
        assert stage.http.idle == [held]


async def test_the_last_piece_passes_the_high_water_mark() -> None:
    """With its end, while nobody reads: who gets the connection next is answered."""
    data = b"x" * (STREAM_HIGH_WATER + 1)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer())
        await peer.request()
        await peer.send(HEAD)
        await asyncio.Event().wait()

    async with fake_server(script) as stage:
        await ask(stage)
        (held,) = stage.http.idle
        _, body = await stream(stage)
        held.data_received(chunk(data) + END)
        assert b"".join([piece async for piece in body]) == data
        assert stage.http.idle == [held]
        assert cast(asyncio.Transport, held.transport).is_reading()


def never_ending() -> tuple[Script, list[bool]]:
    ends: list[bool] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + chunk(b"a"))
        ends.append(await peer.closed())

    return script, ends


@pytest.mark.parametrize("pieces", [0, 1])
async def test_closed_early(pieces: int) -> None:
    """Before its first piece as well as after: the server sees the connection close."""
    script, ends = never_ending()
    async with fake_server(script) as stage:
        _, body = await stream(stage)
        for _ in range(pieces):
            assert await anext(body) == b"a"
        body.close()
        body.close()
        await stage.over()
        assert ends == [True]
        assert [piece async for piece in body] == []
        assert stage.http.idle == []


async def test_cancelled_while_it_waits_for_a_piece() -> None:
    """The connection is closed."""
    script, ends = never_ending()
    async with fake_server(script) as stage:
        _, body = await stream(stage)
        assert await anext(body) == b"a"
        waiting = asyncio.ensure_future(anext(body))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stage.over()
        assert ends == [True]


async def test_a_stream_that_stalls(clock: Clock) -> None:
    """Late when no piece comes for the time given; what had come is read first."""
    script, ends = never_ending()
    async with fake_server(script) as stage:
        _, body = await stream(stage, timeout_s=WAIT_S / 2)
        assert await anext(body) == b"a"
        waiting = asyncio.ensure_future(anext(body))
        await asyncio.sleep(0)
        clock.advance(WAIT_S / 2 + 1)
        with pytest.raises(AnswerLate):
            await waiting
        await stage.over()
        assert ends == [True]


async def test_a_stream_may_take_longer_than_the_limit_between_pieces(clock: Clock) -> None:
    """The limit is for each piece and not for the whole, however slow the reader is."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD)
        for _ in range(6):
            await asyncio.sleep(WAIT_S / 2)
            await peer.send(chunk(b"a"))
        await peer.send(END)

    async with fake_server(script) as stage:
        _, body = await stream(stage)
        clock.advance(WAIT_S / 2)
        pieces = []
        async for piece in body:
            pieces.append(piece)
            clock.advance(WAIT_S / 2)
        assert b"".join(pieces) == b"aaaaaa"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n"])
async def test_a_head_that_is_late(clock: Clock, said: bytes) -> None:
    """As a whole answer that is late."""
    ends, began = [], asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(said)
        began.set()
        ends.append(await peer.closed())

    async with fake_server(script) as stage:
        waiting = asyncio.ensure_future(stream(stage, timeout_s=WAIT_S / 2))
        await began.wait()
        clock.advance(WAIT_S / 2 + 1)
        with pytest.raises(AnswerLate):
            await waiting
        await stage.over()
        assert ends == [True]


@pytest.mark.parametrize("said", [HEAD + chunk(b"a"), answer(b"ab")[:-1]])
async def test_a_body_that_breaks_off(said: bytes) -> None:
    """The piece that came, and then ConnectionFailed: never a silent end."""
    async with fake_server(saying(said)) as stage:
        _, body = await stream(stage)
        assert await anext(body) == b"a"
        with pytest.raises(ConnectionFailed):
            await anext(body)


async def test_a_second_answer_behind_a_stream_is_dropped() -> None:
    """And its connection is not used again."""
    async with fake_server(repeating(HEAD + chunk(b"a") + END + answer(b"evil"))) as stage:
        for count in (1, 2):
            _, body = await stream(stage)
            assert b"".join([piece async for piece in body]) == b"a"
            assert stage.connections == count


async def test_interim_answers_are_not_the_head() -> None:
    """The status is the final answer's."""
    async with fake_server(repeating(b"HTTP/1.1 100 Continue\r\n\r\n", answer())) as stage:
        got, body = await stream(stage)
        assert got.status == 200
        assert [piece async for piece in body] == [b"ok"]
        assert await ask(stage) == b"ok"
        assert stage.connections == 1


@pytest.mark.parametrize("end", ["read", "closed", "broken"])
async def test_what_is_done_at_the_end(end: str) -> None:
    """Once, however it ends; an error is told, and another one may take its place."""
    said = [HEAD + chunk(b"a")] if end == "broken" else [HEAD + chunk(b"a") + END]
    told: list[tuple[type[BaseException] | None, bool]] = []

    def note(_: object, error: BaseException | None, __: object) -> None:
        told.append((type(error) if error else None, body.whole))
        if error is not None:
            raise LookupError from error

    async with fake_server(saying(*said)) as stage:
        _, body = await stream(stage)
        body.at_end.push(note)
        assert await anext(body) == b"a"
        assert told == []
        if end == "read":
            assert [piece async for piece in body] == []
        elif end == "broken":
            with pytest.raises(LookupError):
                await anext(body)
        for _ in range(2):
            body.close()
    expected = {"read": (None, True), "closed": (None, False), "broken": (ConnectionFailed, False)}
    assert told == [expected[end]]
