"""What happens to requests and models, told to whoever watches."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
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
        self._kept: deque[Event] = deque(maxlen=kept)
        self._clock, self._last = clock, 0
        self._listeners: set[Callable[[Event], None]] = set()

    def tell(self, kind: str, instance: str | None = None, **fields: Value) -> Event:
        """Something happened; every listener has heard of it when this returns."""
        self._last += 1
        cut = {name: _cut(value) for name, value in fields.items()}
        event = Event(self._last, self._clock(), kind, instance, MappingProxyType(cut))
        self._kept.append(event)
        for listener in tuple(self._listeners):
            listener(event)
        return event

    def tagged(self, **fields: Value) -> EventLog:
        """This log, for who tells what all has these fields; listened to, it is the whole log."""
        return _TaggedLog(self, fields)

    def since(self, sequence: int) -> tuple[Event, ...]:
        """The kept events after that one, oldest first."""
        return tuple(event for event in self._kept if event.sequence > sequence)

    @property
    def last(self) -> int:
        """The sequence number of the newest event; 0 before the first."""
        return self._last

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call listener with each event from now on; returns what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    async def follow(self, sequence: int) -> AsyncIterator[Event]:
        """The events after that one: the kept ones, then each as it happens, without end.

        A follower that does not keep up loses nothing until it is more than the log's length
        behind; then it continues with the oldest event that is kept.
        """
        news = asyncio.Event()
        stop = self.listen(lambda _: news.set())
        try:
            while True:
                news.clear()
                for event in self.since(sequence):
                    sequence = event.sequence
                    yield event
                await news.wait()
        finally:
            stop()


class _TaggedLog(EventLog):
    """Tells another log."""

    def __init__(self, whole: EventLog, fields: Mapping[str, Value]) -> None:
        self._whole, self._fields = whole, fields

    def tell(self, kind: str, instance: str | None = None, **fields: Value) -> Event:
        return self._whole.tell(kind, instance, **{**self._fields, **fields})

    def since(self, sequence: int) -> tuple[Event, ...]:
        return self._whole.since(sequence)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        return self._whole.listen(listener)

    @property
    def last(self) -> int:
        return self._whole.last


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
