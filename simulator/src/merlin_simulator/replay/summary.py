"""A replay's report as JSON."""

from __future__ import annotations

import platform
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from merlin_simulator.measuring.machine import (
    count_cores,
    find_triton_version,
    is_changed,
    name_system,
    read_commit,
    read_cpu_model,
    read_memory_bytes,
)
from merlin_simulator.replay import arithmetic
from merlin_simulator.replay.arithmetic import find_coldness, percentile
from merlin_simulator.replay.load import UNFINISHED, WRONG_ANSWER, Recording, SentRequest
from merlin_simulator.replay.report import (
    FORMAT,
    Calibration,
    Machine,
    ReportSettings,
    SeenArchive,
)
from merlin_simulator.replay.settings import Settings
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import COLD_PARTS


def describe_machine() -> Machine:
    """CPU model, cores that this process may use, bytes of memory."""
    return Machine(read_cpu_model(), count_cores(), read_memory_bytes(), name_system())


def find_versions(logs: Path | None) -> dict[str, str | None]:
    """None for what is not known; tritonserver's stands in a container's log, if in any there."""
    return {
        "python": platform.python_version(),
        "simulator_commit": _commit(),
        "tritonserver": _tritonserver(logs) if logs else None,
    }


def _commit() -> str | None:
    """The checkout's commit, `+` when the simulator's files differ from it."""
    commit = read_commit()
    return commit + "+" if commit and is_changed(".") else commit


def _tritonserver(logs: Path) -> str | None:
    texts = (log.read_text(errors="replace") for log in sorted(logs.glob("*.log")))
    return next(filter(None, map(find_triton_version, texts)), None)


#: Quantiles that a distribution is told by, at equal steps from the least to the most.
STEPS = 20

Event = Mapping[str, Any]
#: From when to when.
_Span = tuple[float, float]


def calibrate(
    recording: Recording, target_models: Sequence[str], cores: int, kinds: int
) -> Calibration:
    """Figures of each kind of archive, and of an instance.

    target_models: by rank. Copies of several exports take turns: that of rank r, from 0 on, is of
    kind r modulo kinds.
    """
    work = measure_work(find_loads(recording.events), cores)
    cold = find_coldness(recording.events)
    turns = [{*target_models[kind::kinds]} for kind in range(kinds)]
    return Calibration(
        *find_base_memory(recording),
        [_see_archive(recording, models, work, cold, cores) for models in turns],
    )


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
    """Memory of an instance beside its models, and the share of a model that is there while it is
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


def list_quantiles(values: Iterable[float]) -> tuple[float, ...] | None:
    """At equal steps from the least to the most."""
    ordered = sorted(values)
    if not ordered:
        return None
    return tuple(percentile(ordered, 100 * step / STEPS) for step in range(STEPS + 1))


def _see_archive(
    recording: Recording,
    models: set[str],
    work: Iterable[tuple[str, float]],
    cold: Mapping[str, bool],
    cores: int,
) -> SeenArchive:
    events = [event for event in recording.events if event.get("target_model") in models]

    def seconds(kind: str) -> list[float]:
        return [event["seconds"] for event in events if event["kind"] == kind]

    works = tuple(seconds for model, seconds in work if model in models)
    fetched = map(sum, zip(seconds("download_finished"), seconds("extracted"), strict=False))
    firsts = [event["answer_seconds"] for event in arithmetic.find_cold_answers(events)]
    request_ids = {str(event.get("request_id")) for event in events}
    return SeenArchive(
        _find_most(recording, models, "memory"),
        _find_most(recording, models, "disk"),
        list_quantiles(fetched),
        list_quantiles(works),
        works,
        list_quantiles(seconds("unloaded")),
        list_quantiles(firsts),
        list_quantiles(_warm(recording, request_ids, cold, cores)),
    )


def _warm(
    recording: Recording, request_ids: set[str], cold: Mapping[str, bool], cores: int
) -> list[float]:
    """Seconds of warm requests alone: measured ones, less the slowdown by shared cores.

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
    return [latency / shared for request, latency in warm.items() if request in request_ids]


def _find_most(recording: Recording, models: set[str], field: str) -> int | None:
    """The median over the models of the most that each was seen to take."""
    most: dict[str, int] = {}
    for look in recording.looks:
        for instance in look.state["instances"]:
            for model in instance["models"]:
                if model["target_model"] in models and model.get(field):
                    known = most.get(model["target_model"], 0)
                    most[model["target_model"]] = max(known, model[field])
    return int(median(most.values())) if most else None


@dataclass(frozen=True)
class ReplayContext:
    """The circumstances of a recording."""

    settings: Settings
    target_models: Sequence[str]  # by rank
    shares: Sequence[float]  # of the traffic, by rank
    model: str
    machine: Machine
    versions: Mapping[str, str | None]
    kinds: int = 1  # of how many models the archives are copies, which take turns


def summarise(setting: ReplayContext, recording: Recording) -> dict[str, Any]:
    """The report as JSON has it."""
    cold = arithmetic.find_coldness(recording.events)
    answered = [sample for sample in recording.samples if sample.error is None]
    return {
        "format": FORMAT,
        "good": is_good(recording),
        "interrupted": recording.interrupted,
        "settings": asdict(_settings(setting)),
        "machine": asdict(setting.machine),
        "versions": dict(setting.versions),
        "started": recording.started,
        "seconds": recording.seconds,
        "requests": _requests(recording),
        "hit_ratio": arithmetic.compute_hit_ratio(cold.values()),
        "hits": list(cold.values()).count(False),
        "misses": list(cold.values()).count(True),
        "latency_s": _latencies(answered, cold),
        "cold_parts_s": _cold_parts(recording),
        "loading": _loading(recording),
        "failures": arithmetic.count_failures(recording.samples),
        "troubles": arithmetic.count_troubles(recording.events),
        "over_time": _over_time(recording),
        "models": _models(setting, recording, cold),
        "calibration": _calibration(setting, recording),
        "measuring": _measuring(recording),
    }


def is_good(recording: Recording) -> bool:
    """All that was planned was sent, and each answer was right; and there was one."""
    complete = bool(recording.samples) and not recording.not_sent and not recording.interrupted
    return complete and all(sample.error is None for sample in recording.samples)


def split(
    samples: Sequence[SentRequest], cold: Mapping[str, bool]
) -> tuple[list[SentRequest], list[SentRequest], list[SentRequest]]:
    """The right answers to (cold, warm) requests, and the failures.

    A right answer whose end the endpoint never told is in none of them.
    """
    known = [s for s in samples if s.error is None and s.request_id in cold]
    return (
        [sample for sample in known if cold[str(sample.request_id)]],
        [sample for sample in known if not cold[str(sample.request_id)]],
        [sample for sample in samples if sample.error is not None],
    )


def _settings(setting: ReplayContext) -> ReportSettings:
    settings = setting.settings
    return ReportSettings(
        settings.models,
        settings.zipf,
        settings.rps,
        settings.duration_s,
        settings.seed,
        settings.outstanding,
        # Another's endpoint has its own; it shows in the state, as far as it shows.
        None if settings.endpoint_url else settings.instances,
        settings.memory,
        settings.disk,
        settings.cache,
        setting.model,
        settings.endpoint_url or "started for this replay",
        settings.endpoint_name,
        settings.capture and str(settings.capture),
        settings.speed,
    )


def _requests(recording: Recording) -> dict[str, int]:
    errors = Counter(sample.error for sample in recording.samples)
    right, wrong, unfinished = errors[None], errors[WRONG_ANSWER], errors[UNFINISHED]
    sent = len(recording.samples)
    return {
        "planned": recording.planned,
        "sent": sent,
        "not_sent": len(recording.not_sent),
        "right": right,
        "wrong": wrong,
        "unfinished": unfinished,
        "failed": sent - right - wrong - unfinished,
    }


def _latencies(answered: Sequence[SentRequest], cold: Mapping[str, bool]) -> dict[str, Any]:
    cold_ones, warm_ones, _ = split(answered, cold)
    groups = {"all": answered, "cold": cold_ones, "warm": warm_ones}
    return {
        name: arithmetic.measure_spread(sample.latency for sample in group)
        for name, group in groups.items()
    }


def _cold_parts(recording: Recording) -> dict[str, Any]:
    """By the endpoint's word, from a request's arrival there to its answer's end."""
    answers = arithmetic.find_cold_answers(recording.events)
    return arithmetic.measure_parts(
        {part: [event[f"{part}_seconds"] for event in answers] for part in COLD_PARTS}
    )


def _loading(recording: Recording) -> dict[str, Any]:
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for event in recording.events:
        by_kind.setdefault(event["kind"], []).append(event)

    def spread(kind: str, field: str = "seconds") -> dict[str, Any]:
        values = (event.get(field) for event in by_kind.get(kind, ()))
        return arithmetic.measure_spread(value for value in values if value is not None)

    loaded = [arithmetic.count_loaded(look.state["instances"]) for look in recording.looks]
    return {
        "downloads_s": spread("download_finished"),
        "extractions_s": spread("extracted"),
        "loads_s": spread("loaded"),
        "unloads_s": spread("unloaded"),
        "evictions": arithmetic.count_evictions(recording.events),
        "unloads_by_reason": dict(Counter(e["reason"] for e in by_kind.get("unloaded", ()))),
        "archives_deleted": len(by_kind.get("deleted", ())),
        "archive_bytes": spread("download_finished", "bytes"),
        "model_memory_bytes": spread("loaded", "memory"),
        "most_loaded": max(loaded, default=0),
    }


def _over_time(recording: Recording) -> dict[str, Any]:
    width = arithmetic.choose_bin_width(recording.seconds)

    def counts(times: Iterable[float]) -> list[int]:
        return arithmetic.count_per_bin(times, width, recording.seconds)

    events, samples = recording.events, recording.samples
    unloads = [event for event in events if event["kind"] == "unloaded"]
    evictions = [e for e in unloads if e.get("reason") in arithmetic.EVICTION_REASONS]
    loads = [event for event in events if event["kind"] == "loaded"]
    not_sent = [arrival.at for arrival in recording.not_sent]
    return {
        "bin_s": width,
        "due": counts([sample.due for sample in samples] + not_sent),
        "not_sent": counts(not_sent),
        "right": counts(s.finished for s in samples if s.error is None),
        "failed": counts(s.finished for s in samples if s.error is not None),
        "hits": counts(_ends(recording, cold=False)),
        "misses": counts(_ends(recording, cold=True)),
        "cold_parts_s": arithmetic.average_per_bin(
            arithmetic.find_cold_answers(events), recording.started, width, recording.seconds
        ),
        "loads": counts(event["at"] - recording.started for event in loads),
        "evictions": counts(event["at"] - recording.started for event in evictions),
        "loaded_models": arithmetic.follow_loaded(
            recording.looks[0].state, events, recording.started
        ),
        "memory": arithmetic.collect_memory(recording.looks),
        "memory_limit_bytes": {
            instance["name"]: instance["memory_limit"]
            for instance in recording.looks[-1].state["instances"]
        },
    }


def _ends(recording: Recording, *, cold: bool) -> list[float]:
    """When requests ended, seconds since the start, by the endpoint's word."""
    return [
        event["at"] - recording.started
        for event in recording.events
        if event["kind"] in arithmetic.ENDINGS and bool(event["cold"]) is cold
    ]


def _models(
    setting: ReplayContext, recording: Recording, cold: Mapping[str, bool]
) -> list[dict[str, Any]]:
    asked = Counter(sample.model for sample in recording.samples)
    failed = Counter(sample.model for sample in recording.samples if sample.error)
    ended = [sample for sample in recording.samples if sample.request_id in cold]
    hits = Counter(sample.model for sample in ended if not cold[str(sample.request_id)])
    not_sent = Counter(arrival.model for arrival in recording.not_sent)
    statuses = arithmetic.count_statuses(recording.samples, recording.events)
    return [
        {
            "target_model": target_model,
            "rank": rank + 1,
            "expected_share": setting.shares[rank],
            "requests": asked[rank],
            "hits": hits[rank],
            "failures": failed[rank],
            "not_sent": not_sent[rank],
            "container_statuses": statuses.get(rank, {}),
        }
        for rank, target_model in enumerate(setting.target_models)
    ]


def _calibration(setting: ReplayContext, recording: Recording) -> dict[str, Any]:
    """Measured figures for plans; the rules are those of an endpoint that the replay starts."""
    cores = setting.machine.cores
    rules, names = Rules(), ("memory_threshold", "loads_at_once", "busy_at", "cold_wait_s")
    return {
        **asdict(calibrate(recording, setting.target_models, cores, setting.kinds)),
        "rules": None if setting.settings.endpoint_url else {n: getattr(rules, n) for n in names},
    }


def _measuring(recording: Recording) -> dict[str, Any]:
    """How far the numbers themselves may be trusted."""
    known = arithmetic.find_coldness(recording.events)
    untold = sum(s.request_id is not None and s.request_id not in known for s in recording.samples)
    delays = arithmetic.measure_spread(sample.sent - sample.due for sample in recording.samples)
    return {
        "send_delay_s": delays,
        "events": len(recording.events),
        "events_missed": recording.missed,
        "requests_without_event": untold,
        "looks": len(recording.looks),
    }
