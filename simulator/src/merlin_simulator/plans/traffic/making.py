"""The demand of a plan, and the archive of each model in it."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from merlin_simulator.planning.archives import Figures
from merlin_simulator.planning.demand import Demand, PoissonDemand, TraceDemand
from merlin_simulator.plans.bounds import MOST_MODELS
from merlin_simulator.plans.errors import Impossible, UnusableFile
from merlin_simulator.plans.settings.settings import Kind, PlanSettings
from merlin_simulator.plans.traffic.cloudwatch_series import read_series
from merlin_simulator.plans.traffic.traces import Trace, read_trace
from merlin_simulator.plans.waves import DAY_S, HOUR_S, make_steps
from merlin_simulator.replay.traffic.copies import SUFFIX, make_names
from merlin_simulator.replay.traffic.schedule import zipf_shares

#: Between two requests of a trace at least; from its last one until its end.
_APART_S, _AFTER_S = 1e-9, 1e-6


class Traffic:
    """archives: of each model of the demand. make(times) is the demand with so many times the
    requests, anew each time: a demand draws as it is asked.
    """

    def __init__(
        self, archives: Sequence[Figures], make: Callable[[float], Demand], source: str
    ) -> None:
        self.archives, self.make, self.source = archives, make, source


def make_traffic(settings: PlanSettings) -> Traffic:
    """Raises UnusableFile, Impossible."""
    if settings.demand.trace is not None:
        return _of_trace(settings, read_trace(settings.demand.trace))
    return _of_laws(settings)


def _of_trace(settings: PlanSettings, trace: Trace) -> Traffic:
    path = settings.demand.trace
    assert path is not None
    archives = []
    for number, name in enumerate(trace.names):
        figures = _find(settings.kinds, name, number)
        if figures is None:
            raise UnusableFile(
                path,
                f"found target model {name[:100]}, which no archive matches; give [[archives]] "
                "without match for all others, or one that matches it",
                trace.lines[number],
            )
        archives.append(figures)
    times, asked = _one_after_another(trace.times), np.asarray(trace.asked, dtype=int)
    duration = float(times[-1]) + _AFTER_S

    def make(more: float) -> Demand:
        # As many in less time: a trace has no more requests than it has.
        return TraceDemand(times / more, asked, len(archives), duration / more)

    return Traffic(archives, make, f"{len(times)} requests of {path.name}")


def _one_after_another(times: Sequence[float]) -> Any:
    """Later than 0, and no two at the same time: a demand is asked for what comes after a time.

    Logs have whole seconds, or milliseconds. Those of one time keep the order of their lines.
    """
    given = np.asarray(times)
    # Four steps of a float are left when they come in less time, too.
    apart = (np.arange(len(given)) + 1) * max(_APART_S, float(given[-1]) * 2.0**-50)
    return np.maximum(np.maximum.accumulate(given - apart), 0.0) + apart


def _of_laws(settings: PlanSettings) -> Traffic:
    demand = settings.demand
    if demand.cloudwatch is not None:
        series = read_series(demand.cloudwatch)
        steps: list[float] = [float(count) for count in series.counts]
        duration = series.period_s * len(steps)
        rate = sum(steps) / duration
        source = f"the invocations of {demand.cloudwatch.name}"
    else:
        duration = demand.hours * HOUR_S
        steps = make_steps(demand.wave, duration)
        plain = make_steps(replace(demand.wave, bursts=()), duration)
        if not any(steps) or not any(plain):
            raise Impossible(
                f"found a rate of 0 in all of the {demand.hours:g} hours, by hours_of_day, "
                "days_of_week and bursts; expected requests at some time"
            )
        rate = demand.rps * (sum(steps) / len(steps)) / (sum(plain) / len(plain))
        hours = "1 hour" if demand.hours == 1 else f"{demand.hours:g} hours"
        source = f"{demand.rps:g} requests a second for {hours}"
    new = round(demand.new_a_day * duration / DAY_S)
    models = demand.models + new
    if models > MOST_MODELS:
        raise Impossible(
            f"found {models:,} models with those of new_models_a_day, expected at most "
            f"{MOST_MODELS:,}"
        )
    random = np.random.default_rng(settings.seed)
    # A new model is as popular as any: its rank is drawn.
    ranks = random.permutation(models) if new else np.arange(models)
    shares = np.asarray(zipf_shares(models, demand.zipf))[ranks]
    since = [0.0] * demand.models + [duration * (n + 1) / (new + 1) for n in range(new)]
    names = [name + SUFFIX for name in make_names(models)]
    archives = []
    for number, name in enumerate(names):
        figures = _find(settings.kinds, name, number)
        if figures is None:
            raise Impossible(
                f"found no archive for {name}, expected [[archives]] without match for all that no "
                "other one matches"
            )
        archives.append(figures)

    def make(more: float) -> Demand:
        return PoissonDemand(
            shares.tolist(), rate * more, duration, settings.seed, steps, since if new else None
        )

    return Traffic(archives, make, source)


def _find(kinds: Sequence[Kind], name: str, number: int) -> Figures | None:
    for kind in kinds:
        if kind.match is not None and fnmatch.fnmatchcase(name, kind.match):
            return replace(kind.figures, name=name)
    others = [kind for kind in kinds if kind.match is None]
    return replace(others[number % len(others)].figures, name=name) if others else None
