"""Formulas on one list: how alike do two archives rank the same items? No I/O.

Both arguments hold a number for each item, in one order of items, the larger the higher. An item
of -inf has no place: it is never among the first k, and ties behind all others. docs/compare.md has
the formulas.
"""

from __future__ import annotations

import math

import numpy as np

from ensemble_tools.answers.tensors import Array


def overlap(old: Array, new: Array, k: int) -> float:
    """The share of the first k places that hold the same items; NaN where no item has a place.

    Items that tie around place k share the places that are left to them.
    """
    first, second = share_places(old, k), share_places(new, k)
    places = max(first.sum(), second.sum())
    return float(np.minimum(first, second).sum() / places) if places else math.nan


def share_places(ranked: Array, k: int) -> Array:
    """How much of a place among the first k each item has: 1, 0, or a share where it ties."""
    placed = ranked > -np.inf
    if placed.sum() <= k:
        return placed.astype(np.float64)
    last = np.partition(ranked, len(ranked) - k)[len(ranked) - k]
    above, ties = ranked > last, ranked == last
    return above + ties * ((k - above.sum()) / ties.sum())


def kendall(old: Array, new: Array) -> float:
    """Kendall's tau-b; 1 where both tie all items, 0 where one of them does."""
    items = len(old)
    pairs = items * (items - 1) // 2
    first, second = _number(old), _number(new)
    old_ties, new_ties = _count_ties(first), _count_ties(second)
    if pairs in (old_ties, new_ties):
        return float(old_ties == new_ties)
    both_ties = _count_ties(_number(first * items + second))
    discordant = _count_inversions(second[np.lexsort((second, first))])
    concordant_less_discordant = pairs - old_ties - new_ties + both_ties - 2 * discordant
    return concordant_less_discordant / math.sqrt((pairs - old_ties) * (pairs - new_ties))


def spearman(old: Array, new: Array) -> float:
    """Spearman's rho, of average ranks; 1 where both tie all items, 0 where one of them does."""
    first, second = (_rank_around_zero(ranked) for ranked in (old, new))
    product = float(first @ first) * float(second @ second)
    if not product:
        return float(not first.any() and not second.any())
    return float(first @ second) / math.sqrt(product)


def _number(values: Array) -> Array:
    """Each value's number among the distinct ones, from the smallest, 0."""
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _count_ties(numbers: Array) -> int:
    """Pairs of items with the same number."""
    sizes = np.bincount(numbers)
    return int((sizes * (sizes - 1) // 2).sum())


def _rank_around_zero(values: Array) -> Array:
    """Twice the average rank, with the mean taken away: whole numbers, which sum up exactly."""
    numbers = _number(values)
    sizes = np.bincount(numbers)
    ends = np.cumsum(sizes)
    return (2 * ends - sizes - len(values))[numbers].astype(np.float64)


def _count_inversions(numbers: Array) -> int:
    """Pairs whose first number is the larger one, counted while halves are merged (Knight 1966)."""
    size = 1 << max(len(numbers) - 1, 0).bit_length()
    largest = len(numbers)
    merged: Array = np.full(size, largest, dtype=np.int64)
    merged[: len(numbers)] = numbers
    count, width = 0, 1
    while width < size:
        blocks = merged.reshape(-1, 2 * width)
        apart: Array = np.arange(len(blocks))[:, np.newaxis] * (largest + 1)
        left, right = ((half + apart).reshape(-1) for half in np.hsplit(blocks, 2))
        not_larger = np.searchsorted(left, right, side="right")
        ends: Array = np.repeat(np.arange(1, len(blocks) + 1) * width, width)
        count += int((ends - not_larger).sum())
        blocks.sort(axis=1)
        width *= 2
    return count
