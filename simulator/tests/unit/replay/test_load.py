"""The traffic against an endpoint without containers: what is sent, noted and counted."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from merlin_simulator.replay.asking import NamedAsking, Runtime
from merlin_simulator.replay.copies import make_names
from merlin_simulator.replay.live_line import format_line
from merlin_simulator.replay.load import UNFINISHED, WRONG_ANSWER, Arrival, Load
from merlin_simulator.replay.observing import Observer, wait_until_in_service
from merlin_simulator.replay.settings import EndpointTrouble
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import InstanceState
from simulator.tests.unit.plain_http import plain_http
from simulator.tests.unit.replay.fake_endpoint import EACH, FakeEndpoint, serving
from tests.support.clock import Clock

NAMES = make_names(3)
#: For what must happen; a failure, not a sleep.
WAIT_S = 60.0


@asynccontextmanager
async def load_on(url: str, outstanding: int = 100, grace_s: float = 2.0) -> AsyncIterator[Load]:
    runtime = Runtime(url, "replay")
    try:
        targets = [f"{name}.tar.gz" for name in NAMES]
        yield Load(runtime, NamedAsking(NAMES), targets, outstanding, grace_s)
    finally:
        await runtime.close()


@asynccontextmanager
async def observing(url: str) -> AsyncIterator[Observer]:
    observer = Observer(url)
    await observer.begin()
    try:
        yield observer
    finally:
        await observer.close()


def at_once(count: int, models: int = 1) -> list[Arrival]:
    return [Arrival(number, 0.0, number % models) for number in range(count)]


async def run(load: Load, arrivals: list[Arrival]) -> None:
    await asyncio.wait_for(load.run(arrivals, asyncio.Event()), WAIT_S)


async def test_every_arrival_asks_its_model_once() -> None:
    """The request goes to the model of that rank, and what comes back is noted as right."""
    endpoint = FakeEndpoint()
    async with serving(endpoint) as url, load_on(url) as load:
        await run(load, at_once(30, models=3))
    assert sorted(endpoint.asked, key=lambda asked: asked[1]) == [
        (f"{NAMES[number % 3]}.tar.gz", number) for number in range(30)
    ]
    assert {(sample.status, sample.error) for sample in load.samples} == {(200, None)}
    assert len({sample.request_id for sample in load.samples}) == 30
    assert load.planned == 30


async def test_failures_and_wrong_answers_have_names() -> None:
    """The exception's name on the wire without what follows its colon, and ours for a lie."""
    endpoint = FakeEndpoint(fails_at=frozenset({1}), lies_at=frozenset({2}))
    async with serving(endpoint) as url, load_on(url) as load:
        await run(load, at_once(4))
    by_number = {sample.number: sample for sample in load.samples}
    assert (by_number[1].error, by_number[1].message) == ("ModelError", "request 1 fails")
    assert by_number[1].status == 424
    assert by_number[2].error == WRONG_ANSWER
    assert "another" in by_number[2].message
    assert by_number[0].error is by_number[3].error is None


async def test_an_endpoint_that_is_not_there_is_a_failure_of_each_request() -> None:
    """Transport errors are noted by their own name, with status 0."""
    async with serving(FakeEndpoint()) as url:
        pass
    async with load_on(url) as load:
        await run(load, at_once(2))
    assert [(sample.status, sample.error) for sample in load.samples] == [
        (0, "ClientConnectorError")
    ] * 2


async def test_connections_are_used_again() -> None:
    """Requests one after the other come over one connection, those at one time over several."""
    endpoint = FakeEndpoint()
    async with serving(endpoint) as url, load_on(url) as load:
        for number in range(5):
            await run(load, [Arrival(number, 0.0, 0)])
        assert len(endpoint.callers) == 1
        await run(load, at_once(4))
        assert 1 < len(endpoint.callers) <= 4


async def test_an_answer_that_breaks_off_is_a_failure() -> None:
    """The connection closes in mid-answer, or what comes is no HTTP: noted by name."""

    def server(answer: bytes) -> Callable[..., Awaitable[None]]:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        return play

    found = []
    for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"", b"SSH-2.0-x\r\n\r\n"):
        async with await asyncio.start_server(server(answer), "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            async with load_on(f"http://{host}:{port}") as load:
                await run(load, at_once(1))
        found.append(load.samples[0].error)
    assert found == ["ClientPayloadError", "ServerDisconnectedError", "ClientResponseError"]


async def test_what_may_not_be_sent_is_counted(clock: Clock) -> None:
    """Beyond the bound on outstanding requests nothing is sent, and nothing is forgotten."""
    endpoint = FakeEndpoint(load_s=20)
    async with serving(endpoint) as url, load_on(url, outstanding=2) as load:
        running = asyncio.create_task(load.run(at_once(5, models=3), asyncio.Event()))
        while len(load.not_sent) < 3 or len(endpoint.asked) < 2:  # noqa: ASYNC110 # plain lists
            await asyncio.sleep(0.01)
        clock.advance(20)
        await asyncio.wait_for(running, WAIT_S)
    assert load.planned == 5
    assert [sample.number for sample in load.samples] == [0, 1]
    assert [arrival.number for arrival in load.not_sent] == [2, 3, 4]


async def test_a_stall_is_in_the_latency_of_what_was_due_meanwhile() -> None:
    """Latency counts from the planned time, though the request could only be sent later."""
    async with serving(FakeEndpoint()) as url, load_on(url) as load:
        arrivals = [Arrival(0, 0.0, 0), Arrival(1, 0.05, 0)]
        task = asyncio.create_task(load.run(arrivals, asyncio.Event()))
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251 # the caller itself is kept busy: that is the point
        await asyncio.wait_for(task, WAIT_S)
    late = next(sample for sample in load.samples if sample.number == 1)
    assert late.sent - late.due >= 0.3
    assert late.latency >= 0.3


async def test_arrivals_do_not_wait_for_answers(clock: Clock) -> None:
    """The load is open: what is due during a stall of the endpoint is sent in time."""
    endpoint = FakeEndpoint(stalls_at=frozenset({0}), stall_s=20)
    async with serving(endpoint) as url, load_on(url) as load:
        arrivals = [Arrival(number, number * 0.02, 0) for number in range(10)]
        running = asyncio.create_task(load.run(arrivals, asyncio.Event()))
        while len(load.samples) < 9:  # noqa: ASYNC110 # samples are a plain list
            await asyncio.sleep(0.01)
        clock.advance(20)
        await asyncio.wait_for(running, WAIT_S)
    assert load.samples[-1].number == 0
    assert load.samples[-1].latency >= 20
    assert max(sample.finished for sample in load.samples[:-1]) < load.samples[-1].finished


async def test_an_interruption_ends_the_traffic() -> None:
    """Nothing more is sent; what is not answered within the grace is noted as unfinished."""
    endpoint = FakeEndpoint(stalls_at=frozenset({0}), stall_s=60.0)
    async with serving(endpoint) as url, load_on(url, grace_s=0.2) as load:
        stop = asyncio.Event()
        arrivals = [*at_once(2), Arrival(2, 3600.0, 0)]
        task = asyncio.create_task(load.run(arrivals, stop))
        await asyncio.wait_for(_first_sample(load), WAIT_S)
        stop.set()
        await asyncio.wait_for(task, WAIT_S)
    assert {sample.number: sample.error for sample in load.samples} == {0: UNFINISHED, 1: None}
    assert load.planned == 2
    assert load.in_flight == 0


async def test_the_observer_hears_every_event_once() -> None:
    """All events since the beginning, none before it, and when requests have ended."""
    endpoint = FakeEndpoint(room=1)
    endpoint.log.tell("instance_in_service", "one", seconds=1.0)
    async with serving(endpoint) as url, observing(url) as observer, load_on(url) as load:
        await run(load, at_once(8, models=2))
        ids = [str(sample.request_id) for sample in load.samples]
        assert await observer.heard_of(ids, WAIT_S)
        line = format_line(load, observer, 8.0)
    sequences = [event["sequence"] for event in observer.events]
    assert sequences == list(range(2, endpoint.log.last + 1))
    assert observer.missed == 0
    assert observer.asked == 8
    assert observer.looks[-1].state["instances"][0]["memory_used"] == 2 * EACH
    assert re.search(
        r" · 8 sent .* · hits \S+ % · p50 .* · 0 failed · \d loaded, \d+ MiB$", line
    ), line


async def test_what_is_never_told_is_not_waited_for() -> None:
    """A request that the stream does not know ends the waiting by its time-out."""
    async with serving(FakeEndpoint()) as url, observing(url) as observer:
        assert not await observer.heard_of(["unknown"], 0.1)


async def test_lost_events_are_counted() -> None:
    """Gaps in the sequence, as when the endpoint keeps fewer events than come, show."""
    endpoint = FakeEndpoint(log=EventLog(kept=2))
    async with serving(endpoint) as url, observing(url) as observer:
        for number in range(6):  # before the loop turns, and the observer asks for the stream
            endpoint.log.tell("invoked", "one", status=200, cold=False, request_id=f"r{number}")
        assert await observer.heard_of(["r5"], WAIT_S)
    assert len(observer.events) == 2
    assert observer.missed == endpoint.log.last - 2


async def test_an_event_that_is_told_again_is_not_counted_again() -> None:
    """A stream that begins anew tells what it keeps; requests are not counted twice."""
    streams = itertools.count(1)

    def answer(_: str, path: str) -> bytes:
        if path.endswith("/state"):
            return json.dumps({"sequence": 0, "instances": []}).encode()
        told = range(1, next(streams) + 1)  # each stream has one event more, and ends
        return b"".join(b"data: %s\n\n" % json.dumps(_ended(number)).encode() for number in told)

    with plain_http(answer) as port:
        async with observing(f"http://127.0.0.1:{port}") as observer:
            assert await observer.heard_of(["r1", "r2", "r3"], WAIT_S)
            asked = observer.asked
    assert [event["sequence"] for event in observer.events[:3]] == [1, 2, 3]
    assert (asked, observer.missed) == (3, 0)


async def test_an_endpoint_must_be_the_right_one_and_in_service(clock: Clock) -> None:
    """Another name, an instance that does not start, a process that ended: each is said."""
    looks = itertools.count()

    def pass_time() -> None:
        """It has started for too long at the second look."""
        if next(looks):
            clock.advance(WAIT_S)

    endpoint = FakeEndpoint(state=InstanceState.STARTING)
    async with serving(endpoint) as url:
        observer = Observer(url)
        try:
            with pytest.raises(EndpointTrouble, match="named replay, expected other"):
                await wait_until_in_service(observer, "other", lambda: None, WAIT_S)
            with pytest.raises(EndpointTrouble, match="one starting after"):
                await wait_until_in_service(observer, "replay", pass_time, WAIT_S)
            with pytest.raises(EndpointTrouble, match="it ended"):
                await wait_until_in_service(observer, "replay", lambda: "it ended", WAIT_S)
            endpoint.state = InstanceState.IN_SERVICE
            await wait_until_in_service(observer, "replay", lambda: None, WAIT_S)
        finally:
            await observer.close()


async def test_without_a_state_nothing_begins() -> None:
    """Something else at the URL is refused before any traffic."""
    async with serving(FakeEndpoint()) as url:
        observer = Observer(f"{url}/elsewhere")
        try:
            with pytest.raises(EndpointTrouble, match="simulator/state"):
                await observer.begin()
        finally:
            await observer.close()


async def test_when_all_is_sent_the_line_says_what_is_awaited() -> None:
    """Whole seconds of the duration while requests are sent; then how many answers are missing."""
    endpoint = FakeEndpoint(stalls_at=frozenset({0}), stall_s=60.0)
    async with serving(endpoint) as url, observing(url) as observer, load_on(url, 3, 0.0) as load:
        stop = asyncio.Event()
        running = asyncio.create_task(load.run(at_once(4), stop))
        while len(load.samples) < 2:  # noqa: ASYNC110 # samples are a plain list
            await asyncio.sleep(0.01)
        sending, waiting = (format_line(load, observer, duration) for duration in (1e6 + 0.4, 0.0))
        stop.set()
        await asyncio.wait_for(running, WAIT_S)
    assert re.match(r"\d+/1000000 s · 3 sent \(\d+/s, 1 waiting\) · hits ", sending)
    assert waiting.startswith("3 sent · waiting for 1 answer · hits ")
    assert " · 0 failed, 1 not sent · " in waiting


def _ended(number: int) -> dict[str, Any]:
    return {"sequence": number, "kind": "invoked", "request_id": f"r{number}", "cold": False}


async def _first_sample(load: Load) -> None:
    while not load.samples:  # noqa: ASYNC110 # samples are a plain list
        await asyncio.sleep(0.01)
