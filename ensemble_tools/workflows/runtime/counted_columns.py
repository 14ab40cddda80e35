"""The columns whose values are counted, and how the notes of many requests become numbers.

What is counted alike is noted together: columns of equally many values are the rows of one matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .columns import Column, all_missing
from .counter_file import Sums
from .feature_counts import BUCKETS
from .lookups import Lookup, bucket_labels

#: The squares of larger numbers soon have no finite sum.
_LARGEST = 1e100
#: Values that are counted at once, which takes several times their memory.
_AT_ONCE = 2**15


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
    has_buckets: bool = False
    buckets: tuple[int, ...] = ()
    #: What of it is counted: each by one watcher alone.
    kinds: set[str] = field(default_factory=set)

    def begin(self, kind: str) -> bool:
        """Whether nobody counts that of it yet; from now on somebody does."""
        is_new = kind not in self.kinds
        self.kinds.add(kind)
        return is_new

    def to_json(self) -> dict[str, Any]:
        """Its part of the file's header."""
        names = ("column", "mean", "std", "low", "high", "has_buckets", "buckets")
        written = {name: getattr(self, name) for name in names}
        return {**written, "has_keys": "keys" in self.kinds}


@dataclass(frozen=True)
class Register:
    """A register whose values are counted as those of a column."""

    register: int
    column: CountedColumn
    #: Of labels: that of a null, the least and the first of the vocabulary, and how many it has.
    null: int = 0
    least: int = 0
    first: int = 0
    size: int = 1
    #: Whether the column's values and nulls are those that are counted here.
    has_values: bool = False


class Matrix:
    """Registers whose values are counted alike, all of one length."""

    def __init__(self, registers: Sequence[Register]) -> None:
        self._registers = [it.register for it in registers]
        self._numbers = np.array([it.column.number for it in registers])
        self._has_values = np.array([it.has_values for it in registers])

    def note(self, columns: Sequence[Column]) -> Any:
        """The values of one request, copied."""
        arrays = [columns[register].values for register in self._registers]
        note = np.concatenate(arrays)
        if len(note) != len(arrays) * len(arrays[0]):
            raise ValueError("columns that had equally many values have not")
        return note

    def add(self, sums: Sums, weight: int, notes: Sequence[Any]) -> None:
        """Add to the columns' numbers. notes: of many requests."""
        matrices = [note.reshape(len(self._registers), -1) for note in notes]
        matrix = np.concatenate(matrices, axis=1) if len(matrices) > 1 else matrices[0]
        width = max(1, _AT_ONCE // len(matrix))
        for start in range(0, matrix.shape[1], width):
            self._add(sums, weight, matrix[:, start : start + width])

    def _add(self, sums: Sums, weight: int, values: Any) -> None:
        """Add values to the columns' numbers: a row of them for each register."""
        raise NotImplementedError

    def _add_values(self, sums: Sums, weight: int, is_null: Any) -> None:
        """Add how many values, and how many nulls, columns have that count theirs here."""
        own, count = self._has_values, is_null.shape[1]
        if own.any():
            sums.add(self._numbers[own], counted=count, values=weight * count)
            sums.add(self._numbers[own], nulls=weight * is_null[own].sum(axis=1))


class Nulls(Matrix):
    """Floats of a request, and the nulls among them; of other values there are only so many."""

    def _add(self, sums: Sums, weight: int, values: Any) -> None:
        nulls = np.isnan(values).sum(axis=1)
        sums.add(self._numbers, nulls=weight * nulls)


class Normalized(Matrix):
    """Numbers that Normalize is given."""

    def _add(self, sums: Sums, weight: int, values: Any) -> None:
        values = values.astype(np.float64)
        self._add_values(sums, weight, np.isnan(values))
        is_finite = np.abs(values) < _LARGEST
        values[~is_finite] = 0
        squares = np.einsum("ij,ij->i", values, values)
        sums.add(self._numbers, finite=weight * is_finite.sum(axis=1))
        sums.add(self._numbers, sum=weight * values.sum(axis=1), sum_of_squares=weight * squares)


class Scaled(Matrix):
    """Numbers that NormalizeMinMax is given."""

    def __init__(self, registers: Sequence[Register]) -> None:
        super().__init__(registers)
        self._low, self._high = (
            np.array([[getattr(it.column, name)] for it in registers]) for name in ("low", "high")
        )

    def _add(self, sums: Sums, weight: int, values: Any) -> None:
        self._add_values(sums, weight, np.isnan(values))
        is_outside = (values < self._low) | (values > self._high)
        sums.add(self._numbers, outside=weight * is_outside.sum(axis=1))


class Labels(Matrix):
    """Labels that Categorify has made: nulls and unseen values have labels of their own."""

    def __init__(self, registers: Sequence[Register]) -> None:
        super().__init__(registers)
        self._null, self._least, self._first, self._size = (
            np.array([[getattr(it, name)] for it in registers], np.int64)
            for name in ("null", "least", "first", "size")
        )

    def _add(self, sums: Sums, weight: int, values: Any) -> None:
        labels = values.astype(np.int64)
        is_null, is_known = labels == self._null, labels >= self._least
        self._add_values(sums, weight, is_null)
        unseen = (~is_null & ~is_known).sum(axis=1)
        sums.add(self._numbers, unseen=weight * unseen)
        numbers = bucket_labels(labels, self._first, self._size, BUCKETS)
        numbers += np.arange(len(labels))[:, None] * BUCKETS
        buckets = np.bincount(numbers[is_known], minlength=len(labels) * BUCKETS)
        sums.add_buckets(self._numbers, weight * buckets.reshape(-1, BUCKETS))


class Lengths:
    """How many values the request's columns have."""

    def __init__(self, columns: Sequence[CountedColumn]) -> None:
        self._numbers = np.array([column.number for column in columns])

    def note(self, columns: Sequence[Column]) -> Any:
        """Those of one request, whose columns are the first registers."""
        return [len(column.values) for column in columns[: len(self._numbers)]]

    def add(self, sums: Sums, weight: int, notes: Sequence[Any]) -> None:
        """Add to the columns' numbers. notes: of many requests."""
        values = np.array(notes).sum(axis=0)
        sums.add(self._numbers, counted=values, values=weight * values)


class KeepingLookup(Lookup):
    """A table that keeps what it has found last, or which rows, and the keys behind the first."""

    def __init__(self, table: Lookup, keeps_keys: bool) -> None:
        self.__dict__.update(table.__dict__)
        self._find, self._keeps_keys = table.find, keeps_keys
        self.found: Any = None

    def find(self, columns: list[Any]) -> tuple[Any, Any]:
        found = self.found = self._find(columns)
        if self._keeps_keys:
            self.found = found[0], [values.copy() for values in columns[1:]]
        return found


class Keys:
    """Values that a table is asked for, where no label says whether it has them.

    folds: of TargetEncoding, whose table has them as its first key; a value that it has in another
    fold is known as well.
    """

    def __init__(
        self, column: CountedColumn, table: Lookup, reads: Sequence[int], folds: int
    ) -> None:
        self._number, self._has_values = np.array([column.number]), column.begin("values")
        self._has_buckets = column.has_buckets
        self._table, self._reads, self._folds = table, reads, folds
        self.lookup = KeepingLookup(table, keeps_keys=folds > 1)

    def note(self, columns: Sequence[Column]) -> Any:
        """Which were found and where, or of folds the keys; and which are null."""
        return (*self.lookup.found, all_missing([columns[register] for register in self._reads]))

    def add(self, sums: Sums, weight: int, notes: Sequence[Any]) -> None:
        """Add to the column's numbers. notes: of many requests."""
        found, rows, masks = zip(*notes, strict=True)
        is_known = np.concatenate(found)
        if self._folds > 1:
            columns = [np.concatenate(values) for values in zip(*rows, strict=True)]
            self._find_in_folds(is_known, columns)
        is_null = np.concatenate(
            [
                np.zeros(len(known), bool) if mask is None else mask
                for known, mask in zip(found, masks, strict=True)
            ]
        )
        is_known &= ~is_null
        values, nulls = len(is_known), np.count_nonzero(is_null)
        if self._has_values:
            sums.add(self._number, counted=values, values=weight * values, nulls=weight * nulls)
        unseen = values - nulls - np.count_nonzero(is_known)
        sums.add(self._number, unseen=weight * unseen)
        if self._has_buckets:
            numbers = self._table.find_buckets(np.concatenate(rows)[is_known], BUCKETS)
            sums.add_buckets(self._number, weight * np.bincount(numbers, minlength=BUCKETS))

    def _find_in_folds(self, is_known: Any, keys: list[Any]) -> None:
        """Mark what is known in any fold."""
        rest = np.flatnonzero(~is_known)
        for fold in range(self._folds):
            hit, _ = self._table.find([np.full(len(rest), fold), *(it[rest] for it in keys)])
            is_known[rest] |= hit
