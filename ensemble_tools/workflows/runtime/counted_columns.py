"""The columns whose values are counted, and how the notes of many requests become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .counter_file import Sums
from .feature_counts import PLACES
from .lookups import Lookup

#: The squares of larger numbers soon have no finite sum.
_LARGEST = 1e100


@dataclass
class CountedColumn:
    """A column, and what the workflow was fitted to."""

    column: str
    #: Its place in the file.
    number: int
    mean: float | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    has_places: bool = False
    places: tuple[int, ...] = ()
    #: What of it is counted: each by one watcher alone.
    kinds: set[str] = field(default_factory=set)

    def begin(self, kind: str) -> bool:
        """Whether nobody counts that of it yet; from now on somebody does."""
        is_new = kind not in self.kinds
        self.kinds.add(kind)
        return is_new

    def to_json(self) -> dict[str, Any]:
        """Its part of the file's header."""
        names = ("column", "mean", "std", "low", "high", "has_places", "places")
        return {name: getattr(self, name) for name in names}


class Numbers:
    """Counts values that come: nulls, sums, those beyond a range.

    Its note of a request has the values, or how many there are where that is enough.
    """

    def __init__(self, column: CountedColumn) -> None:
        self.column, self._has_values = column, column.begin("values")
        #: Of Normalize, and of NormalizeMinMax.
        self._has_sums = self._has_range = False
        #: Whether integers are noted too, which cannot be null.
        self.needs_values = False

    def count_sums(self, mean: float, std: float) -> None:
        """Count what Normalize is given."""
        self._has_sums = self.needs_values = True
        self.column.mean, self.column.std = mean, std

    def count_outside(self, low: float, high: float) -> None:
        """Count what NormalizeMinMax was not fitted to."""
        self._has_range = self.needs_values = True
        self.column.low, self.column.high = low, high

    def add(self, sums: Sums, weight: int, notes: Sequence[Any]) -> None:
        """Add to the column's numbers. notes: of many requests."""
        column = self.column
        if {*map(type, notes)} == {int}:
            sums.add_values(column.number, weight, sum(notes), 0)
            return
        arrays = [note for note in notes if not isinstance(note, int)]
        others = sum(note for note in notes if isinstance(note, int))
        values = np.concatenate([*arrays, np.zeros(0)])
        if self._has_values:
            nulls = int(np.count_nonzero(np.isnan(values)))
            sums.add_values(column.number, weight, others + len(values), nulls)
        if self._has_sums:
            finite = values[np.abs(values) < _LARGEST]
            squares = np.dot(finite, finite)
            sums.add(column.number, weight, finite=len(finite))
            sums.add(column.number, weight, sum=finite.sum(), sum_of_squares=squares)
        if self._has_range:
            outside = np.count_nonzero((values < column.low) | (values > column.high))
            sums.add(column.number, weight, outside=outside)


class Keys:
    """Counts values that are looked up.

    Its note of a request: which the table has, their rows in it, and which are null. folds: of
    TargetEncoding, whose table has them as its first key; a value that it has in another fold is
    known as well, and the note has the values instead of their rows.
    """

    def __init__(self, column: CountedColumn, table: Lookup, folds: int) -> None:
        self.column, self._has_values = column, column.begin("values")
        self._table, self._folds = table, folds

    def add(self, sums: Sums, weight: int, notes: Sequence[Any]) -> None:
        """Add to the column's numbers. notes: of many requests."""
        found, rows, masks = zip(*notes, strict=True)
        is_known = np.concatenate(found)
        if self._folds > 1:
            columns = [np.concatenate(values) for values in zip(*rows, strict=True)]
            self._find_in_folds(is_known, columns)
        nulls = 0
        if any(mask is not None for mask in masks):
            is_null = np.concatenate(
                [
                    np.zeros(len(known), bool) if mask is None else mask
                    for known, mask in zip(found, masks, strict=True)
                ]
            )
            nulls = np.count_nonzero(is_null)
            is_known &= ~is_null
        column, values = self.column, len(is_known)
        if self._has_values:
            sums.add_values(column.number, weight, values, nulls)
        sums.add(column.number, weight, unseen=values - nulls - np.count_nonzero(is_known))
        if column.has_places:
            inside = np.concatenate(rows)[is_known]
            sums.add_places(column.number, weight, self._table.find_buckets(inside, PLACES))

    def _find_in_folds(self, is_known: Any, keys: list[Any]) -> None:
        """Mark what is known in any fold."""
        rest = np.flatnonzero(~is_known)
        for fold in range(self._folds):
            hit, _ = self._table.find([np.full(len(rest), fold), *(it[rest] for it in keys)])
            is_known[rest] |= hit
