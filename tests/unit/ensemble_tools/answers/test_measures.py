"""The formulas give what is computed by hand, and by counting every pair and every order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_tools.answers.measures import kendall, overlap, share_places, spearman

INF = math.inf
#: Few numbers, so that items tie; -inf has no place.
NUMBERS = st.sampled_from([-INF, -1.0, 0.0, 0.5, 2.0])
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=6)


def arrays(pairs: Sequence[tuple[float, float]]) -> tuple[Any, Any]:
    old, new = zip(*pairs, strict=True)
    return np.array(old), np.array(new)


def sign(first: float, second: float) -> int:
    return (first > second) - (first < second)


def count_pairs(old: Sequence[float], new: Sequence[float]) -> float:
    """tau-b by its definition: concordant less discordant pairs, by those that do not tie."""
    pairs = [*combinations(range(len(old)), 2)]
    signs = [(sign(old[i], old[j]), sign(new[i], new[j])) for i, j in pairs]
    apart = [sum(1 for both in signs if both[side]) for side in (0, 1)]
    if 0 in apart:
        return float(apart == [0, 0])
    return sum(first * second for first, second in signs) / math.sqrt(apart[0] * apart[1])


def correlate_ranks(old: Sequence[float], new: Sequence[float]) -> float:
    """rho by its definition: Pearson's correlation of average ranks."""
    ranks = [
        [sum(sign(value, other) for other in values) / 2 for value in values]
        for values in (old, new)
    ]
    sums = [
        sum(a * b for a, b in zip(first, second, strict=True))
        for first, second in ((ranks[0], ranks[1]), (ranks[0], ranks[0]), (ranks[1], ranks[1]))
    ]
    if not sums[1] or not sums[2]:
        return float(sums[1] == sums[2])
    return sums[0] / math.sqrt(sums[1] * sums[2])


def share_by_orders(values: Sequence[float], k: int) -> list[float]:
    """How often each item is among the first k, over all orders in which ties may come."""
    orders = [
        order
        for order in permutations(range(len(values)))
        if all(values[a] >= values[b] for a, b in pairwise(order))
    ]
    placed = [[item for item in order[:k] if values[item] > -INF] for order in orders]
    return [sum(item in first for first in placed) / len(orders) for item in range(len(values))]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # 1 of 6 pairs is turned: (5 - 1) / 6.
        ([4, 3, 2, 1], [4, 3, 1, 2], 2 / 3),
        ([1, 2, 3], [3, 2, 1], -1.0),
        # 10 pairs: 1 ties in old, 2 in new, none in both; 5 agree, 2 do not.
        ([1, 2, 2, 4, 5], [2, 1, 3, 3, 3], (5 - 1) / math.sqrt(9 * 7)),
        ([1, 1, 1], [1, 2, 3], 0.0),
        ([1, 1, 1], [2, 2, 2], 1.0),
    ],
)
def test_kendall_by_hand(old: list[float], new: list[float], expected: float) -> None:
    """tau-b of a few items."""
    assert kendall(*arrays([*zip(old, new, strict=True)])) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Without ties: 1 - 6 * sum(d²) / (n (n² - 1)), here sum(d²) = 2.
        ([4, 3, 2, 1], [4, 3, 1, 2], 1 - 6 * 2 / 60),
        ([1, 2, 3], [3, 2, 1], -1.0),
        # Ranks 1, 2.5, 2.5 and 1, 2, 3: covariance 1.5, variances 1.5 and 2.
        ([1, 2, 2], [1, 2, 3], 1.5 / math.sqrt(1.5 * 2)),
        ([1, 1, 1], [1, 2, 3], 0.0),
    ],
)
def test_spearman_by_hand(old: list[float], new: list[float], expected: float) -> None:
    """rho of a few items."""
    assert spearman(*arrays([*zip(old, new, strict=True)])) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "k", "expected"),
    [
        ([5, 4, 3, 2, 1], [5, 4, 1, 2, 3], 3, 2 / 3),
        ([5, 4, 3, 2, 1], [1, 2, 3, 4, 5], 2, 0.0),
        # The second place is shared by two items, half a place each; new gives it to one of them.
        ([3, 2, 2, 1], [3, 2, 1, 0], 2, 1.5 / 2),
        # All four tie: each has half of a place.
        ([1, 1, 1, 1], [4, 3, 2, 1], 2, 1 / 2),
        # New has a place for one item alone.
        ([3, 2, 1], [3, -INF, -INF], 2, 1 / 2),
        ([-INF, -INF], [1, 2], 2, 0.0),
    ],
)
def test_overlap_by_hand(old: list[float], new: list[float], k: int, expected: float) -> None:
    """Places that hold the same items, ties shared."""
    assert overlap(*arrays([*zip(old, new, strict=True)]), k) == expected


@given(PAIRS)
def test_correlations_by_brute_force(pairs: list[tuple[float, float]]) -> None:
    """Counting every pair, and averaging every rank, gives the same."""
    old, new = arrays(pairs)
    first, second = old.tolist(), new.tolist()
    assert kendall(old, new) == pytest.approx(count_pairs(first, second), abs=1e-12)
    assert spearman(old, new) == pytest.approx(correlate_ranks(first, second), abs=1e-12)


@given(PAIRS, st.integers(1, 7))
def test_overlap_by_brute_force(pairs: list[tuple[float, float]], k: int) -> None:
    """An item's share of the first k places is how often it is there, over all orders of ties."""
    old, new = arrays(pairs)
    shares = share_by_orders(old, k), share_by_orders(new, k)
    assert share_places(old, k) == pytest.approx(shares[0])
    places = max(map(sum, shares))
    if places:
        common = sum(min(both) for both in zip(*shares, strict=True))
        assert overlap(old, new, k) == pytest.approx(common / places)
    else:
        assert math.isnan(overlap(old, new, k))


@pytest.mark.parametrize("measure", [kendall, spearman, lambda old, new: overlap(old, new, 3)])
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=50))
def test_a_list_and_itself(measure: Callable[[Any, Any], float], values: list[float]) -> None:
    """Exactly 1, whatever ties; a list without places has nothing to overlap."""
    array = np.array(values)
    value = measure(array, array)
    assert value == 1 or (math.isnan(value) and not (array > -INF).any())


def test_long_lists() -> None:
    """A catalogue of 2,000 items gives what a matrix of all pairs gives."""
    rng = np.random.default_rng(7)
    old, new = rng.integers(0, 500, 2000) * 1.0, rng.integers(0, 500, 2000) * 1.0
    first, second = (np.sign(array[:, np.newaxis] - array) for array in (old, new))
    expected = (first * second).sum() / math.sqrt((first**2).sum() * (second**2).sum())
    assert kendall(old, new) == pytest.approx(expected, abs=1e-12)
