"""Events that wait to be sent, bounded in number and bytes, as calls of PutLogEvents. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

MIB = 1024 * 1024
# PutLogEvents' own limits.
EVENT_OVERHEAD = 26  # bytes that each event counts more than its text
LARGEST_EVENT = 256 * 1024
LARGEST_CALL = MIB
MOST_IN_CALL = 10_000
LONGEST_CALL_MS = 23 * 3600 * 1000  # it takes 24 hours between the first event and the last
# Ours: what is held while CloudWatch does not answer. 500 busy models are 4 MB a minute.
MOST_EVENTS = 40_000
MOST_BYTES = 16 * MIB


@dataclass(frozen=True)
class Event:
    """A line of the log."""

    at_ms: int
    #: In ASCII.
    text: str

    @property
    def size(self) -> int:
        """Bytes, as PutLogEvents counts them."""
        return len(self.text) + EVENT_OVERHEAD


class EventQueue:
    """First in, first out. Not for several threads."""

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_events, self._most_bytes = most_events, most_bytes
        self._events: deque[Event] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, events: Iterable[Event]) -> int:
        """How many were dropped: those that no call takes, and the oldest for want of room."""
        dropped = 0
        for event in events:
            if event.size > LARGEST_EVENT:
                dropped += 1
                continue
            self._events.append(event)
            self._bytes += event.size
            while len(self._events) > self._most_events or self._bytes > self._most_bytes:
                self._bytes -= self._events.popleft().size
                dropped += 1
        return dropped

    def take_call(self) -> list[Event]:
        """The events of the next call, in the order that it wants; they stay here until `take`."""
        call: list[Event] = []
        size = 0
        first = last = self._events[0].at_ms if self._events else 0
        for event in self._events:
            size += event.size
            first, last = min(first, event.at_ms), max(last, event.at_ms)
            if size > LARGEST_CALL or len(call) == MOST_IN_CALL or last - first > LONGEST_CALL_MS:
                break
            call.append(event)
        return sorted(call, key=lambda event: event.at_ms)

    def take(self, count: int) -> None:
        """The first so many are done with."""
        for _ in range(count):
            self._bytes -= self._events.popleft().size
