"""The order of rows that numpy 1 sorts by one column, whichever numpy runs this.

pandas sorts by np.argsort's quicksort, which leaves equal values in an order that comes of how it
goes about it. From 1.25 on numpy goes about it in another way, and on each processor in its own
(AVX-512, AVX2), so that rows with equal values come in another order than NVTabular's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Up to so many rows are sorted by insertion, which is stable.
_SHORT = 16
_SORTS_ITSELF = tuple(int(part) for part in np.__version__.split(".")[:2]) < (1, 25)


def argsort(values: Any) -> Any:
    """np.argsort(values, kind="quicksort") of numpy before 1.25; values: without NaN, shape (n,).

    Where a long column has equal values the algorithm is carried out here: 1 ms for 300 rows.
    """
    if len(values) <= _SHORT:
        return values.argsort(kind="stable")
    order = values.argsort(kind="quicksort")
    if _SORTS_ITSELF:
        return order
    ordered = values[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    return np.array(_sort(values.tolist()), order.dtype)


def _sort(values: list[Any]) -> list[int]:
    """Introsort: by partitions, by a heap where those are too uneven, short ones by insertion."""
    order = list(range(len(values)))
    waiting = [(0, len(values) - 1, 2 * (len(values).bit_length() - 1))]
    while waiting:
        low, high, depth = waiting.pop()
        if depth < 0:
            order[low : high + 1] = _sort_by_heap(values, order[low : high + 1])
            continue
        while high - low >= _SHORT:
            middle = _partition(values, order, low, high)
            depth -= 1
            if middle - low < high - middle:
                waiting.append((middle + 1, high, depth))
                high = middle - 1
            else:
                waiting.append((low, middle - 1, depth))
                low = middle + 1
        order[low : high + 1] = sorted(order[low : high + 1], key=values.__getitem__)
    return order


def _partition(values: list[Any], order: list[int], low: int, high: int) -> int:
    """Smaller values before larger ones, around the median of three; its index."""
    middle = low + (high - low) // 2
    for first, other in ((middle, low), (high, middle), (middle, low)):
        if values[order[first]] < values[order[other]]:
            order[first], order[other] = order[other], order[first]
    pivot = values[order[middle]]
    left, right = low, high - 1
    order[middle], order[right] = order[right], order[middle]
    while True:
        left += 1
        while values[order[left]] < pivot:
            left += 1
        right -= 1
        while pivot < values[order[right]]:
            right -= 1
        if left >= right:
            break
        order[left], order[right] = order[right], order[left]
    order[left], order[high - 1] = order[high - 1], order[left]
    return left


def _sort_by_heap(values: list[Any], rows: list[int]) -> list[int]:
    size = len(rows)
    for top in range(size // 2 - 1, -1, -1):
        _sift(values, rows, top, size)
    for end in range(size - 1, 0, -1):
        row, rows[end] = rows[end], rows[0]
        rows[0] = row
        _sift(values, rows, 0, end)
    return rows


def _sift(values: list[Any], rows: list[int], top: int, size: int) -> None:
    """Bring the row at the top to where none below it is larger; below `size`."""
    row = rows[top]
    child = 2 * top + 1
    while child < size:
        if child + 1 < size and values[rows[child]] < values[rows[child + 1]]:
            child += 1
        if not values[row] < values[rows[child]]:
            break
        rows[top] = rows[child]
        top, child = child, 2 * child + 1
    rows[top] = row
