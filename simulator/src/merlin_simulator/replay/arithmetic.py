"""Arithmetic over samples and events. Pure; seconds, bytes, counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merlin_simulator.replay.load import Look, Sample
from merlin_simulator.watch.events import COLD_PARTS

Event = Mapping[str, Any]

#: The two events that end a request.
ENDINGS = ("invoked", "invocation_failed")
#: Unloads that make room; the others are the cache setting's, the start's and the end's.
EVICTION_REASONS = ("memory", "507", "disk")
#: What a caller is told when it was the container that failed, by its name on the wire.
MODEL_ERROR = "ModelError"
#: Events of the endpoint that tell of trouble which no caller may have seen.
TROUBLE = (
    "instance_unhealthy",
    "instance_ended",
    "download_failed",
    "extraction_failed",
    "load_failed",
    "unload_failed",
    "lost",
)


@dataclass(frozen=True)
class Spread:
    """How values are spread; all None but the count where there are no values."""

    count: int
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class Kind:
    """What happened under one name: how often, and what was said the first time."""

    name: str
    count: int
    example: str


@dataclass(frozen=True)
class Steps:
    """A count that holds from each time to the next."""

    at: tuple[float, ...]
    values: tuple[int, ...]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of ascending values, between neighbours in proportion, as numpy's default does."""
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def measure_spread(values: Iterable[float]) -> Spread:
    """Count, percentiles and maximum."""
    ordered = sorted(values)
    if not ordered:
        return Spread(0)
    p50, p90, p99 = (percentile(ordered, percent) for percent in (50, 90, 99))
    return Spread(len(ordered), p50, p90, p99, ordered[-1])


def count_statuses(samples: Iterable[Sample], events: Iterable[Event]) -> dict[int, dict[str, int]]:
    """By model, how often containers answered its requests with each status; "0": not in time.

    "none": requests for which the platform asked no container. What it asked twice counts twice.
    """
    models = {sample.request_id: sample.model for sample in samples}
    results: dict[int, Counter[str]] = {}
    for event in events:
        if event["kind"] in ENDINGS and event["request_id"] in models:
            counter = results.setdefault(models[event["request_id"]], Counter())
            counter.update(event.get("container_statuses", "").split() or ["none"])
    return {model: dict(counter) for model, counter in results.items()}


def find_coldness(events: Iterable[Event]) -> dict[str, bool]:
    """By request id, of those that reached a container: whether they waited for a load."""
    return {
        str(event["request_id"]): bool(event["cold"])
        for event in events
        if reached_container(event)
    }


def reached_container(event: Event) -> bool:
    """Whether an event is the end of a request that a container answered, well or not.

    A refused one found no model, loaded or not: it is neither a hit nor a miss.
    """
    if event["kind"] == "invocation_failed":
        return event.get("error") == MODEL_ERROR
    return bool(event["kind"] == "invoked")


@dataclass(frozen=True)
class ColdParts:
    """A cold request that was answered: when, seconds since the epoch, and what it waited for."""

    at: float
    seconds: Mapping[str, float]


def find_cold_parts(events: Iterable[Event]) -> tuple[ColdParts, ...]:
    """Of each cold request that was answered, where the endpoint told them."""
    return tuple(
        ColdParts(event["at"], {part: event[f"{part}_seconds"] for part in COLD_PARTS})
        for event in events
        if event["kind"] == "invoked" and event["cold"] and "answer_seconds" in event
    )


def average_per_bin(
    cold: Iterable[ColdParts], started: float, width: float, seconds: float
) -> dict[str, list[float]]:
    """By part, what the cold requests that were answered in a bin waited for it on average."""
    bins: dict[int, list[ColdParts]] = {}
    count = max(1, math.ceil(seconds / width))
    for one in cold:
        place = min(max(int((one.at - started) / width), 0), count - 1)
        bins.setdefault(place, []).append(one)
    return {
        part: [
            sum(one.seconds[part] for one in bins[place]) / len(bins[place])
            if place in bins
            else 0.0
            for place in range(count)
        ]
        for part in COLD_PARTS
    }


def compute_hit_ratio(cold: Iterable[bool]) -> float | None:
    """The share that found their model loaded, of those with coldness; None without any."""
    found = list(cold)
    return found.count(False) / len(found) if found else None


def count_kinds(named: Iterable[tuple[str, str]]) -> tuple[Kind, ...]:
    """(name, message) pairs by name, the most frequent first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for name, message in named:
        counts[name] += 1
        examples.setdefault(name, message)
    return tuple(Kind(name, count, examples[name]) for name, count in counts.most_common())


def count_failures(samples: Iterable[Sample]) -> tuple[Kind, ...]:
    """What callers were told instead of a right answer."""
    return count_kinds((sample.error, sample.message) for sample in samples if sample.error)


def count_troubles(events: Iterable[Event]) -> tuple[Kind, ...]:
    """What went wrong behind the endpoint, whether or not a caller saw it."""
    return count_kinds(
        (event["kind"], f"{event.get('target_model') or event['instance']}: {event.get('message')}")
        for event in events
        if event["kind"] in TROUBLE and event.get("reason") != "stopping"
    )


def count_evictions(events: Iterable[Event]) -> int:
    """Models that were unloaded to make room for others."""
    return sum(
        event["kind"] == "unloaded" and event.get("reason") in EVICTION_REASONS for event in events
    )


def follow_loaded(
    first: Mapping[str, Any], events: Iterable[Event], started: float
) -> dict[str, Steps]:
    """By instance: how many models are loaded, from the state at the start and the events on."""
    loaded = {
        instance["name"]: {m["target_model"] for m in instance["models"] if m["state"] == "loaded"}
        for instance in first["instances"]
    }
    steps = {name: ([0.0], [len(models)]) for name, models in loaded.items()}
    for event in events:
        name = event["instance"]
        models = loaded.setdefault(name, set()) if name else set()
        if name and _changes(models, event):
            times, counts = steps.setdefault(name, ([], []))
            times.append(max(0.0, event["at"] - started))
            counts.append(len(models))
    return {name: Steps(tuple(times), tuple(counts)) for name, (times, counts) in steps.items()}


def _changes(models: set[str], event: Event) -> bool:
    """Carry an event into the set of loaded models; whether it has changed."""
    before = len(models)
    if event["kind"] == "loaded":
        models.add(event["target_model"])
    elif event["kind"] in ("unloaded", "lost"):
        models.discard(event["target_model"])
    elif event["kind"] == "instance_ended":
        models.clear()
    return len(models) != before


def collect_memory(looks: Iterable[Look]) -> dict[str, tuple[list[float], list[int]]]:
    """By instance: (seconds, bytes) at each look that could see them."""
    seen: dict[str, tuple[list[float], list[int]]] = {}
    for look in looks:
        for instance in look.state["instances"]:
            if instance["memory_used"] is not None:
                times, used = seen.setdefault(instance["name"], ([], []))
                times.append(look.at)
                used.append(instance["memory_used"])
    return seen


def count_per_bin(times: Iterable[float], width: float, seconds: float) -> list[int]:
    """How many times fall in each bin of that width until seconds; later ones in the last."""
    bins = max(1, math.ceil(seconds / width))
    counts = [0] * bins
    for time in times:
        counts[min(max(int(time / width), 0), bins - 1)] += 1
    return counts


def choose_bin_width(seconds: float) -> float:
    """Whole seconds that cut the time into 120 bins at most."""
    return max(1.0, math.ceil(seconds / 120))
