"""A day at an endpoint as two sides saw it: the callers' answers, and the endpoint's own events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from examples.hundreds.traffic import Asked
from merlin_simulator.replay.load import ObservedState
from merlin_simulator.replay.observing import Event, Observer

#: Why a model left the memory while its instance stayed.
_FOR_ROOM = ("memory", "507")


@dataclass(frozen=True)
class Day:
    """asked: by when they were sent; looks: the endpoint each second; both since the begin."""

    asked: Sequence[Asked]
    looks: Sequence[ObservedState]
    cold: frozenset[str]
    evicted_at: Sequence[float]
    seconds: float

    def hit_ratio(self) -> float:
        """Of all requests the share whose model was loaded already."""
        return 1 - len([it for it in self.asked if it.request_id in self.cold]) / len(self.asked)

    def took(self, *, cold: bool) -> list[float]:
        """Seconds of the answers to cold or to warm requests."""
        return [it.seconds for it in self.asked if (it.request_id in self.cold) is cold]

    def instances(self) -> list[int]:
        """How many were in service, each time that there were more or fewer."""
        counts = [count_instances(look) for look in self.looks]
        return [now for before, now in zip([None, *counts], counts, strict=False) if now != before]


def make_day(asked: Sequence[Asked], observer: Observer, began: float, seconds: float) -> Day:
    """began: the day's, in seconds since the epoch, as events have it."""
    return Day(
        sorted(asked, key=lambda one: one.at),
        observer.looks,
        frozenset(str(event["request_id"]) for event in observer.events if event.get("cold")),
        [_at(event) - began for event in observer.events if _is_eviction(event)],
        seconds,
    )


def _is_eviction(event: Event) -> bool:
    return event["kind"] == "unloaded" and event.get("reason") in _FOR_ROOM


def _at(event: Event) -> float:
    return float(event["at"])


def count_instances(look: ObservedState) -> int:
    """Those that take requests."""
    return sum(it["state"] == "in service" for it in look.state["instances"])


def count_loaded(look: ObservedState) -> int:
    """Models in the memory of all instances; one in two instances counts twice."""
    models = (model for it in look.state["instances"] for model in it["models"])
    return sum(model["state"] == "loaded" for model in models)


def write_table(day: Day, rows: int) -> Iterator[str]:
    """The day in so many equal parts, a line each."""
    yield "      s  requests/s  instances  loaded    hits  cold p50   warm p50  evictions"
    part = day.seconds / rows
    for number in range(rows):
        begin, end = number * part, (number + 1) * part
        asked = [it for it in day.asked if begin <= it.at < end]
        here = Day(asked, day.looks, day.cold, (), part)
        look = max((it for it in day.looks if it.at < end), key=lambda it: it.at)
        evictions = sum(begin <= at < end for at in day.evicted_at)
        hits = f"{here.hit_ratio():.0%}" if asked else "–"
        yield (
            f"  {end:5.1f}  {len(asked) / part:10.1f}  {count_instances(look):9}  "
            f"{count_loaded(look):6}  {hits:>6}  {write_median(here.took(cold=True)):>8}  "
            f"{write_median(here.took(cold=False)):>9}  {evictions:9}"
        )


def write_median(seconds: Sequence[float]) -> str:
    """Of as many as there are."""
    if not seconds:
        return "–"
    found = median(seconds)
    return f"{found:.2f} s" if found >= 1 else f"{found * 1000:.0f} ms"
