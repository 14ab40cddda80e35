"""Metrics as CloudWatch keeps them: statistic sets by minute, for each name and set of dimensions.

A minute's values are kept, too, for percentiles: how often each came. Where there are many, they
are told apart by three digits and fewer. Times are seconds since the epoch on the platform's clock.
No I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

#: The finest period that is kept, seconds.
RESOLUTION_S = 60
#: Different values of a minute that are kept for percentiles, and of one that is not among the
#: newest three hours.
_VALUES, _OLD_VALUES, _NEWEST = 1000, 50, 180
#: Minutes of one metric that are kept: CloudWatch has them for 15 days.
_MINUTES = 15 * 24 * 60
#: The same in seconds.
KEPT_S = _MINUTES * RESOLUTION_S

Dimensions = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Metric:
    """One metric: namespace, name and the dimensions that it was published with."""

    namespace: str
    name: str
    dimensions: Dimensions


@dataclass(slots=True)
class Statistics:
    """A statistic set."""

    count: float = 0.0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    #: How often each value came; None where all are the same, or nobody knows them.
    values: dict[float, float] | None = None
    unit: str | None = None

    def spread(self) -> Mapping[float, float]:
        """How often each value came, as far as that is known."""
        if self.values is not None:
            return self.values
        return {self.least: self.count} if self.least == self.most else {}

    def add(self, value: float, count: float = 1.0) -> None:
        """A value that came that often."""
        if self.values is not None or (self.count and not self.least == self.most == value):
            self._spread_out({value: count})
        self._add_up(count, value * count, value, value)

    def merge(self, other: Statistics, with_values: bool = True) -> None:
        """Both together. with_values: percentiles will be read, too."""
        alike = self.least == self.most == other.least == other.most
        if with_values and self.count and (self.values is not None or not alike):
            self._spread_out(other.spread())
        elif with_values and not self.count and other.values is not None:
            self.values = dict(other.values)
        self._add_up(other.count, other.total, other.least, other.most)
        self.unit = self.unit or other.unit

    def thin(self) -> None:
        """It is old: fewer of its values are kept."""
        if self.values is not None and len(self.values) > _OLD_VALUES:
            self.values = _coarsen(self.values, _OLD_VALUES)

    def read(self, statistic: str) -> float | None:
        """Sum, SampleCount, Average, Minimum, Maximum or pNN; None for one that there is not."""
        if not self.count:
            return None
        if statistic == "Sum":
            return self.total
        if statistic == "Average":
            return self.total / self.count
        if statistic == "SampleCount":
            return self.count
        if statistic == "Minimum":
            return self.least
        return self.most if statistic == "Maximum" else self._percentile(statistic)

    def _spread_out(self, more: Mapping[float, float]) -> None:
        values = dict(self.spread()) if self.values is None else self.values
        for value, count in more.items():
            values[value] = values.get(value, 0.0) + count
        self.values = values if len(values) <= _VALUES else _coarsen(values, _VALUES)

    def _add_up(self, count: float, total: float, least: float, most: float) -> None:
        self.count += count
        self.total += total
        if least < self.least:
            self.least = least
        if most > self.most:
            self.most = most

    def _percentile(self, statistic: str) -> float | None:
        """Nearest rank; None also where a set was published, whose values nobody knows."""
        try:
            share = float(statistic.removeprefix("p")) / 100
        except ValueError:
            return None
        values = self.spread()
        whole = sum(values.values())
        if not whole or not statistic.startswith("p") or not 0 <= share <= 1:
            return None
        # What is added up in another order differs in its last digits.
        rank, seen, nearest = (share - 1e-9) * whole, 0.0, self.most
        for value in sorted(values):
            seen += values[value]
            if seen >= rank:
                nearest = value
                break
        return min(max(nearest, self.least), self.most)


class MetricStore:
    """All metrics of the simulated account."""

    def __init__(self) -> None:
        self._minutes: dict[Metric, dict[int, Statistics]] = {}

    def add(
        self, metric: Metric, value: float, at: float, unit: str | None = None, count: float = 1.0
    ) -> None:
        """A value that was published."""
        self._at(metric, at, unit).add(value, count)

    def add_set(self, metric: Metric, published: Statistics, at: float) -> None:
        """A statistic set that was published."""
        self._at(metric, at, published.unit).merge(published)

    def metrics(self) -> Iterator[Metric]:
        """Every metric that was ever published."""
        return iter(tuple(self._minutes))

    def last_at(self, metric: Metric) -> float | None:
        """When the newest minute with values begins; None: there is none."""
        minutes = self._minutes.get(metric)
        return max(minutes) * float(RESOLUTION_S) if minutes else None

    def read(
        self,
        metric: Metric,
        start: float,
        end: float,
        period_s: int = RESOLUTION_S,
        with_values: bool = True,
    ) -> list[tuple[float, Statistics]]:
        """Statistic sets of the periods that begin from start on and before end, oldest first.

        Periods begin at multiples of their length since the epoch. Those without values lack. The
        sets are the store's own: they are looked at, not changed. with_values: percentiles will be
        read, too.
        """
        sets = self._minutes.get(metric, {})
        minutes = _minutes_between(sets, start, end, period_s)
        if period_s == RESOLUTION_S:
            return [(minute * float(RESOLUTION_S), sets[minute]) for minute in minutes]
        periods = dict[float, Statistics]()
        for minute in minutes:
            begin = float(minute * RESOLUTION_S // period_s * period_s)
            periods.setdefault(begin, Statistics()).merge(sets[minute], with_values)
        return list(periods.items())

    def forget(self, namespace: str, dimensions: Mapping[str, str]) -> None:
        """Metrics with these among their dimensions."""
        gone = set(dimensions.items())
        for metric in tuple(self._minutes):
            if metric.namespace == namespace and gone <= metric.dimensions:
                del self._minutes[metric]

    def _at(self, metric: Metric, at: float, unit: str | None) -> Statistics:
        """The minute's statistic set, made where there is none."""
        minute = int(at // RESOLUTION_S)
        sets = self._minutes.setdefault(metric, {})
        statistics = sets.get(minute)
        if statistics is None:
            statistics = sets[minute] = Statistics(unit=unit)
            if (old := sets.get(minute - _NEWEST)) is not None:
                old.thin()
            if len(sets) > _MINUTES:
                del sets[min(sets)]
        return statistics


def make_metric(namespace: str, name: str, dimensions: Mapping[str, str]) -> Metric:
    """A metric by its dimensions' names and values."""
    return Metric(namespace, name, frozenset(dimensions.items()))


def _minutes_between(
    sets: Mapping[int, Statistics], start: float, end: float, period_s: int
) -> Iterable[int]:
    """Minutes that are kept, in their order."""
    first = math.floor(start / period_s) * period_s // RESOLUTION_S
    last = math.ceil(end / RESOLUTION_S)
    if last - first < len(sets):
        return [minute for minute in range(int(first), int(last)) if minute in sets]
    return sorted(minute for minute in sets if first <= minute < last)


def _coarsen(values: Mapping[float, float], most: int) -> dict[float, float]:
    """The same values told apart by fewer digits, so that at most so many are left."""
    for digits in (3, 2, 1):
        rounded = dict[float, float]()
        for value, count in values.items():
            near = float(f"{value:.{digits - 1}e}")
            rounded[near] = rounded.get(near, 0.0) + count
        if len(rounded) <= most:
            return rounded
    return dict(list(rounded.items())[:most])
