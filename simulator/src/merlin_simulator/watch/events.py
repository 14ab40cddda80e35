"""What happens at the endpoint, as it happens: kept for a while, and told to who listens.

One event is one fact. Its fields are plain values, so that a page, a metric and a test read the
same thing. Kinds and their fields:

    instance_starting   pid?                        a container process was started
    instance_in_service seconds                     /ping and /models answered for the first time,
                                                    or again
    instance_unhealthy  message                     it gets no requests until it answers again
    instance_ended      message                     its process ended, or it left
    image_pull_started  image                       where instances are an engine's containers
    image_pulling       image bytes total           of its layers, every two seconds
    image_pulled        image seconds
    image_pull_failed   image message
    download_started    target_model
    download_finished   target_model seconds bytes
    download_failed     target_model message
    extracted           target_model seconds bytes
    extraction_failed   target_model message
    load_started        target_model
    loaded              target_model seconds memory?          bytes; None where not known
    load_failed         target_model seconds status message   status 0: no answer
    unload_started      target_model reason   "memory" (above the threshold), "507", "disk" (full),
                                              "not cached", "left over" (of an earlier
                                              simulator; target_model is the container's name of it)
    unloaded            target_model seconds reason
    unload_failed       target_model status message
    lost                target_model message   the container no longer lists a model it had loaded
    deleted             target_model bytes     its archive left the disk, which was full
    invoked             target_model? status seconds cold request_id   status 200; seconds from the
                                              caller's request to the answer's end
                        cold_seconds          how long the model took to be there (0.0 when warm)
                        waiting_seconds       until the container was asked
                        room_seconds turn_seconds download_seconds extraction_seconds load_seconds
                        answer_seconds        where cold: what the seconds were spent on, which is
                                              their sum (COLD_PARTS). invocation_failed has them,
                                              too
                        container_statuses    "200": what containers answered to it, "507 200" when
                                              it was asked twice, 0 for no answer in time; "" when
                                              none was asked. invocation_failed has it, too
    invocation_failed   target_model? status seconds cold error message request_id
                                              error is the exception's name on the wire
                        original_status       the container's status, where it is the container's
                                              error; 0: it did not answer in time

    scaling_activity    endpoint variant status description cause message    of the control plane,
                                              by Application Auto Scaling; status: a StatusCode
    alarm_state         alarm state before message    of CloudWatch: OK, ALARM, INSUFFICIENT_DATA

    (an event of a variant of several has variant, its name)

A text of the container longer than TEXT_CHARACTERS is cut.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
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
