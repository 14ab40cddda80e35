"""The event log."""

from __future__ import annotations

import asyncio

from merlin_simulator.watch.events import EventLog


def test_numbers_have_no_gaps_and_the_oldest_leave() -> None:
    """The log keeps the last ones only."""
    log = EventLog(kept=2, clock=lambda: 1.5)
    for kind in "abc":
        log.tell(kind, "i", n=1)
    assert [(event.sequence, event.kind) for event in log.since(0)] == [(2, "b"), (3, "c")]
    assert log.last == 3
    assert log.since(2)[0].as_json() == {
        "sequence": 3,
        "at": 1.5,
        "kind": "c",
        "instance": "i",
        "n": 1,
    }


def test_a_listener_hears_until_it_stops() -> None:
    """What happened before and after is not told to it."""
    log, heard = EventLog(), list[str]()
    log.tell("before")
    stop = log.listen(lambda event: heard.append(event.kind))
    log.tell("during")
    stop()
    log.tell("after")
    assert heard == ["during"]


async def test_a_follower_gets_every_event_once_in_order() -> None:
    """Kept ones first, then each as it happens, also when several come at once."""
    log, seen = EventLog(), list[int]()
    log.tell("a")

    async def follow() -> None:
        async for event in log.follow(0):
            seen.append(event.sequence)
            if event.sequence == 6:
                return

    following = asyncio.create_task(follow())
    for burst in (1, 3, 1):
        await asyncio.sleep(0)
        for _ in range(burst):
            log.tell("b")
    await asyncio.wait_for(following, 60)
    assert seen == [1, 2, 3, 4, 5, 6]


def test_a_long_text_is_cut() -> None:
    """The log keeps thousands of events: a container's message may not fill the memory."""
    log = EventLog()
    log.tell("load_failed", message="x" * 1_000_000)
    kept = log.since(0)[0].fields["message"]
    assert isinstance(kept, str)
    assert kept.endswith("… (1000000 characters)")
    assert len(kept) < 17_000
