"""`plan --like`: simulates a replay once more, with its requests, endpoint and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from merlin_simulator.measuring.quantities import read_capacity
from merlin_simulator.plan_command.answers import weighted_percentiles
from merlin_simulator.plan_command.files import MOST_LINES, UnusableFile
from merlin_simulator.plan_command.replay_report import StoredReport, make_figures, name_copies
from merlin_simulator.replay import arithmetic
from merlin_simulator.replay.copies import SUFFIX, make_names
from merlin_simulator.replay.load import draw_arrivals, zipf_shares
from merlin_simulator.replay.report import FORMAT, RuleChanges
from merlin_simulator.rules import CacheSetting, Rules
from merlin_simulator.simulation.demand import TraceDemand
from merlin_simulator.simulation.run import Outcome, simulate
from merlin_simulator.simulation.scenario import InstanceSpec, Scenario


def make_scenario(stored: StoredReport) -> Scenario:
    """The replay's scenario, with its measured figures. Raises UnusableFile."""
    settings, calibration = stored.report.settings, stored.report.calibration
    if settings.instances is None:
        raise UnusableFile(
            stored.path,
            "found a replay of an endpoint that ran already, expected one that the replay "
            "started: only of that the instances and their limits are known",
        )
    if settings.capture is not None:
        raise UnusableFile(
            stored.path,
            "found a replay of a capture, expected one whose requests were drawn: give the capture "
            "as trace in [demand]",
        )
    if settings.rps * settings.duration_s > MOST_LINES:
        expected = f"no more than {MOST_LINES:,} requests in duration_s"
        found = f"settings.rps: found {settings.rps}"
        raise UnusableFile(stored.path, f"{found}, expected {expected}")
    shares = zipf_shares(settings.models, settings.zipf)
    arrivals = draw_arrivals(settings.rps, settings.duration_s, shares, settings.seed)
    seen = RuleChanges() if calibration.rules is None else calibration.rules
    rules = replace(Rules(), **{"loads_at_once": 1} | seen.as_dict())
    if settings.cache is not None:
        rules = replace(rules, cache=CacheSetting(settings.cache))
    return Scenario(
        TraceDemand(
            np.array([arrival.at for arrival in arrivals]),
            np.array([arrival.model for arrival in arrivals], dtype=int),
            settings.models,
            settings.duration_s,
        ),
        name_copies(make_figures(stored), [name + SUFFIX for name in make_names(settings.models)]),
        InstanceSpec(
            None if settings.memory is None else read_capacity(settings.memory),
            stored.report.machine.cores,
            stored.base_memory,
            None if settings.disk is None else read_capacity(settings.disk),
            one_host=True,
        ),
        rules,
        settings.instances,
        seed=settings.seed,
        settle_s=rules.load_timeout_s,
        # Other work on the host came and went: its loads were slow and fast in their order.
        loads_in_order=[kind.load_work_in_order_s for kind in calibration.kinds],
    )


def simulate_replay(stored: StoredReport, advance: Callable[[float], object]) -> dict[str, Any]:
    """The simulated replay by the keys of the real one's report.json. Raises UnusableFile."""
    scenario = make_scenario(stored)
    return summarise(stored.whole["settings"], scenario, simulate(scenario, advance))


def summarise(settings: Mapping[str, Any], scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    """By the keys of report.json, as far as a simulation has them."""
    counts, total = outcome.counts, outcome.requests
    failures = _failures(outcome)
    failed = sum(failure["count"] for failure in failures)
    hits = total - counts.cold - failed
    found = hits + counts.cold
    cold = sorted(counts.latencies)
    warm = _spread_warm(scenario, outcome, hits)
    return {
        "format": FORMAT,
        "planned_by": "python -m simulator plan --like",
        "settings": dict(settings),
        "seconds": scenario.demand.duration,
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
            "most_loaded": max((snapshot.loaded for snapshot in outcome.snapshots), default=0),
        },
        "failures": failures,
    }


def _spread_warm(scenario: Scenario, outcome: Outcome, count: int) -> dict[str, Any]:
    """Quantiles of the weighted sample; count: the requests that it stands for."""
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
        ("InternalFailure", counts.no_disk, "the disk had no room for its archive"),
        ("ServiceUnavailable", counts.without_instance, "no instance was in service"),
    )
    return [
        {"name": name, "count": count, "example": example}
        for name, count, example in kinds
        if count
    ]
