"""How far a column's values are from those that its workflow was fitted to. No I/O.

docs/drift.md has the formulas, and where the bounds come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts

#: What each bucket has more than was counted, so that none is empty (Jeffreys' prior).
_PRIOR = 0.5
#: From where on drift is moderate, and from where on it is large.
PSI_BOUNDS = (0.1, 0.25)
#: Of normal distributions of one spread the PSI is the shift's square.
SHIFT_BOUNDS = (math.sqrt(0.1), 0.5)
#: Shares of values that the fitted data did not have.
NEW_BOUNDS = (0.01, 0.05)
#: What chance exceeds once in 20 times: a normal variable to either side; and upwards one of the
#: chi-square distribution, by its degrees of freedom, of which 32 buckets have 31 at most.
_EITHER_SIDE = 1.96
# fmt: off
_CHI_SQUARE_95 = (
    0.0, 3.841, 5.991, 7.815, 9.488, 11.070, 12.592, 14.067, 15.507, 16.919, 18.307, 19.675, 21.026,
    22.362, 23.685, 24.996, 26.296, 27.587, 28.869, 30.144, 31.410, 32.671, 33.924, 35.172, 36.415,
    37.652, 38.885, 40.113, 41.337, 42.557, 43.773, 44.985,
)
# fmt: on
#: Below this share of the squared mean a variance is rounding.
_ROUNDING = 1e-9
#: A spread that is no larger is none.
_NO_SPREAD = 0.005


class Severity(IntEnum):
    """In the words of the tables."""

    STABLE = 0
    MODERATE = 1
    LARGE = 2


@dataclass(frozen=True)
class ColumnDrift:
    """The measures of one column; None where there is nothing to measure, or to compare with."""

    workflow: str  # its name in the archive
    counts: ColumnCounts

    @property
    def unseen(self) -> float | None:
        """The share of values that no vocabulary has."""
        return self._share(self.counts.unseen) if self.counts.has_keys else None

    @property
    def nulls(self) -> float | None:
        """The share of nulls."""
        return self._share(self.counts.nulls)

    @property
    def outside(self) -> float | None:
        """The share of values outside of the fitted range."""
        fitted = self.counts.fitted
        is_bounded = fitted.low is not None or fitted.high is not None
        return self._share(self.counts.outside) if is_bounded else None

    @cached_property
    def psi(self) -> float | None:
        """The population stability index over the vocabulary's buckets."""
        buckets = self.buckets
        return measure_psi(*zip(*buckets, strict=True)) if buckets else None

    @property
    def psi_by_chance(self) -> float | None:
        """What the PSI exceeds once in 20 times if nothing has changed."""
        buckets = self.buckets
        if not buckets:
            return None
        came = sum(count for count, _ in buckets) * self._looked_at
        fitted = sum(rows for _, rows in buckets)
        return _CHI_SQUARE_95[len(buckets) - 1] * (1 / came + 1 / fitted)

    @property
    def mean(self) -> float | None:
        """The mean of the values that came."""
        counts = self.counts
        return counts.sum / counts.finite if counts.finite else None

    @property
    def shift(self) -> float | None:
        """By how many fitted standard deviations the mean has moved."""
        fitted, mean = self.counts.fitted, self.mean
        if mean is None or fitted.mean is None or not fitted.std:
            return None
        return _if_finite((mean - fitted.mean) / fitted.std)

    @property
    def shift_by_chance(self) -> float | None:
        """What the shift exceeds, to either side, once in 20 times if nothing has changed."""
        if self.shift is None:
            return None
        return _EITHER_SIDE / math.sqrt(self.counts.finite * self._looked_at)

    @property
    def spread(self) -> float | None:
        """The standard deviation of what came, by the fitted one."""
        counts, mean = self.counts, self.mean
        if mean is None or counts.finite < 2 or not counts.fitted.std:
            return None
        variance = counts.sum_of_squares / counts.finite - mean * mean
        rounding = _ROUNDING * mean * mean
        if variance > rounding:
            return _if_finite(math.sqrt(variance) / counts.fitted.std)
        # All values are alike, or rounding hides how far they are from each other.
        return 0.0 if math.sqrt(rounding) <= _NO_SPREAD * counts.fitted.std else None

    @property
    def severity(self) -> Severity | None:
        """That of the worst measure; None without any."""
        reached = [
            sum(abs(value) >= bound for bound in bounds) if abs(value) > chance else 0
            for value, chance, bounds in self._judged
        ]
        return Severity(max(reached)) if reached else None

    @property
    def rank(self) -> tuple[float, ...]:
        """The larger, the worse: severity, then how near the measures are to what is large."""
        nearness = (abs(value) / bounds[1] for value, _, bounds in self._judged)
        return (self.severity or 0, max(nearness, default=-1.0), self.nulls or 0.0)

    @property
    def _judged(self) -> list[tuple[float, float, tuple[float, float]]]:
        """Each measure with what chance alone makes of it, and its bounds.

        The fitted data had no unseen values and none outside, so no chance brings any. Nobody knows
        how many nulls it had.
        """
        measures = (
            (self.psi, self.psi_by_chance, PSI_BOUNDS),
            (self.shift, self.shift_by_chance, SHIFT_BOUNDS),
            (self.unseen, 0.0, NEW_BOUNDS),
            (self.outside, 0.0, NEW_BOUNDS),
        )
        return [(value, chance or 0.0, it) for value, chance, it in measures if value is not None]

    @property
    def _looked_at(self) -> float:
        """The share of values that were counted: of a large request it is a sample."""
        counts = self.counts
        return counts.counted / counts.values if 0 < counts.counted < counts.values else 1.0

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """For each bucket, how many values came and how many rows it was fitted to.

        Without those that no label of a small vocabulary falls into.
        """
        counts = self.counts
        if not sum(counts.buckets) or not sum(counts.fitted.buckets):
            return []
        paired = zip(counts.buckets, counts.fitted.buckets, strict=True)
        return [pair for pair in paired if any(pair)]

    def _share(self, count: int) -> float | None:
        return count / self.counts.values if self.counts.values else None


def measure_psi(came: Sequence[float], fitted: Sequence[float]) -> float:
    """The population stability index of two histograms over the same buckets."""
    shares, expected = _smooth(came), _smooth(fitted)
    pairs = zip(shares, expected, strict=True)
    return math.fsum((share - part) * math.log(share / part) for share, part in pairs)


def _smooth(counts: Sequence[float]) -> list[float]:
    """Their shares, none of which is 0."""
    whole = sum(counts) + _PRIOR * len(counts)
    return [(count + _PRIOR) / whole for count in counts]


def _if_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
