"""Metrics as CloudWatch keeps them: statistic sets by minute, for each name and set of dimensions.

A minute's values are kept, too, a bounded number of them, for percentiles. Times are seconds since
the epoch on the platform's clock. No I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

#: The finest period that is kept, seconds.
RESOLUTION_S = 60
#: Values of a minute that are kept for percentiles.
_VALUES = 1000
#: Minutes of one metric that are kept: CloudWatch has them for 15 days.
_MINUTES = 15 * 24 * 60

Dimensions = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Metric:
    """One metric: namespace, name and the dimensions that it was published with."""

    namespace: str
    name: str
    dimensions: Dimensions


@dataclass
class Statistics:
    """A statistic set. values: some of those it is made of, for percentiles."""

    count: float = 0.0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    values: list[float] = field(default_factory=list)
    unit: str | None = None

    def add(self, value: float, count: float = 1.0) -> None:
        """A value that came that often."""
        self.count += count
        self.total += value * count
        self.least, self.most = min(self.least, value), max(self.most, value)
        if len(self.values) < _VALUES:
            self.values.append(value)

    def merge(self, other: Statistics) -> None:
        """Both together."""
        self.count += other.count
        self.total += other.total
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)
        self.values = [*self.values, *other.values][:_VALUES]
        self.unit = self.unit or other.unit

    def read(self, statistic: str) -> float | None:
        """Sum, SampleCount, Average, Minimum, Maximum or pNN; None for one that there is not."""
        if not self.count:
            return None
        whole = {
            "Sum": self.total,
            "SampleCount": self.count,
            "Average": self.total / self.count,
            "Minimum": self.least,
            "Maximum": self.most,
        }.get(statistic)
        return whole if whole is not None else self._percentile(statistic)

    def _percentile(self, statistic: str) -> float | None:
        try:
            share = float(statistic.removeprefix("p")) / 100
        except ValueError:
            return None
        ordered = sorted(self.values)
        if not ordered or not statistic.startswith("p") or not 0 <= share <= 1:
            return None
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1 if share else 0)]


class MetricStore:
    """All metrics."""

    def __init__(self) -> None:
        self._minutes: dict[Metric, dict[int, Statistics]] = {}

    def add(
        self, metric: Metric, value: float, at: float, unit: str | None = None, count: float = 1.0
    ) -> None:
        """A value that was published."""
        minute = int(at // RESOLUTION_S)
        kept = self._minutes.setdefault(metric, {})
        statistics = kept.setdefault(minute, Statistics(unit=unit))
        statistics.add(value, count)
        if len(kept) > _MINUTES:
            del kept[min(kept)]

    def metrics(self) -> Iterator[Metric]:
        """Every metric that was ever published."""
        return iter(tuple(self._minutes))

    def read(
        self, metric: Metric, start: float, end: float, period_s: int = RESOLUTION_S
    ) -> list[tuple[float, Statistics]]:
        """Statistic sets of the periods that begin from start on and before end, oldest first.

        Periods begin at multiples of their length since the epoch. Those without values lack.
        """
        kept, periods = self._minutes.get(metric, {}), dict[float, Statistics]()
        for minute in _between(kept, start, end, period_s):
            begin = minute * RESOLUTION_S // period_s * period_s
            periods.setdefault(begin, Statistics()).merge(kept[minute])
        return sorted(periods.items())

    def forget(self, namespace: str, dimensions: Mapping[str, str]) -> None:
        """Metrics with these among their dimensions."""
        gone = set(dimensions.items())
        for metric in tuple(self._minutes):
            if metric.namespace == namespace and gone <= metric.dimensions:
                del self._minutes[metric]


def make_metric(namespace: str, name: str, dimensions: Mapping[str, str]) -> Metric:
    """A metric by its dimensions' names and values."""
    return Metric(namespace, name, frozenset(dimensions.items()))


def _between(
    kept: Mapping[int, Statistics], start: float, end: float, period_s: int
) -> Iterable[int]:
    first = math.floor(start / period_s) * period_s // RESOLUTION_S
    last = math.ceil(end / RESOLUTION_S)
    if last - first < len(kept):
        return [minute for minute in range(int(first), int(last)) if minute in kept]
    return [minute for minute in kept if first <= minute < last]
