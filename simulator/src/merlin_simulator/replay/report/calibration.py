"""What a plan reckons with, as a replay has seen it: memory, and seconds by their quantiles. Pure.

Loads share the machine's cores. So a load is told by its work: the seconds that it would take with
a core of its own, which is less than it took where more loads went on than there are cores.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from merlin_simulator.replay.arithmetic import find_coldness, percentile
from merlin_simulator.replay.traffic.samples import Recording
from merlin_simulator.rules import Rules

#: Quantiles that a distribution is told by, at equal steps from the least to the most.
STEPS = 20

Event = Mapping[str, Any]
#: From when to when.
_Span = tuple[float, float]


def calibrate(
    recording: Recording, target_models: Sequence[str], cores: int, kinds: int
) -> dict[str, Any]:
    """Figures of each kind of archive, and of an instance. Bytes, seconds; null: not seen.

    target_models: by rank. Copies of several exports take turns: that of rank r, from 0 on, is of
    kind r modulo kinds.
    """
    work = measure_work(find_loads(recording.events), cores)
    cold = find_coldness(recording.events)
    base, share = find_base_memory(recording)
    turns = [{*target_models[kind::kinds]} for kind in range(kinds)]
    return {
        "base_memory_bytes": base,
        "loading_memory_share": share,
        "kinds": [_of_kind(recording, models, work, cold, cores) for models in turns],
    }


def find_loads(events: Iterable[Event]) -> list[tuple[str, _Span]]:
    """(target model, from when to when it held its place among the loads) of each load."""
    begun: dict[tuple[str, str], float] = {}
    found = []
    for event in events:
        if event["kind"] not in ("load_started", "loaded", "load_failed"):
            continue
        where = (event["instance"], event["target_model"])
        if event["kind"] == "load_started":
            begun[where] = event["at"]
        elif (start := begun.pop(where, None)) is not None and event["kind"] == "loaded":
            found.append((event["target_model"], (start, event["at"])))
    return found


def measure_work(loads: Sequence[tuple[str, _Span]], cores: int) -> list[tuple[str, float]]:
    """(target model, seconds of work) of each load, as they began; all share the cores alike."""
    changes = Counter(start for _, (start, _) in loads)
    changes.subtract(end for _, (_, end) in loads)
    done: dict[float, float] = {}
    total, going, before = 0.0, 0, 0.0
    for now in sorted(changes):
        total += (now - before) * min(1.0, cores / going) if going else 0.0
        done[now], before = total, now
        going += changes[now]
    ordered = sorted(loads, key=lambda load: load[1])
    return [(model, done[end] - done[start]) for model, (start, end) in ordered]


def find_base_memory(recording: Recording) -> tuple[int | None, float | None]:
    """What an instance uses beside its models, and the share of a model that is there while it is
    loaded: what is used beyond that, where some are.

    Of those that are said to be loading no more have begun than the container is asked for at once.
    """
    at_once = Rules().loads_at_once
    beside: list[tuple[float, int, float]] = []
    for look in recording.looks:
        for instance in look.state["instances"]:
            used, models = instance["memory_used"], instance["models"]
            sizes = [m["memory"] for m in models if m["state"] == "loaded" and m.get("memory")]
            if used is None or not sizes:
                continue
            size = median(sizes)
            leaving = [m.get("memory") or size for m in models if m["state"] == "unloading"]
            loading = sum(model["state"] == "loading" for model in models)
            beside.append(
                (
                    used - sum(sizes) - sum(leaving),
                    loading + len(leaving),
                    min(loading, at_once) * size,
                )
            )
    if not beside:
        return None, None
    quiet = [used for used, moving, _ in beside if not moving]
    base = median(quiet) if quiet else min(used for used, _, _ in beside)
    coming = [(used - base, size) for used, _, size in beside if size]
    total = sum(size for _, size in coming)
    share = sum(more for more, _ in coming) / total if total else None
    return int(base), None if share is None else min(1.0, max(0.0, share))


def list_quantiles(values: Iterable[float]) -> list[float] | None:
    """At equal steps from the least to the most."""
    ordered = sorted(values)
    if not ordered:
        return None
    return [percentile(ordered, 100 * step / STEPS) for step in range(STEPS + 1)]


def _of_kind(
    recording: Recording,
    models: set[str],
    work: Iterable[tuple[str, float]],
    cold: Mapping[str, bool],
    cores: int,
) -> dict[str, Any]:
    events = [event for event in recording.events if event.get("target_model") in models]

    def seconds(kind: str) -> list[float]:
        return [event["seconds"] for event in events if event["kind"] == kind]

    works = [seconds for model, seconds in work if model in models]
    extracted = seconds("extracted")
    fetched = [one + two for one, two in zip(seconds("download_finished"), extracted, strict=False)]
    firsts = [
        event["answer_seconds"]
        for event in events
        if event["kind"] == "invoked" and event["cold"] and "answer_seconds" in event
    ]
    mine = {str(event.get("request_id")) for event in events}
    return {
        "memory_bytes": _most(recording, models, "memory"),
        "disk_bytes": _most(recording, models, "disk"),
        "fetch_s": list_quantiles(fetched),
        "load_work_s": list_quantiles(works),
        "load_work_in_order_s": works,
        "unload_s": list_quantiles(seconds("unloaded")),
        "first_answer_s": list_quantiles(firsts),
        "warm_s": list_quantiles(_warm(recording, mine, cold, cores)),
    }


def _warm(
    recording: Recording, mine: set[str], cold: Mapping[str, bool], cores: int
) -> list[float]:
    """What warm requests would take alone: shorter than they took by what they shared cores with.

    That is the loads that went on, and other requests: with one core, processor sharing makes of s
    seconds s / (1 - rate * s). With more it is taken for that of so many machines with one each.
    """
    loads = find_loads(recording.events)
    starts = sorted(start - recording.started for _, (start, _) in loads)
    ends = sorted(end - recording.started for _, (_, end) in loads)
    warm = {
        str(sample.request_id): sample.latency
        / max(1.0, (1 + bisect(starts, sample.finished) - bisect(ends, sample.due)) / cores)
        for sample in recording.samples
        if sample.error is None and cold.get(str(sample.request_id)) is False
    }
    shared = 1 + sum(warm.values()) / max(recording.seconds, 1e-9) / cores
    return [latency / shared for request, latency in warm.items() if request in mine]


def _most(recording: Recording, models: set[str], field: str) -> int | None:
    """The median over the models of the most that each was seen to take."""
    most: dict[str, int] = {}
    for look in recording.looks:
        for instance in look.state["instances"]:
            for model in instance["models"]:
                if model["target_model"] in models and model.get(field):
                    known = most.get(model["target_model"], 0)
                    most[model["target_model"]] = max(known, model[field])
    return int(median(most.values())) if most else None
