"""Each measure beside numbers that were reckoned by hand, and against chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts
from tests.unit.verification.drift.made_counts import make_ids, make_numbers
from verification.drift.measures import ColumnDrift, Severity, measure_psi


def measure(counts: ColumnCounts) -> ColumnDrift:
    return ColumnDrift("workflow", counts)


def test_psi_by_hand() -> None:
    """Half a value more in each bucket: shares of .3 and .7 where .1 and .9 were fitted.

    (.3 - .1) ln(.3 / .1) + (.7 - .9) ln(.7 / .9) = .2 ln(27 / 7).
    """
    assert measure_psi((1, 3), (0, 4)) == pytest.approx(0.26998534)
    assert measure_psi((0, 4), (1, 3)) == pytest.approx(0.26998534)
    assert measure(make_ids()).psi == pytest.approx(0.26998534)


def test_psi_of_the_same() -> None:
    """However many came: only shares count, and half a value more where few did."""
    fitted = (600, 300, 100)
    assert measure_psi(fitted, fitted) == 0
    assert measure(make_ids(came=(6000, 3000, 1000), fitted=fitted)).psi == pytest.approx(
        0, abs=1e-5
    )


def test_psi_of_nothing() -> None:
    """Nothing came, nothing is known of the fit, or there is no vocabulary: no index."""
    assert measure(make_ids(came=())).psi is None
    assert measure(make_ids(fitted=())).psi is None
    assert measure(make_numbers()).psi is None
    assert measure(make_ids(came=(5,), fitted=(9,))).psi == 0


def test_chance_is_that_of_the_chi_square_distribution() -> None:
    """Its 95 % quantiles, out of a table: 44.985 for 31 degrees, 3.841 for one."""
    wide = make_ids(came=(100,) * 32, fitted=(1000,) * 32)
    assert measure(wide).psi_by_chance == pytest.approx(44.985 * (1 / 3200 + 1 / 32000), rel=1e-3)
    narrow = measure(make_ids(came=(10, 10), fitted=(30, 10)))
    assert narrow.psi_by_chance == pytest.approx(3.841 * (1 / 20 + 1 / 40))


def test_what_chance_makes_is_seldom_more() -> None:
    """2,000 draws of 3,200 values from what was fitted: the index passes its chance in some 5 %."""
    fitted = tuple(int(10_000 / place) for place in range(1, 33))
    shares = np.array(fitted) / sum(fitted)
    draws = np.random.default_rng(0).multinomial(3200, shares, size=2000)
    chance = measure(make_ids(came=tuple(draws[0].tolist()), fitted=fitted)).psi_by_chance
    assert chance is not None
    # The fitted sizes are no sample here.
    bound = chance / (1 + 3200 / sum(fitted))
    passed = sum(measure_psi(draw.tolist(), fitted) > bound for draw in draws)
    assert 60 < passed < 140


def test_few_values_are_no_drift() -> None:
    """50 values over 32 buckets have an index of .25 and more by chance alone."""
    few = measure(make_ids(came=(2, 1) * 16, fitted=(1000,) * 32))
    many = measure(make_ids(came=(2000, 100) * 16, fitted=(1000,) * 32))
    assert few.psi is not None
    assert few.psi_by_chance is not None
    assert few.psi_by_chance > 0.25
    assert (few.severity, many.severity) == (Severity.STABLE, Severity.LARGE)


def test_shift_and_spread_by_hand() -> None:
    """3, 7, 3, 7: mean 5 and standard deviation 2, where 3 and 4 were fitted."""
    few, many = measure(make_numbers()), measure(make_numbers(times=100))
    for column in (few, many):
        assert (column.mean, column.shift, column.spread) == (5.0, 0.5, 0.5)
    assert few.shift_by_chance == pytest.approx(1.96 / 2)
    assert many.shift_by_chance == pytest.approx(1.96 / 20)
    assert (few.severity, many.severity) == (Severity.STABLE, Severity.LARGE)
    downwards = measure(make_numbers(numbers=(-1, 3), times=100))
    assert (downwards.shift, downwards.severity) == (-0.5, Severity.LARGE)


@pytest.mark.parametrize(
    ("numbers", "severity"),
    [
        ((3, 3), Severity.STABLE),
        ((4.2, 4.2), Severity.STABLE),
        ((4.3, 4.3), Severity.MODERATE),
        ((4.9, 4.9), Severity.MODERATE),
        ((5.1, 5.1), Severity.LARGE),
    ],
)
def test_bounds_of_the_shift(numbers: tuple[float, ...], severity: Severity) -> None:
    """The square of the shift is the index of two normal distributions: .316² = .1, .5² = .25."""
    assert measure(make_numbers(numbers=numbers, times=1000)).severity is severity


def test_a_spread_that_rounding_made() -> None:
    """Of equal large numbers the difference of two squares is noise, and no spread."""
    column = measure(make_numbers(numbers=(123456789.123,) * 10))
    assert column.spread is None


@pytest.mark.parametrize("value", [0.0, 3.0, -7.3])
def test_values_that_are_all_alike_have_no_spread(value: float) -> None:
    """As where a caller sends the default of a column: a measure, which is 0."""
    assert measure(make_numbers(numbers=(value,), times=50)).spread == 0


@pytest.mark.parametrize(
    ("unseen", "severity"),
    [(0, "STABLE"), (9, "STABLE"), (10, "MODERATE"), (49, "MODERATE"), (50, "LARGE")],
)
def test_shares(unseen: int, severity: str) -> None:
    """Of all values, nulls included; from 1 % on moderate, from 5 % on large."""
    same = ((1000 - 200 - unseen,), (1000,))
    column = measure(make_ids(came=same[0], fitted=same[1], unseen=unseen, nulls=200))
    assert (column.unseen, column.nulls) == (unseen / 1000, 0.2)
    assert column.severity is Severity[severity]


def test_values_outside_of_the_fitted_range() -> None:
    """Judged as unseen ones are; without a range there is no share."""
    column = measure(make_numbers(numbers=(3,), times=100, outside=7))
    assert (column.outside, column.severity) == (0.07, Severity.LARGE)
    assert measure(make_ids(outside=0)).outside is None


def test_a_sample() -> None:
    """Shares and sums stand for all values, and chance is that of those that were looked at."""
    whole = measure(make_numbers(times=100))
    sampled = measure(make_numbers(times=100, counted=100))
    assert (sampled.shift, sampled.spread) == (whole.shift, whole.spread)
    assert sampled.shift_by_chance == pytest.approx(1.96 / 10)
    came = {"came": (100, 100), "fitted": (300, 100)}
    assert measure(make_ids(**came, counted=100)).psi_by_chance == pytest.approx(  # type: ignore[arg-type]
        3.841 * (1 / 100 + 1 / 400), rel=0.03
    )


def test_an_empty_column() -> None:
    """Nothing is said, and nothing is divided by nothing."""
    column = measure(ColumnCounts("a"))
    names = ("unseen", "nulls", "outside", "psi", "psi_by_chance", "mean", "shift", "spread")
    assert {getattr(column, name) for name in (*names, "shift_by_chance")} == {None}
    assert column.severity is None


@pytest.mark.parametrize(
    "more",
    [
        {"fitted_std": 0.0},
        {"fitted_std": None},
        {"fitted_std": 1e-320, "sum": 1e300},
        {"sum": math.inf},
        {"sum_of_squares": math.nan},
        {"sum": -math.inf, "sum_of_squares": math.inf},
    ],
)
def test_numbers_that_are_none(more: dict[str, Any]) -> None:
    """A fit without a spread, and sums beyond what a float holds: no measure is infinite."""
    counts = make_numbers(times=1000)
    fields = {**vars(counts), **{name: it for name, it in more.items() if name != "fitted_std"}}
    if "fitted_std" in more:
        fields["fitted"] = type(counts.fitted)(mean=3.0, std=more["fitted_std"])
    column = measure(ColumnCounts(**fields))
    for value in (column.shift, column.spread):
        assert value is None or math.isfinite(value)


def test_the_worst_comes_first() -> None:
    """By severity, then by how near a column is to what is large, then by nulls."""
    columns = [
        make_ids("stable", came=(99, 1), fitted=(99, 1)),
        make_ids("nulls", came=(99, 1), fitted=(99, 1), nulls=50),
        make_ids("nearly", came=(9_950,), fitted=(9_950,), unseen=50),
        make_ids("moderate", came=(970,), fitted=(1000,), unseen=30),
        make_numbers("shifted", numbers=(7,), times=100),
        make_ids("unseen", came=(500,), fitted=(500,), unseen=500),
    ]
    ranked = sorted(map(measure, columns), key=lambda column: column.rank, reverse=True)
    names = [column.counts.column for column in ranked]
    assert names == ["unseen", "shifted", "moderate", "nearly", "nulls", "stable"]
