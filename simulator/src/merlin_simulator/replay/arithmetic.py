"""Arithmetic over samples and events, in seconds, bytes and counts. No I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from merlin_simulator.replay.load import ObservedState, SentRequest
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


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of ascending values, between neighbours in proportion, as numpy's default does."""
    rank = (len(ordered) - 1) * percent / 100
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def measure_spread(values: Iterable[float]) -> dict[str, Any]:
    """Count, percentiles and maximum, as a report has them; all None but the count without any."""
    ordered = sorted(values)
    percents = {"p50": 50, "p90": 90, "p99": 99}
    percentiles = {key: percentile(ordered, n) if ordered else None for key, n in percents.items()}
    return {"count": len(ordered), **percentiles, "max": ordered[-1] if ordered else None}


def measure_parts(parts: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Of seconds that were waited for each part, with the part's share of all."""
    total = sum(map(sum, parts.values()))
    return {
        part: {**measure_spread(seconds), "share": sum(seconds) / total if total else None}
        for part, seconds in parts.items()
    }


def count_statuses(
    samples: Iterable[SentRequest], events: Iterable[Event]
) -> dict[int, dict[str, int]]:
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


def find_cold_answers(events: Iterable[Event]) -> list[Event]:
    """Of each cold request that was answered, where the endpoint told what it waited for."""
    return [
        event
        for event in events
        if event["kind"] == "invoked" and event["cold"] and "answer_seconds" in event
    ]


def average_per_bin(
    answers: Iterable[Event], started: float, width: float, seconds: float
) -> dict[str, list[float]]:
    """By part, what the cold requests that were answered in a bin waited for it on average."""
    bins: list[list[Event]] = [[] for _ in range(count_bins(width, seconds))]
    for event in answers:
        bins[find_bin(event["at"] - started, width, len(bins))].append(event)
    return {
        part: [
            sum(event[f"{part}_seconds"] for event in events) / max(1, len(events))
            for events in bins
        ]
        for part in COLD_PARTS
    }


def compute_hit_ratio(cold: Iterable[bool]) -> float | None:
    """The share that found their model loaded, of those with coldness; None without any."""
    known = list(cold)
    return known.count(False) / len(known) if known else None


def _count_names(named: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """How often there was each name, the most frequent first, and the first message with it."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for name, message in named:
        counts[name] += 1
        examples.setdefault(name, message)
    return [
        {"name": name, "count": count, "example": examples[name]}
        for name, count in counts.most_common()
    ]


def count_failures(samples: Iterable[SentRequest]) -> list[dict[str, Any]]:
    """Failures that callers saw instead of a right answer."""
    return _count_names((sample.error, sample.message) for sample in samples if sample.error)


def count_troubles(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Failures behind the endpoint, whether or not a caller saw them."""
    return _count_names(
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
) -> dict[str, dict[str, list[Any]]]:
    """By instance: how many models are loaded from when on, from the state at the start on."""
    loaded = {
        instance["name"]: {m["target_model"] for m in instance["models"] if m["state"] == "loaded"}
        for instance in first["instances"]
    }
    steps: dict[str, dict[str, list[Any]]] = {
        name: {"at_s": [0.0], "models": [len(models)]} for name, models in loaded.items()
    }
    for event in events:
        name = event["instance"]
        models = loaded.setdefault(name, set()) if name else set()
        if name and _changes(models, event):
            of_instance = steps.setdefault(name, {"at_s": [], "models": []})
            of_instance["at_s"].append(max(0.0, event["at"] - started))
            of_instance["models"].append(len(models))
    return steps


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


def count_loaded(instances: Sequence[Mapping[str, Any]]) -> int:
    """Models that are loaded now."""
    models = (model for instance in instances for model in instance["models"])
    return sum(model["state"] == "loaded" for model in models)


def collect_memory(looks: Iterable[ObservedState]) -> dict[str, dict[str, list[Any]]]:
    """By instance: seconds and bytes at each look that could see them."""
    seen: dict[str, dict[str, list[Any]]] = {}
    for look in looks:
        for instance in look.state["instances"]:
            if instance["memory_used"] is not None:
                of_instance = seen.setdefault(instance["name"], {"at_s": [], "bytes": []})
                of_instance["at_s"].append(look.at)
                of_instance["bytes"].append(instance["memory_used"])
    return seen


def count_per_bin(times: Iterable[float], width: float, seconds: float) -> list[int]:
    """How many times fall in each bin of that width until seconds; later ones in the last."""
    counts = [0] * count_bins(width, seconds)
    for time in times:
        counts[find_bin(time, width, len(counts))] += 1
    return counts


def count_bins(width: float, seconds: float) -> int:
    """At least one."""
    return max(1, math.ceil(seconds / width))


def find_bin(time: float, width: float, bins: int) -> int:
    """The place of a time; what is early or late is in the first or the last."""
    return min(max(int(time / width), 0), bins - 1)


def choose_bin_width(seconds: float) -> float:
    """Whole seconds that cut the time into 120 bins at most."""
    return max(1.0, math.ceil(seconds / 120))
