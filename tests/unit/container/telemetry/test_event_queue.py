"""No call is more than PutLogEvents takes; no more waits than there is room for."""

from __future__ import annotations

from container.telemetry.event_queue import (
    EVENT_OVERHEAD,
    LARGEST_CALL,
    LARGEST_EVENT,
    LONGEST_CALL_MS,
    MOST_IN_CALL,
    Event,
    EventQueue,
)


def calls(queue: EventQueue) -> list[list[Event]]:
    found = []
    while call := queue.take_call():
        found.append(call)
        queue.take(len(call))
    return found


def test_a_call_has_at_most_so_many_events() -> None:
    """10,000; none is lost, and none comes twice."""
    queue = EventQueue()
    events = [Event(0, str(number)) for number in range(MOST_IN_CALL + 5)]
    assert queue.put(events) == 0
    first, second = calls(queue)
    assert (len(first), len(second)) == (MOST_IN_CALL, 5)
    assert first + second == events


def test_a_call_has_at_most_so_many_bytes() -> None:
    """1 MiB, with 26 for each event beside its text."""
    queue = EventQueue()
    event = Event(0, "x" * (LARGEST_EVENT - EVENT_OVERHEAD))
    queue.put([event] * 5)
    assert [len(call) for call in calls(queue)] == [LARGEST_CALL // LARGEST_EVENT, 1]


def test_an_event_that_no_call_takes_is_dropped() -> None:
    """One byte more than it may have."""
    queue = EventQueue()
    assert queue.put([Event(0, "x" * (LARGEST_EVENT - EVENT_OVERHEAD + 1))]) == 1
    assert not len(queue)


def test_a_call_is_of_one_day_in_its_order() -> None:
    """A clock that was set back is none of CloudWatch's troubles."""
    queue = EventQueue()
    queue.put([Event(5, "b"), Event(3, "a"), Event(4 + LONGEST_CALL_MS, "c")])
    assert calls(queue) == [[Event(3, "a"), Event(5, "b")], [Event(4 + LONGEST_CALL_MS, "c")]]


def test_the_oldest_make_room() -> None:
    """By number and by bytes; how many is told."""
    queue = EventQueue(most_events=2)
    assert queue.put(Event(n, str(n)) for n in range(5)) == 3
    assert [event.at_ms for event in queue.take_call()] == [3, 4]
    queue = EventQueue(most_bytes=3 * (EVENT_OVERHEAD + 1))
    assert queue.put(Event(n, str(n)) for n in range(5)) == 2
    queue.take(1)
    assert queue.put([Event(9, "9")]) == 0
