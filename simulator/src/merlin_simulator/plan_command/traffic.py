"""The requests of a plan: by a Zipf law and a rate, by CloudWatch's counts, or from a trace."""

from __future__ import annotations

import fnmatch
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from merlin_simulator.measuring.values import MOST_MODELS, MOST_RPS, MOST_SECONDS, shown
from merlin_simulator.plan_command.files import (
    MOST_PERIODS,
    Impossible,
    Row,
    UnusableFile,
    read_rows,
)
from merlin_simulator.plan_command.settings import (
    DAY_S,
    HOUR_S,
    ArchiveKind,
    PlanSettings,
    make_steps,
)
from merlin_simulator.replay.capture import (
    UnusableCapture,
    is_capture,
    read_capture,
    read_date,
)
from merlin_simulator.replay.copies import SUFFIX, make_names
from merlin_simulator.replay.load import zipf_shares
from merlin_simulator.simulation.demand import Demand, PoissonDemand, TraceDemand
from merlin_simulator.simulation.scenario import ArchiveFigures

TRACE_COLUMNS = ("time", "target_model")


@dataclass(frozen=True)
class Trace:
    """Requests that are known one by one."""

    times: Sequence[float]  # seconds since the first request, ascending
    models: Sequence[int]  # indices in names
    names: Sequence[str]
    lines: Sequence[int | None]  # where each name stands first; None in a capture


def read_trace(path: Path) -> Trace:
    """Raises UnusableFile. Times: seconds, or ISO 8601 (2026-11-25T09:30:00Z), in order."""
    if is_capture(path):
        return _read_captured_trace(path)
    times, models = array("d"), array("l")
    lines: list[int] = []
    numbers: dict[str, int] = {}
    for row in read_rows(path, TRACE_COLUMNS):
        at, name = read_time(path, row), row.values[1]
        if times and at < times[-1]:
            raise UnusableFile(
                path,
                f"found time {row.values[0][:40]}, which is before that of the line above, "
                "expected requests in the order of time; sort the file",
                row.line,
                row.columns[0],
            )
        if not name:
            raise UnusableFile(path, "found no target model", row.line, row.columns[1])
        if name not in numbers:
            if len(numbers) == MOST_MODELS:
                subject = f"found more than {MOST_MODELS:,} target models, expected fewer"
                raise UnusableFile(path, subject, row.line, row.columns[1])
            numbers[name] = len(numbers)
            lines.append(row.line)
        times.append(at)
        models.append(numbers[name])
    if not times:
        raise UnusableFile(path, "found no requests, expected a line for each", 2)
    start = times[0]
    if not times[-1] - start <= MOST_SECONDS:
        raise UnusableFile(path, "found requests of more than 30 years, expected fewer")
    return Trace([at - start for at in times], models.tolist(), list(numbers), lines)


def _read_captured_trace(path: Path) -> Trace:
    try:
        requests = read_capture(path, bodies=False)
    except UnusableCapture as error:
        raise UnusableFile(error.path, error.subject, error.line) from error
    numbers: dict[str, int] = {}
    models = [numbers.setdefault(it.target_model, len(numbers)) for it in requests]
    return Trace([it.at for it in requests], models, list(numbers), [None] * len(numbers))


def read_time(path: Path, row: Row) -> float:
    """Seconds, of the first column. Raises UnusableFile."""
    text = row.values[0]
    try:
        at = float(text)
    except ValueError:
        at = read_date(text)
    if not math.isfinite(at):
        raise UnusableFile(
            path,
            f"found {shown(text)}, expected seconds or a time as 2026-11-25T09:30:00Z",
            row.line,
            row.columns[0],
        )
    return at


SERIES_COLUMNS = ("time", "invocations")


@dataclass(frozen=True)
class InvocationSeries:
    """Requests counted by CloudWatch."""

    counts: Sequence[float]  # of each period
    period_s: float  # its length


def read_series(path: Path) -> InvocationSeries:
    """Raises UnusableFile. A period that has no line had no requests."""
    times: list[float] = []
    counts: list[float] = []
    period = math.inf
    for row in read_rows(path, SERIES_COLUMNS):
        at, text = read_time(path, row), row.values[1]
        try:
            count = float(text)
        except ValueError:
            count = math.nan
        if not 0 <= count < math.inf:
            subject = f"found {shown(text)}, expected how many invocations there were"
            raise UnusableFile(path, subject, row.line, row.columns[1])
        if times and at <= times[-1]:
            subject = f"found time {row.values[0][:40]}, expected one after that of the line above"
            raise UnusableFile(path, subject, row.line, row.columns[0])
        if times:
            period = min(period, at - times[-1])
        times.append(at)
        counts.append(count)
    if len(times) < 2:
        raise UnusableFile(path, f"found {len(times)} periods, expected two or more")
    periods = (times[-1] - times[0]) / period
    if not (periods < MOST_PERIODS and times[-1] - times[0] <= MOST_SECONDS):
        raise UnusableFile(
            path,
            f"found a period of {period:g} s in {times[-1] - times[0]:g} s, expected at most "
            f"{MOST_PERIODS:,} of them in at most 30 years",
        )
    filled = [0.0] * (round(periods) + 1)
    for at, count in zip(times, counts, strict=True):
        filled[round((at - times[0]) / period)] += count
    if not any(filled):
        raise UnusableFile(path, "found no invocations in it, expected some")
    if sum(filled) > MOST_RPS * period * len(filled):
        raise UnusableFile(
            path, f"found more than {MOST_RPS:,.0f} invocations a second, expected fewer"
        )
    return InvocationSeries(filled, period)


#: Between two requests of a trace at least; from its last one until its end.
_APART_S, _AFTER_S = 1e-9, 1e-6


class Traffic:
    """archives: of each model of the demand. make(times) is the demand with so many times the
    requests, a new one each time: a demand draws at each call.
    """

    def __init__(
        self, archives: Sequence[ArchiveFigures], make: Callable[[float], Demand], source: str
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
    times, models = _separate_times(trace.times), np.asarray(trace.models, dtype=int)
    duration = float(times[-1]) + _AFTER_S

    def make(more: float) -> Demand:
        # As many in less time: a trace has no more requests than it has.
        return TraceDemand(times / more, models, len(archives), duration / more)

    return Traffic(archives, make, f"{len(times)} requests of {path.name}")


def _separate_times(times: Sequence[float]) -> Any:
    """Later than 0, and no two at the same time: a demand finds the next request after a time.

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
        steps = make_steps(demand, demand.bursts)
        plain = make_steps(demand, ())
        if not any(steps) or not any(plain):
            raise Impossible(
                f"found a rate of 0 in all of the {demand.hours:g} hours, by hours_of_day, "
                "days_of_week and bursts; expected requests at some time"
            )
        rate = demand.rps * (sum(steps) / len(steps)) / (sum(plain) / len(plain))
        hours = "1 hour" if demand.hours == 1 else f"{demand.hours:g} hours"
        source = f"{demand.rps:g} requests a second for {hours}"
    new = round(demand.new_models_a_day * duration / DAY_S)
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


def _find(kinds: Sequence[ArchiveKind], name: str, number: int) -> ArchiveFigures | None:
    for kind in kinds:
        if kind.match is not None and fnmatch.fnmatchcase(name, kind.match):
            return replace(kind.figures, name=name)
    others = [kind for kind in kinds if kind.match is None]
    return replace(others[number % len(others)].figures, name=name) if others else None
