"""What happens to requests and models, told to whoever watches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

#: What a message may take in the log, which keeps thousands of them.
TEXT_CHARACTERS = 16_384

#: What a cold request's seconds are spent on: waiting until others have left the memory or the
#: disk, and until it was its turn; then its archive's download and extraction, its load by the
#: container, and its answer. An event has {part}_seconds for each.
COLD_PARTS = ("room", "turn", "download", "extraction", "load", "answer")

#: Plain values only, so that an event is JSON as it stands.
Value = str | int | float | bool | None


@dataclass(frozen=True)
class Event:
    """One fact: the sequence number (from 1, without gaps), seconds since the epoch, the rest."""

    sequence: int
    at: float
    kind: str
    instance: str | None
    fields: Mapping[str, Value]

    def as_json(self) -> dict[str, Value]:
        """The event as one flat object."""
        return {
            "sequence": self.sequence,
            "at": self.at,
            "kind": self.kind,
            "instance": self.instance,
            **self.fields,
        }


class EventLog:
    """The last events and who listens. Called from the event loop's thread only."""

    def __init__(self, kept: int = 5000, clock: Callable[[], float] = time.time) -> None:
        self._events: deque[Event] = deque(maxlen=kept)
        self._clock, self._tags = clock, dict[str, Value]()
        self._listeners: set[Callable[[Event], None]] = set()

    def tell(self, kind: str, instance: str | None = None, **fields: Value) -> Event:
        """Something happened; every listener has heard of it when this returns."""
        cut = {name: _cut(value) for name, value in (self._tags | fields).items()}
        event = Event(self.last + 1, self._clock(), kind, instance, MappingProxyType(cut))
        self._events.append(event)
        for listener in tuple(self._listeners):
            listener(event)
        return event

    def tagged(self, **fields: Value) -> EventLog:
        """This log, for who tells what all has these fields; listened to, it is the whole log."""
        tagged = copy(self)
        tagged._tags = self._tags | fields
        return tagged

    def since(self, sequence: int) -> tuple[Event, ...]:
        """The kept events after that one, oldest first."""
        return tuple(event for event in self._events if event.sequence > sequence)

    @property
    def last(self) -> int:
        """The sequence number of the newest event; 0 before the first."""
        return self._events[-1].sequence if self._events else 0

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call listener with each event from now on; returns what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)


def _cut(value: Value) -> Value:
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS:
        return f"{value[:TEXT_CHARACTERS]}… ({len(value)} characters)"
    return value


_MIB = 1024**2
#: Kinds of which one comes with each request: told when asked for.
_PER_REQUEST = frozenset({"invoked"})


def make_console(write: Callable[[str], None], verbose: bool) -> Callable[[Event], None]:
    """A listener that writes one line per event."""
    return partial(tell_event, write, verbose, "")


def tell_event(
    write: Callable[[str], None], verbose: bool, endpoint_name: str, event: Event
) -> None:
    """One event as a line, which begins with the endpoint's name where it is given."""
    if verbose or event.kind not in _PER_REQUEST:
        write(f"{endpoint_name} {format_event(event)}".strip())


def format_event(event: Event) -> str:
    """Time, instance, what happened, in words."""
    fields = dict(event.fields)
    words = [
        time.strftime("%H:%M:%S", time.localtime(event.at)),
        f"{event.instance or '-':<12}",
        event.kind.replace("_", " "),
    ]
    if endpoint := fields.get("endpoint"):
        words += [str(endpoint), str(fields.get("status", ""))]
    if alarm := fields.get("alarm"):
        words += [str(alarm), str(fields.get("state", ""))]
    words += [str(fields[name]) for name in ("target_model", "image") if fields.get(name)]
    if (reason := fields.get("reason")) is not None:
        words.append(f"({reason})")
    if isinstance(seconds := fields.get("seconds"), float):
        words.append(f"{seconds:.3f} s")
    for name in ("bytes", "memory"):
        if isinstance(size := fields.get(name), int):
            words.append(f"{size / _MIB:.1f} MiB")
    if fields.get("cold"):
        words.append("cold")
    words += [str(fields[name]) for name in ("error", "message") if fields.get(name)]
    return " ".join(words)
