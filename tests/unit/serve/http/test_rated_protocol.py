"""Requests of models that are asked too often: refused at their heads, and nothing else is hurt."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import cast

import pytest

from serve.http.connections import Connections
from serve.http.invoke_protocol import find_invoked_model, make_invocation_protocol
from serve.invoke.invocation import Invocation
from serve.limit import UNCOUNTED, RateLimit
from serve.models.registry import Registry, State
from serve.models.request_queue import RequestQueues
from serve.models.request_rate import RequestRate
from serve.telemetry.telemetry import Telemetry
from tests.unit.serve.routes_on_fake import (
    LIMITS,
    FakeInvocation,
    RoutesOnFake,
    Wire,
    post,
    routes_on_fake,
)

SENTENCE = "the model 'm' is asked more than 2 times a second (SERVE_RATE_LIMIT); try again in 1 s"


@dataclass
class Flooded:
    """Routes with the models m and n, which may be asked twice a second; the clock stands still."""

    routes: RoutesOnFake
    now: float = 1000.0

    def names(self) -> list[str]:
        """Of the models that were asked, in order."""
        return [name for name, _ in self.routes.invocation.asked]

    async def flood(self) -> Wire:
        """As many requests of m as there may be at once; the connection that they came on."""
        wire = await self.routes.connect()
        for _ in range(2):
            await wire.send(post("m"))
            assert (await wire.answer())[0] == 200
        return wire


@pytest.fixture
async def flooded() -> AsyncIterator[Flooded]:
    """As Flooded says."""
    registry = Registry()
    for name in "mn":
        registry.begin_load(name, "").enter(State.READY)
    rate = RequestRate(registry, RateLimit(2, "SERVE_RATE_LIMIT"), lambda: int(running.now * 1e9))
    async with routes_on_fake(rate) as routes:
        for name in "mn":
            routes.metrics.meters.begin(name)
        running = Flooded(routes)
        yield running


async def test_one_too_many(flooded: Flooded) -> None:
    """It is refused with 429; its connection stays, and others' models are asked as ever."""
    wire = await flooded.flood()
    await wire.send(post("m", b"3"))
    status, headers, body = await wire.answer()
    assert (status, headers["retry-after"]) == (429, "1")
    assert headers["content-type"] == "application/json"
    assert "connection" not in headers
    assert json.loads(body) == {"error": SENTENCE}
    await wire.send(post("n", b"4"))
    assert (await wire.answer())[2] == b"n:4"
    flooded.now += 0.5
    await wire.send(post("m", b"5"))
    assert (await wire.answer())[2] == b"m:5"
    assert flooded.names() == ["m", "m", "n", "m"]
    assert flooded.routes.refused("rate") == 1
    assert flooded.routes.refused("crowd") == 0
    assert flooded.routes.metrics.meters.of("m").codes == {200: 3, 429: 1}


async def test_a_large_body_is_not_waited_for(flooded: Flooded) -> None:
    """The answer comes at the head of a request; the connection ends, and nothing was held."""
    await flooded.flood()
    wire = await flooded.routes.connect()
    await wire.send(post("m", b"x" * (UNCOUNTED + 1))[: -(UNCOUNTED + 1)])
    status, headers, body = await wire.answer()
    assert (status, headers["retry-after"], headers["connection"]) == (429, "1", "close")
    assert json.loads(body) == {"error": SENTENCE}
    assert await wire.is_closed()
    assert flooded.routes.queues.held_bytes == 0
    assert flooded.routes.metrics.meters.of("m").codes == {200: 2, 429: 1}
    assert flooded.routes.refused("rate") == 1


async def test_the_largest_of_the_small(flooded: Flooded) -> None:
    """It is read, and the connection stays."""
    wire = await flooded.flood()
    await wire.send(post("m", b"x" * UNCOUNTED))
    assert (await wire.answer())[0] == 429
    await wire.send(post("n"))
    assert (await wire.answer())[0] == 200


async def test_who_waits_to_be_told_to_go_on_is_not(flooded: Flooded) -> None:
    """429 in the place of 100: he sends no body."""
    await flooded.flood()
    wire = await flooded.routes.connect()
    await wire.send(post("m", b"abc", headers="Expect: 100-continue\r\n")[:-3])
    assert (await wire.answer())[0] == 429
    assert await wire.is_closed()


@pytest.mark.parametrize("size", [10, 3 * UNCOUNTED], ids=["small", "large"])
async def test_a_body_in_chunks(flooded: Flooded, size: int) -> None:
    """It is read as far as a small one; the connection stays where that was all of it."""
    wire = await flooded.flood()
    head = post("m").replace(b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n")
    await wire.send(head, b"%x\r\n%b\r\n" % (size, b"x" * size))
    if size < UNCOUNTED:
        await wire.send(b"0\r\n\r\n")
    status, headers, _ = await wire.answer()
    assert (status, headers.get("connection")) == (429, None if size < UNCOUNTED else "close")
    if size > UNCOUNTED:
        assert await wire.is_closed()
    assert flooded.routes.queues.held_bytes == 0


async def test_a_body_of_a_refused_request_is_no_request(flooded: Flooded) -> None:
    """What stands in it is not asked: neither where it is read, nor where it is read away."""
    wire = await flooded.flood()
    await wire.send(post("m", post("n", b"smuggled")) + post("n", b"1"))
    assert (await wire.answer())[0] == 429
    assert (await wire.answer())[2] == b"n:1"
    await wire.send(post("m", post("n", b"smuggled") * 1000) + post("n", b"2"))
    assert (await wire.answer())[0] == 429
    assert await wire.is_closed()
    assert flooded.names() == ["m", "m", "n"]


async def test_ahead_of_their_answers(flooded: Flooded) -> None:
    """Refusals keep to the order, and the number of them is no trouble."""
    wire = await flooded.routes.connect()
    await wire.send(b"".join(post("m", b"%d" % number) for number in range(90)) + post("n", b"e"))
    assert [(await wire.answer())[0] for _ in range(90)] == [200] * 2 + [429] * 88
    assert (await wire.answer())[2] == b"n:e"
    await wire.send(post("n", b"f") + post("m", b"x" * (UNCOUNTED + 1)))
    assert (await wire.answer())[2] == b"n:f"
    assert (await wire.answer())[0] == 429
    assert await wire.is_closed()


async def test_http_1_0(flooded: Flooded) -> None:
    """It is told as well, and its connection ends as any other of that version."""
    await flooded.flood()
    wire = await flooded.routes.connect()
    await wire.send(post("m", version="1.0"))
    assert (await wire.answer())[0] == 429
    assert await wire.is_closed()


async def test_other_refusals_come_first(flooded: Flooded) -> None:
    """What is no request of the model does not count; one of a model that is not there is a 404."""
    for _ in range(3):
        wire = await flooded.routes.connect()
        await wire.send(
            b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n"
        )
        assert (await wire.answer())[0] == 413
    wire = await flooded.flood()
    for _ in range(3):
        await wire.send(post("missing"))
        assert (await wire.answer())[0] == 404


def test_without_a_rate_nothing_is_looked_at() -> None:
    """The protocol that requests meet by default has no code for it."""
    invocation, crowd, queues = (
        cast(Invocation, FakeInvocation()),
        Connections(LIMITS),
        RequestQueues(),
    )
    default, rated = (
        make_invocation_protocol(invocation, find_invoked_model, crowd, queues, Telemetry(), rate)
        for rate in (None, RequestRate(Registry(), 1))
    )
    assert hasattr(rated, "rate")
    assert not hasattr(default, "rate")
