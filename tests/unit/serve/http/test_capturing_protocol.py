"""Requests of which a sample is captured: callers get their answers as ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from serve.limit import RateLimit
from serve.models.registry import Registry, State
from serve.models.request_rate import RequestRate
from serve.telemetry.captures import CapturedExchange, CaptureQueue
from tests.unit.serve.routes_on_fake import RoutesOnFake, post, routes_on_fake

#: More than is sent at once.
LARGE = b"0123456789" * 20_000


@dataclass
class Captured:
    """Routes of which everything is captured."""

    queue: CaptureQueue
    dropped: Counter[str]
    routes: RoutesOnFake = field(init=False)


@pytest.fixture
async def captured() -> AsyncIterator[Captured]:
    """As Captured says; m may be asked three times a second, and time stands still."""
    registry = Registry()
    registry.begin_load("m", "").enter(State.READY)
    rate = RequestRate(registry, RateLimit(3, "SERVE_RATE_LIMIT"), lambda: 10**12)
    dropped: Counter[str] = Counter()
    queue = CaptureQueue(100, lambda reason: dropped.update([reason]))
    found = Captured(queue, dropped)
    async with routes_on_fake(rate, queue) as found.routes:
        yield found


async def test_requests_and_their_answers(captured: Captured) -> None:
    """Both as they went over the wire, small and large, with the caller's headers."""
    wire = await captured.routes.connect()
    for body in (b"{}", LARGE):
        await wire.send(post("m", body, headers="x-amzn-sagemaker-target-model: a.tar.gz\r\n"))
        status, headers, answer = await wire.answer()
        assert (status, headers["x-of"]) == (200, "triton")
        assert answer == b"m:" + body
        (exchange,) = await until_taken(captured)
        assert b"".join(exchange.body) == body
        assert b"".join(exchange.answer) == answer
        assert (b"x-amzn-sagemaker-target-model", b"a.tar.gz") in exchange.headers
        assert exchange.answer_headers == [
            (b"content-type", b"application/json"),
            (b"x-of", b"triton"),
        ]


async def until_taken(captured: Captured, count: int = 1) -> list[CapturedExchange]:
    """So many that were captured: each comes behind its answer."""
    found = [*captured.queue.take()]
    while len(found) < count:  # the queue's reader is a thread, which looks too
        await asyncio.sleep(0.01)
        found += captured.queue.take()
    return found


@pytest.mark.parametrize(("name", "status"), [("missing", 404), ("full", 507), ("bug", 500)])
async def test_errors_are_not_captured(captured: Captured, name: str, status: int) -> None:
    """Nor do they hold any of the room."""
    wire = await captured.routes.connect()
    await wire.send(post(name), post("m"))
    assert (await wire.answer())[0] == status
    assert (await wire.answer())[0] == 200
    assert [it.model_name for it in await until_taken(captured)] == ["m"]
    assert not captured.dropped


async def test_what_the_rate_refuses_is_no_sample(captured: Captured) -> None:
    """A flood fills no disk."""
    wire = await captured.routes.connect()
    for status in (200, 200, 200, 429, 429):
        await wire.send(post("m"))
        assert (await wire.answer())[0] == status
    found = await until_taken(captured, 3)
    assert [b"".join(it.answer) for it in found] == [b"m:{}"] * 3


async def test_a_caller_who_leaves(captured: Captured) -> None:
    """Nothing of his is kept, and nothing of it counts."""
    asked = asyncio.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    captured.routes.invocation.behind = never
    wire = await captured.routes.connect()
    await wire.send(post("m", LARGE))
    await asked.wait()
    wire.writer.transport.abort()
    captured.routes.invocation.behind = None
    other = await captured.routes.connect()
    await other.send(post("m"))
    assert (await other.answer())[0] == 200
    (taken,) = await until_taken(captured)
    assert taken.size < len(LARGE)


async def test_a_large_body_is_answered_and_dropped(captured: Captured) -> None:
    """It is counted."""
    wire = await captured.routes.connect()
    await wire.send(post("m", LARGE * 10))
    assert (await wire.answer())[2] == b"m:" + LARGE * 10
    assert [*captured.queue.take()] == []
    assert captured.dropped == {"size": 1}
