"""report.json: everything that a replay found, as plain values. Pure.

Seconds, bytes and counts; null for what is not known. `format` changes when a field changes its
meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from merlin_simulator.replay import arithmetic
from merlin_simulator.replay.report.calibration import calibrate
from merlin_simulator.replay.settings import Settings
from merlin_simulator.replay.traffic.samples import UNFINISHED, WRONG_ANSWER, Recording, Sample
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import COLD_PARTS

FORMAT = 1

Facts = Mapping[str, str | int | None]


@dataclass(frozen=True)
class Setting:
    """What a recording was made with: target models and their shares of the traffic, by rank.

    kinds: of how many models the archives are copies, which take turns.
    """

    settings: Settings
    target_models: Sequence[str]
    shares: Sequence[float]
    model: str
    machine: Facts
    versions: Facts
    kinds: int = 1


def summarise(setting: Setting, recording: Recording) -> dict[str, Any]:
    """The report as JSON has it."""
    cold = arithmetic.find_coldness(recording.events)
    answered = [sample for sample in recording.samples if sample.error is None]
    return {
        "format": FORMAT,
        "good": is_good(recording),
        "interrupted": recording.interrupted,
        "settings": _settings(setting),
        "machine": dict(setting.machine),
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
        "failures": [asdict(kind) for kind in arithmetic.count_failures(recording.samples)],
        "troubles": [asdict(kind) for kind in arithmetic.count_troubles(recording.events)],
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
    samples: Sequence[Sample], cold: Mapping[str, bool]
) -> tuple[list[Sample], list[Sample], list[Sample]]:
    """The right answers to (cold, warm) requests, and the failures.

    A right answer whose end the endpoint never told is in none of them.
    """
    known = [s for s in samples if s.error is None and s.request_id in cold]
    return (
        [sample for sample in known if cold[str(sample.request_id)]],
        [sample for sample in known if not cold[str(sample.request_id)]],
        [sample for sample in samples if sample.error is not None],
    )


def _settings(setting: Setting) -> dict[str, Any]:
    settings = setting.settings
    return {
        "models": settings.models,
        "zipf": settings.zipf,
        "rps": settings.rps,
        "duration_s": settings.duration_s,
        "seed": settings.seed,
        "outstanding": settings.outstanding,
        # Another's endpoint has its own; it shows in the state, as far as it shows.
        "instances": None if settings.endpoint else settings.instances,
        "memory": settings.memory,
        "disk": settings.disk,
        "cache": settings.cache,
        "model": setting.model,
        "endpoint": settings.endpoint.url if settings.endpoint else "started for this replay",
        "endpoint_name": settings.endpoint_name,
    }


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


def _latencies(answered: Sequence[Sample], cold: Mapping[str, bool]) -> dict[str, Any]:
    cold_ones, warm_ones, _ = split(answered, cold)
    groups = {"all": answered, "cold": cold_ones, "warm": warm_ones}
    return {
        name: asdict(arithmetic.measure_spread(sample.latency for sample in group))
        for name, group in groups.items()
    }


def _cold_parts(recording: Recording) -> dict[str, Any]:
    """What cold requests waited for, by part, with the part's share of all their seconds.

    By the endpoint's word, from a request's arrival there to its answer's end.
    """
    cold = arithmetic.find_cold_parts(recording.events)
    total = sum(sum(one.seconds.values()) for one in cold)
    found = {part: [one.seconds[part] for one in cold] for part in COLD_PARTS}
    return {
        part: {
            **asdict(arithmetic.measure_spread(seconds)),
            "share": sum(seconds) / total if total else None,
        }
        for part, seconds in found.items()
    }


def _loading(recording: Recording) -> dict[str, Any]:
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for event in recording.events:
        by_kind.setdefault(event["kind"], []).append(event)

    def seconds(kind: str) -> dict[str, Any]:
        return asdict(
            arithmetic.measure_spread(event["seconds"] for event in by_kind.get(kind, ()))
        )

    memory = [e["memory"] for e in by_kind.get("loaded", ()) if e.get("memory") is not None]
    return {
        "downloads_s": seconds("download_finished"),
        "extractions_s": seconds("extracted"),
        "loads_s": seconds("loaded"),
        "unloads_s": seconds("unloaded"),
        "evictions": arithmetic.count_evictions(recording.events),
        "unloads_by_reason": dict(Counter(e["reason"] for e in by_kind.get("unloaded", ()))),
        "archives_deleted": len(by_kind.get("deleted", ())),
        "archive_bytes": asdict(
            arithmetic.measure_spread(
                event["bytes"] for event in by_kind.get("download_finished", ())
            )
        ),
        "model_memory_bytes": asdict(arithmetic.measure_spread(memory)),
        "most_loaded": max((_loaded(look.state) for look in recording.looks), default=0),
    }


def _loaded(state: Mapping[str, Any]) -> int:
    models = (model for instance in state["instances"] for model in instance["models"])
    return sum(model["state"] == "loaded" for model in models)


def _over_time(recording: Recording) -> dict[str, Any]:
    width = arithmetic.choose_bin_width(recording.seconds)

    def counts(times: Any) -> list[int]:
        return arithmetic.count_per_bin(times, width, recording.seconds)

    loaded = arithmetic.follow_loaded(recording.looks[0].state, recording.events, recording.started)
    unloaded = [
        event["at"] - recording.started
        for event in recording.events
        if event["kind"] == "unloaded" and event.get("reason") in arithmetic.EVICTION_REASONS
    ]
    loads = [e["at"] - recording.started for e in recording.events if e["kind"] == "loaded"]
    memory = arithmetic.collect_memory(recording.looks)
    return {
        "bin_s": width,
        "due": counts(
            [sample.due for sample in recording.samples]
            + [arrival.at for arrival in recording.not_sent]
        ),
        "not_sent": counts(arrival.at for arrival in recording.not_sent),
        "right": counts(s.finished for s in recording.samples if s.error is None),
        "failed": counts(s.finished for s in recording.samples if s.error is not None),
        "hits": counts(_ends(recording, cold=False)),
        "misses": counts(_ends(recording, cold=True)),
        "cold_parts_s": arithmetic.average_per_bin(
            arithmetic.find_cold_parts(recording.events),
            recording.started,
            width,
            recording.seconds,
        ),
        "loads": counts(loads),
        "evictions": counts(unloaded),
        "loaded_models": {
            name: {"at_s": list(steps.at), "models": list(steps.values)}
            for name, steps in loaded.items()
        },
        "memory": {name: {"at_s": times, "bytes": used} for name, (times, used) in memory.items()},
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
    setting: Setting, recording: Recording, cold: Mapping[str, bool]
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


def _calibration(setting: Setting, recording: Recording) -> dict[str, Any]:
    """What a plan reckons with; see calibration."""
    found = calibrate(
        recording, setting.target_models, int(setting.machine["cores"] or 1), setting.kinds
    )
    return {**found, "rules": None if setting.settings.endpoint else _rules()}


def _rules() -> dict[str, Any]:
    """Of an endpoint that the replay starts."""
    rules = Rules()
    return {
        "memory_threshold": rules.memory_threshold,
        "loads_at_once": rules.loads_at_once,
        "busy_at": rules.busy_at,
        "cold_wait_s": rules.cold_wait_s,
    }


def _measuring(recording: Recording) -> dict[str, Any]:
    """How far the numbers themselves may be trusted."""
    known = arithmetic.find_coldness(recording.events)
    untold = sum(s.request_id is not None and s.request_id not in known for s in recording.samples)
    delays = arithmetic.measure_spread(sample.sent - sample.due for sample in recording.samples)
    return {
        "send_delay_s": asdict(delays),
        "events": len(recording.events),
        "events_missed": recording.missed,
        "requests_without_event": untold,
        "looks": len(recording.looks),
    }
