"""The event log."""

from __future__ import annotations

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


def test_who_tells_with_tags_tells_the_same_log() -> None:
    """Its events have the tags, unless they say otherwise; others' have none."""
    log, heard = EventLog(), list[object]()
    one = log.tagged(variant="one")
    one.listen(lambda event: heard.append(event.fields.get("variant")))
    one.tell("a")
    log.tell("b")
    one.tagged(more=1).tell("c", variant="two")
    assert heard == ["one", None, "two"]
    assert [event.sequence for event in one.since(0)] == [1, 2, 3]
    assert (one.last, log.last) == (3, 3)


def test_a_long_text_is_cut() -> None:
    """The log keeps thousands of events: a container's message may not fill the memory."""
    log = EventLog()
    log.tell("load_failed", message="x" * 1_000_000)
    kept = log.since(0)[0].fields["message"]
    assert isinstance(kept, str)
    assert kept.endswith("… (1000000 characters)")
    assert len(kept) < 17_000
