"""How often endpoints are asked: the last minute's requests, and the course of the last while.

Counted in seconds of this machine, told by the platform's minutes. No I/O.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from merlin_simulator.control.clock import Clock
from merlin_simulator.watch.events import Event

#: Seconds of this machine that figures per minute are taken from, at least: where the platform's
#: minute is shorter than that, they would jump.
_LEAST_S = 10
#: Points of an endpoint's course, and this machine's seconds from one to the next: a quarter of an
#: hour.
SAMPLE_S = 2.0
_SAMPLES = 450

_MINUTE_S = 60.0
_KINDS = ("invoked", "invocation_failed")


@dataclass(frozen=True)
class Sample:
    """at: seconds since the epoch, on the platform. Requests and errors since the one before."""

    at: float
    instances: int
    requests: int
    errors: int


@dataclass
class _Second:
    """number: of this machine's seconds. requests: by variant, "" for those that came to none."""

    number: int
    requests: Counter[str] = field(default_factory=Counter)
    errors: int = 0


class _Course:
    def __init__(self, seconds: int) -> None:
        self.recent: deque[_Second] = deque(maxlen=seconds)
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self.requests = self.errors = 0
        self.sampled = (0, 0)

    def add(self, second: int, variant: str, failed: bool) -> None:
        if not self.recent or self.recent[-1].number != second:
            self.recent.append(_Second(second))
        self.recent[-1].requests[variant] += 1
        self.recent[-1].errors += failed
        self.requests += 1
        self.errors += failed

    def sample(self, at: float, instances: int) -> None:
        requests, errors = self.requests - self.sampled[0], self.errors - self.sampled[1]
        self.sampled = (self.requests, self.errors)
        self.samples.append(Sample(at, instances, requests, errors))


@dataclass(frozen=True)
class Rates:
    """Per minute of the platform; all: since the endpoint or the simulator began."""

    requests: float
    errors: float
    by_variant: Mapping[str, float]
    all_requests: int
    all_errors: int


class Traffic:
    """Of all endpoints, by name. window_s: the platform's seconds that rates are taken from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds = max(_LEAST_S, round(_MINUTE_S / clock.scale))
        self.window_s = self._seconds * clock.scale
        self._courses: dict[str, _Course] = {}

    def hear(self, endpoint_name: str, event: Event) -> None:
        """An event of an endpoint."""
        if event.kind in _KINDS:
            variant = str(event.fields.get("variant") or "")
            failed = event.kind == "invocation_failed"
            self._of(endpoint_name).add(self._second(), variant, failed)

    def sample(self, instances: Mapping[str, int]) -> None:
        """A point of each endpoint's course; instances: in service, by endpoint."""
        at = self._clock.now()
        for name, count in instances.items():
            self._of(name).sample(at, count)

    def rates(self, endpoint_name: str) -> Rates:
        """Of the last minute. Of a shorter one than 10 s of this machine: of these 10 s."""
        course, oldest = self._of(endpoint_name), self._second() - self._seconds
        recent = [second for second in course.recent if second.number > oldest]
        minutes = self.window_s / _MINUTE_S
        by_variant = Counter[str]()
        for second in recent:
            by_variant.update(second.requests)
        return Rates(
            sum(by_variant.values()) / minutes,
            sum(second.errors for second in recent) / minutes,
            {name: count / minutes for name, count in by_variant.items()},
            course.requests,
            course.errors,
        )

    def course(self, endpoint_name: str, since: float) -> Iterable[Sample]:
        """The points after that time, oldest first; since: on the platform's clock."""
        samples = self._of(endpoint_name).samples
        if not samples or samples[-1].at <= since:
            return ()
        return [sample for sample in samples if sample.at > since]

    def forget(self, endpoint_name: str) -> None:
        """It is gone."""
        self._courses.pop(endpoint_name, None)

    def _of(self, endpoint_name: str) -> _Course:
        if endpoint_name not in self._courses:
            self._courses[endpoint_name] = _Course(self._seconds)
        return self._courses[endpoint_name]

    def _second(self) -> int:
        return int(self._clock.now() / self._clock.scale)
