"""A replay gone through once more without processes: the same requests, to the same endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from merlin_simulator.measuring.quantities import read_room
from merlin_simulator.planning.demand import Machine, TraceDemand
from merlin_simulator.planning.run import Outcome, Setting, simulate
from merlin_simulator.plans.answers import weighted_percentiles
from merlin_simulator.plans.files import (
    LEAST,
    MOST_INSTANCES,
    MOST_LINES,
    MOST_MODELS,
    MOST_RPS,
    MOST_SECONDS,
    Members,
    UnusableFile,
)
from merlin_simulator.plans.report import Report, make_figures, name_copies
from merlin_simulator.replay import arithmetic
from merlin_simulator.replay.copies import SUFFIX, make_names
from merlin_simulator.replay.load import plan, zipf_shares
from merlin_simulator.rules import CacheSetting, Rules
from merlin_simulator.watch.events import COLD_PARTS

FORMAT = 1
#: Requests of one model, loads of one instance.
_MOST_AT_ONCE = 10_000


def make_setting(report: Report) -> Setting:
    """What the replay did, calibrated by what it saw. Raises UnusableFile."""
    settings = report.settings
    if "instances" not in settings:
        raise UnusableFile(
            report.path,
            "found a replay of an endpoint that ran already, expected one that the replay "
            "started: only of that the instances and their limits are known",
        )
    models = settings.whole("models", None, least=1, most=MOST_MODELS)
    duration = settings.number("duration_s", None, least=LEAST, most=MOST_SECONDS)
    rps = settings.number("rps", None, least=LEAST, most=MOST_RPS)
    if rps * duration > MOST_LINES:
        settings.refuse("rps", rps, f"no more than {MOST_LINES:,} requests in duration_s")
    seed = settings.whole("seed", None, most=10**18)
    shares = zipf_shares(models, settings.number("zipf", None, most=1000.0))
    arrivals = plan(rps, duration, shares, seed)
    rules = _rules(report)
    return Setting(
        TraceDemand(
            np.array([arrival.at for arrival in arrivals]),
            np.array([arrival.model for arrival in arrivals], dtype=int),
            models,
            duration,
        ),
        name_copies(make_figures(report), [name + SUFFIX for name in make_names(models)]),
        Machine(
            _read_size(settings, "memory"),
            report.cores,
            report.base_memory,
            _read_size(settings, "disk"),
            one_host=True,
        ),
        rules,
        settings.whole("instances", None, least=1, most=MOST_INSTANCES),
        seed=seed,
        settle_s=rules.load_timeout_s,
        # What else the machine did came and went: its loads were slow and fast in their order.
        loads_in_order=[
            kind.numbers("load_work_in_order_s", most=MOST_SECONDS) or () for kind in report.kinds
        ],
    )


def run_like(report: Report, advance: Callable[[float], object]) -> dict[str, Any]:
    """The plan's answer by the keys of the replay's report. Raises UnusableFile."""
    setting = make_setting(report)
    return summarise(report.whole["settings"], setting, simulate(setting, advance))


def summarise(settings: Mapping[str, Any], setting: Setting, outcome: Outcome) -> dict[str, Any]:
    """By the keys of report.json, as far as there is something to say."""
    counts, total = outcome.counts, outcome.requests
    failures = _failures(outcome)
    failed = sum(failure["count"] for failure in failures)
    hits = total - counts.cold - failed
    found = hits + counts.cold
    cold = sorted(counts.latencies)
    warm = _spread_warm(setting, outcome, hits)
    return {
        "format": FORMAT,
        "planned_by": "python -m simulator plan --like",
        "settings": dict(settings),
        "seconds": setting.demand.duration,
        "requests": {
            "planned": total,
            "sent": total,
            "not_sent": 0,
            "right": total - failed,
            "wrong": 0,
            "unfinished": 0,
            "failed": failed,
        },
        "hit_ratio": hits / found if found else None,
        "hits": hits,
        "misses": counts.cold,
        "latency_s": {"cold": asdict(arithmetic.measure_spread(cold)), "warm": warm},
        "cold_parts_s": _parts(counts.parts),
        "loading": {
            "loads": counts.loads,
            "evictions": counts.evictions,
            "most_loaded": max((look.loaded for look in outcome.looks), default=0),
        },
        "failures": failures,
    }


def _spread_warm(setting: Setting, outcome: Outcome, count: int) -> dict[str, Any]:
    """Of a weighted sample, which stands for so many requests."""
    spread = asdict(arithmetic.measure_spread(()))
    if len(outcome.warm):
        quantiles = weighted_percentiles(outcome.warm, outcome.weights, (0.5, 0.9, 0.99))
        spread.update(zip(("p50", "p90", "p99"), quantiles, strict=True))
        spread["max"] = float(outcome.warm.max())
    return {**spread, "count": count}


def _parts(parts: Mapping[str, list[float]]) -> dict[str, Any]:
    total = sum(sum(seconds) for seconds in parts.values())
    return {
        part: {
            **asdict(arithmetic.measure_spread(parts[part])),
            "share": sum(parts[part]) / total if total else None,
        }
        for part in COLD_PARTS
    }


def _failures(outcome: Outcome) -> list[dict[str, Any]]:
    counts = outcome.counts
    kinds = (
        ("ModelNotReadyException", counts.not_ready, "its model took longer than callers wait"),
        ("ModelError", counts.no_memory, "the container had no memory for its model (507)"),
        ("InternalFailure", counts.no_disk, "its archive found no place on the disk"),
        ("ServiceUnavailable", counts.without_instance, "no instance was in service"),
    )
    return [
        {"name": name, "count": count, "example": example}
        for name, count, example in kinds
        if count
    ]


def _rules(report: Report) -> Rules:
    known, default = report.calibration.inner("rules"), Rules()
    rules = replace(
        default,
        memory_threshold=known.number(
            "memory_threshold", default.memory_threshold, least=LEAST, most=1.0
        ),
        cold_wait_s=known.number(
            "cold_wait_s", default.cold_wait_s, least=LEAST, most=MOST_SECONDS
        ),
        busy_at=known.whole("busy_at", default.busy_at, least=1, most=_MOST_AT_ONCE),
        loads_at_once=known.whole("loads_at_once", 1, least=1, most=_MOST_AT_ONCE),
    )
    word = report.settings.text("cache", None)
    try:
        return replace(rules, cache=CacheSetting(word)) if word else rules
    except ValueError:
        expected = " or ".join(setting.value for setting in CacheSetting)
        report.settings.refuse("cache", word, expected)


def _read_size(settings: Members, key: str) -> int | None:
    text = settings.text(key, None)
    try:
        return read_room(text) if text else None
    except ValueError:
        settings.refuse(key, text, "a size such as 4GB or 512MB")
