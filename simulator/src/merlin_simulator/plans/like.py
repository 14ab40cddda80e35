"""A replay gone through once more without processes: the same requests, to the same endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from merlin_simulator.measuring.quantities import read_room
from merlin_simulator.planning.demand import Machine, Setting, TraceDemand
from merlin_simulator.planning.run import Outcome, simulate
from merlin_simulator.plans.answers import weighted_percentiles
from merlin_simulator.plans.files import MOST_LINES, UnusableFile
from merlin_simulator.plans.report import StoredReport, make_figures, name_copies
from merlin_simulator.replay import arithmetic
from merlin_simulator.replay.copies import SUFFIX, make_names
from merlin_simulator.replay.load import plan, zipf_shares
from merlin_simulator.replay.report import FORMAT, RuleChanges
from merlin_simulator.rules import CacheSetting, Rules


def make_setting(stored: StoredReport) -> Setting:
    """What the replay did, calibrated by what it saw. Raises UnusableFile."""
    settings, calibration = stored.report.settings, stored.report.calibration
    if settings.instances is None:
        raise UnusableFile(
            stored.path,
            "found a replay of an endpoint that ran already, expected one that the replay "
            "started: only of that the instances and their limits are known",
        )
    if settings.rps * settings.duration_s > MOST_LINES:
        expected = f"no more than {MOST_LINES:,} requests in duration_s"
        found = f"settings.rps: found {settings.rps}"
        raise UnusableFile(stored.path, f"{found}, expected {expected}")
    shares = zipf_shares(settings.models, settings.zipf)
    arrivals = plan(settings.rps, settings.duration_s, shares, settings.seed)
    seen = RuleChanges() if calibration.rules is None else calibration.rules
    rules = replace(Rules(), **{"loads_at_once": 1} | seen.as_dict())
    if settings.cache is not None:
        rules = replace(rules, cache=CacheSetting(settings.cache))
    return Setting(
        TraceDemand(
            np.array([arrival.at for arrival in arrivals]),
            np.array([arrival.model for arrival in arrivals], dtype=int),
            settings.models,
            settings.duration_s,
        ),
        name_copies(make_figures(stored), [name + SUFFIX for name in make_names(settings.models)]),
        Machine(
            None if settings.memory is None else read_room(settings.memory),
            stored.report.machine.cores,
            stored.base_memory,
            None if settings.disk is None else read_room(settings.disk),
            one_host=True,
        ),
        rules,
        settings.instances,
        seed=settings.seed,
        settle_s=rules.load_timeout_s,
        # What else the machine did came and went: its loads were slow and fast in their order.
        loads_in_order=[kind.load_work_in_order_s for kind in calibration.kinds],
    )


def run_like(stored: StoredReport, advance: Callable[[float], object]) -> dict[str, Any]:
    """The plan's answer by the keys of the replay's report. Raises UnusableFile."""
    setting = make_setting(stored)
    return summarise(stored.whole["settings"], setting, simulate(setting, advance))


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
        "latency_s": {"cold": arithmetic.measure_spread(cold), "warm": warm},
        "cold_parts_s": arithmetic.measure_parts(counts.parts),
        "loading": {
            "loads": counts.loads,
            "evictions": counts.evictions,
            "most_loaded": max((look.loaded for look in outcome.looks), default=0),
        },
        "failures": failures,
    }


def _spread_warm(setting: Setting, outcome: Outcome, count: int) -> dict[str, Any]:
    """Of a weighted sample, which stands for so many requests."""
    spread = arithmetic.measure_spread(())
    if len(outcome.warm) and outcome.weights.sum():
        quantiles = weighted_percentiles(outcome.warm, outcome.weights, (0.5, 0.9, 0.99))
        spread.update(zip(("p50", "p90", "p99"), quantiles, strict=True))
        spread["max"] = float(outcome.warm.max())
    return {**spread, "count": count}


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
