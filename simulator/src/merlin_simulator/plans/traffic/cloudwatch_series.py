"""CloudWatch's Invocations of an endpoint as CSV: how many in each period of equal length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from merlin_simulator.plans.bounds import MOST_PERIODS, MOST_RPS, MOST_SECONDS
from merlin_simulator.plans.csv_files import read_rows
from merlin_simulator.plans.errors import UnusableFile, shown
from merlin_simulator.plans.traffic.traces import read_time

COLUMNS = ("time", "invocations")


@dataclass(frozen=True)
class Series:
    """counts: requests in each period; period_s: how long it is."""

    counts: Sequence[float]
    period_s: float


def read_series(path: Path) -> Series:
    """Raises UnusableFile. A period that has no line had no requests."""
    times: list[float] = []
    counts: list[float] = []
    period = math.inf
    for row in read_rows(path, COLUMNS):
        at, text = read_time(path, row), row.values[1]
        try:
            count = float(text)
        except ValueError:
            count = math.nan
        if not 0 <= count < math.inf:
            what = f"found {shown(text)}, expected how many invocations there were"
            raise UnusableFile(path, what, row.line, row.columns[1])
        if times and at <= times[-1]:
            what = f"found time {row.values[0][:40]}, expected one after that of the line above"
            raise UnusableFile(path, what, row.line, row.columns[0])
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
    return Series(filled, period)
