"""Rows put together by their keys: nvtabular.ops.Groupby, as pandas' groupby and agg do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import INTEGERS, Column, NoRowsLeft, distinct, missing_rows, take_rows, widen
from .sorting import argsort

#: Up to so many rows a group, sums are made for all groups at once, row by row.
_LONG_GROUP = 64


class Groups:
    """Which rows belong together, in the order of their keys.

    order: row numbers, those of one group beside each other. starts, lengths: of the groups in it.
    """

    def __init__(self, order: Any, starts: Any) -> None:
        self.order, self.starts = order, starts
        self.lengths = np.diff(np.append(starts, len(order)))


def sort_rows(columns: list[Column], ascending: bool) -> Any:
    """DataFrame.sort_values: row numbers, missing ones last.

    By one column with numpy's quicksort, whose order of equal values pandas takes as it comes; by
    several in a stable way.
    """
    if len(columns) == 1:
        return _by_one(columns[0], ascending)
    ranks = []
    for column in columns:
        missing = missing_rows(column)
        values = distinct(column.values)
        unique = np.unique(values[~missing])
        rank = np.searchsorted(unique, values)
        ranks.append(np.where(missing, len(unique), rank if ascending else len(unique) - 1 - rank))
    return np.lexsort(ranks[::-1])


def _by_one(column: Column, ascending: bool) -> Any:
    values, missing = column.values, missing_rows(column)
    rows = np.flatnonzero(~missing)
    if not ascending:
        rows = rows[::-1]
    order = rows[argsort(values[rows])]
    if not ascending:
        order = order[::-1]
    return np.concatenate([order, np.flatnonzero(missing)])


def group_rows(keys: list[Column], order: Any) -> Groups:
    """Rows with equal keys, in the given order; those with a missing key are left out."""
    code = np.zeros(len(order), np.int64)
    has_keys = np.ones(len(order), bool)
    for key in keys:
        values = distinct(key.values[order])
        has_keys &= ~missing_rows(key)[order]
        unique, rank = np.unique(values, return_inverse=True)
        code = np.unique(code * len(unique) + rank.reshape(-1), return_inverse=True)[1].reshape(-1)
    order, code = order[has_keys], code[has_keys]
    if not len(order):
        raise NoRowsLeft(
            "every row has a missing key, so that Groupby leaves none; NVTabular gives the "
            "operators after it the request's own rows"
        )
    stable = np.argsort(code, kind="stable")
    code = code[stable]
    starts = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
    return Groups(order[stable], starts)


def group_keys(key: Column, order: Any, groups: Groups) -> Any:
    """Each group's key. Of 0.0 and -0.0, which are equal, the one that comes first in any group."""
    values = distinct(key.values[order])
    if values.dtype.kind == "f":
        _, first, rank = np.unique(values, return_index=True, return_inverse=True)
        values = values[first][rank.reshape(-1)]
    by_row = np.empty_like(values)
    by_row[order] = values
    return by_row[groups.order[groups.starts]]


def aggregate(name: str, column: Column, groups: Groups) -> Column:
    """An aggregation's column: one value, or one list, a group."""
    ordered = take_rows(column, groups.order)
    if name in _OF_COLUMNS:
        return _OF_COLUMNS[name](ordered, groups)
    return _OF_VALUES[name](ordered.values, groups)


def _list(values: Any, groups: Groups) -> Column:
    return Column(widen(values), np.append(groups.starts, len(values)).astype(np.int64))


def _first(column: Column, groups: Groups) -> Column:
    return _widened(take_rows(column, groups.starts))


def _last(column: Column, groups: Groups) -> Column:
    return _widened(take_rows(column, groups.starts + groups.lengths - 1))


def _widened(column: Column) -> Column:
    """Of texts that are all missing pandas makes floats, unless each of them is None."""
    missing = column.missing
    if missing is not None and missing.all() and (column.values != b"None").any():
        return Column(np.full(column.rows, np.nan))
    return Column(widen(column.values), None, missing)


def _count(column: Column, groups: Groups) -> Column:
    return Column(np.add.reduceat((~missing_rows(column)).astype(np.int64), groups.starts))


def _nunique(column: Column, groups: Groups) -> Column:
    present = ~missing_rows(column)
    group = np.repeat(np.arange(len(groups.starts)), groups.lengths)[present]
    rank = np.unique(distinct(column.values)[present], return_inverse=True)[1].reshape(-1)
    order = np.lexsort((rank, group))
    rank, group = rank[order], group[order]
    new = np.append(True, (rank[1:] != rank[:-1]) | (group[1:] != group[:-1]))[: len(rank)]
    return Column(np.bincount(group[new], minlength=len(groups.starts)).astype(np.int64))


def _min(values: Any, groups: Groups) -> Column:
    return _extreme(values, groups, np.less)


def _max(values: Any, groups: Groups) -> Column:
    return _extreme(values, groups, np.greater)


def _extreme(values: Any, groups: Groups, better: Callable[..., Any]) -> Column:
    """The first of the best, so that of 0.0 and -0.0 the one that comes first is kept."""
    if values.dtype.kind in INTEGERS:
        chosen = np.minimum if better is np.less else np.maximum
        return Column(chosen.reduceat(values, groups.starts))
    if values.dtype.kind == "M":
        chosen = np.fmin if better is np.less else np.fmax  # which leave NaT out
        return Column(chosen.reduceat(values, groups.starts))
    best = values[groups.starts].copy()
    long = groups.lengths > _LONG_GROUP
    for number in range(1, int(groups.lengths[~long].max(initial=0))):
        inside = ~long & (number < groups.lengths)
        extremes = values[np.where(inside, groups.starts + number, groups.starts)]
        best = np.where(inside & (better(extremes, best) | np.isnan(best)), extremes, best)
    for group in np.flatnonzero(long):
        start = groups.starts[group]
        rows = values[start : start + groups.lengths[group]]
        rows = rows[~np.isnan(rows)]
        first = np.argmin if better is np.less else np.argmax
        best[group] = rows[first(rows)] if len(rows) else np.nan
    return Column(best)


def _sum(values: Any, groups: Groups) -> Column:
    if values.dtype.kind in INTEGERS:
        wide = np.uint64 if values.dtype.kind == "u" else np.int64
        return Column(np.add.reduceat(values.astype(wide), groups.starts))
    return Column(_sum_by_kahan(values, groups)[0])


def _mean(values: Any, groups: Groups) -> Column:
    if values.dtype.kind in INTEGERS:
        values = values.astype(np.float64)
    total, number = _sum_by_kahan(values, groups)
    return Column(np.where(number > 0, total / number.astype(total.dtype), np.nan))


def _var(values: Any, groups: Groups) -> Column:
    """In the values' own width; whole numbers as float64."""
    if values.dtype.kind in INTEGERS:
        values = values.astype(np.float64)
    squares, number = _welford(values, groups)
    divisor = np.maximum(number - 1, 1).astype(values.dtype)
    return Column(np.where(number > 1, squares / divisor, values.dtype.type(np.nan)))


def _std(values: Any, groups: Groups) -> Column:
    return Column(np.sqrt(_var(values.astype(np.float64), groups).values))


def _median(values: Any, groups: Groups) -> Column:
    """The median in float64, answered in the values' own width."""
    wide = values.astype(np.float64)
    present = ~np.isnan(wide)
    group = np.repeat(np.arange(len(groups.starts)), groups.lengths)[present]
    in_order = wide[present]
    wide = in_order[np.lexsort((in_order, group))]
    number = np.bincount(group, minlength=len(groups.starts))
    start = np.cumsum(number) - number
    last = max(len(wide) - 1, 0)
    padded = wide if len(wide) else np.zeros(1)
    above = padded[np.minimum(start + number // 2, last)]
    below = padded[np.clip(start + number // 2 - 1, 0, last)]
    median = np.where(number % 2 == 1, above, (below + above) / 2)
    has_signed = np.bincount(group, (in_order == 0) & np.signbit(in_order), len(number)) > 0
    for group_number in np.flatnonzero((median == 0) & (number > 0) & has_signed):
        median[group_number] = _zero_of(
            in_order[start[group_number] : start[group_number] + number[group_number]]
        )
    median = np.where(number > 0, median, np.nan)
    return Column(median if values.dtype.kind in INTEGERS else median.astype(values.dtype))


def _zero_of(values: Any) -> float:
    """The median that is zero: which of 0.0 and -0.0 depends on how pandas moves equal values."""
    moved, half = values.tolist(), len(values) // 2
    above = _kth_smallest(moved, half)
    return above if len(moved) % 2 else (above + _kth_smallest(moved, half - 1)) / 2


def _kth_smallest(values: list[float], k: int) -> float:
    """Hoare's selection, which moves the values."""
    first, last = 0, len(values) - 1
    while first < last:
        pivot, i, j = values[k], first, last
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if j < k:
            first = i
        if k < i:
            last = j
    return values[k]


def _sum_by_kahan(values: Any, groups: Groups) -> tuple[Any, Any]:
    """Kahan's sums of what is not missing, in the values' own width, and how many those are."""

    def add(state: tuple[Any, ...], value: Any, _: Any) -> tuple[Any, ...]:
        total, lost = state
        corrected = value - lost
        reached = total + corrected
        return reached, reached - total - corrected

    (total, _), number = _fold(values, groups, add)
    return total, number


def _welford(values: Any, groups: Groups) -> tuple[Any, Any]:
    """Welford's sums of squared distances from the mean, and how many values there are."""

    def add(state: tuple[Any, ...], value: Any, number: Any) -> tuple[Any, ...]:
        mean, squares = state
        moved = mean + (value - mean) / number
        return moved, squares + (value - moved) * (value - mean)

    (_, squares), number = _fold(values, groups, add)
    return squares, number


#: The state and the next value, with how many there are by then in the values' type -> the state.
_Add = Callable[[tuple[Any, ...], Any, Any], tuple[Any, ...]]


def _fold(values: Any, groups: Groups, add: _Add) -> tuple[tuple[Any, ...], Any]:
    """A state of two numbers a group, taken through its values in order; and how many those are.

    What is missing is left out. Short groups go side by side, row by row; long ones alone.
    """
    size, own = len(groups.starts), values.dtype
    first, second = np.zeros(size, own), np.zeros(size, own)
    number = np.zeros(size, np.int64)
    long = groups.lengths > _LONG_GROUP
    for item in range(int(groups.lengths[~long].max(initial=0))):
        inside = ~long & (item < groups.lengths)
        value = values[np.where(inside, groups.starts + item, 0)]
        inside &= ~np.isnan(value)
        new_first, new_second = add((first, second), value, (number + 1).astype(own))
        first, second = np.where(inside, new_first, first), np.where(inside, new_second, second)
        number += inside
    for group in np.flatnonzero(long):
        start = groups.starts[group]
        rows = values[start : start + groups.lengths[group]]
        rows = rows[~np.isnan(rows)]
        state: tuple[Any, ...] = (own.type(0), own.type(0))
        # Python's floats are float64 and faster; division by a whole number is the same.
        steps = rows.tolist() if own.itemsize == 8 else rows
        for item, value in enumerate(steps, 1):
            state = add(state, value, item if own.itemsize == 8 else own.type(item))
        first[group], second[group], number[group] = *state, len(rows)
    return (first, second), number


#: Aggregations that look at what is missing, of texts, too.
_OF_COLUMNS: dict[str, Callable[[Column, Groups], Column]] = {
    "first": _first,
    "last": _last,
    "count": _count,
    "nunique": _nunique,
}
_OF_VALUES: dict[str, Callable[[Any, Groups], Column]] = {
    "list": _list,
    "min": _min,
    "max": _max,
    "sum": _sum,
    "mean": _mean,
    "var": _var,
    "std": _std,
    "median": _median,
}
