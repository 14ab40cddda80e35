"""Columns of one request: arrays in the place of pandas' series.

Numbers and booleans have the types that the request, or the step before, gave them. Strings are
bytes of one width (numpy's `S`), UTF-8: what NVTabular reads is ASCII, and numpy drops zeros at the
end of both kinds of text alike; what functions and tables have ends with none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

#: Signed and unsigned integers, by numpy's letters.
INTEGERS = "iu"
_INT64_MAX = np.uint64(2**63 - 1)


class RequestError(Exception):
    """The request cannot be answered; the message names the column."""


class LeftToNVTabular(RequestError):
    """An operator in pandas did what the program does not foresee; the request may be right."""


class TableChanged(LeftToNVTabular):
    """An operator changed what later requests read, which NVTabular's have changed from then on."""


class NoRowsMade(LeftToNVTabular):
    """An operator made no rows: those after it would get the request's own, as they came."""


class RefusedByDesign(RequestError):
    """NVTabular answers it, with numbers that nobody can have meant; the message says which."""

    #: How the message begins, for those who get no more than the message.
    BEGINNING = "refused by design: "

    def __init__(self, message: str) -> None:
        super().__init__(f"{self.BEGINNING}{message}")


class NoRowsLeft(RefusedByDesign):
    """An operator leaves no rows: those after it would get the request's own, as they came."""


class Column:
    """One value a row; or, with offsets, one list a row.

    values: shape (rows,), or (all items of all lists,). offsets: int64, shape (rows + 1,), from 0
    to the number of items. missing: a mask of the rows in which pandas has no text or no list, None
    for a column that has all of them. Among the values is then the text that is answered, or no
    item.
    """

    __slots__ = ("missing", "offsets", "values")

    def __init__(self, values: Any, offsets: Any = None, missing: Any = None) -> None:
        self.values, self.offsets, self.missing = values, offsets, missing

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.values if self.offsets is None else self.offsets) - (
            self.offsets is not None
        )


def widen(values: Any) -> Any:
    """Numbers as they come out of Python's lists, in which pandas knows no narrower types.

    Whole ones are unsigned only where one is beyond int64.
    """
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    if values.dtype == np.uint64 and (values > _INT64_MAX).any():
        return values
    return values.astype(np.int64, copy=False) if values.dtype.kind in INTEGERS else values


def widen_index(values: Any) -> Any:
    """Numbers as an index of pandas holds them, which has no narrower types either."""
    return values.astype(np.uint64) if values.dtype.kind == "u" else widen(values)


def distinct(values: Any) -> Any:
    """Values as pandas tells them apart when it numbers them; other than texts come as they are.

    It looks at a text up to its first zero, and takes for all that are alike the first of them.
    """
    if values.dtype.kind != "S" or not len(values):
        return values
    letters = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1) != 0
    if (letters[:, 1:] <= letters[:, :-1]).all():  # no zero has a letter after it
        return values
    cut = np.array([text.partition(b"\0")[0] for text in values.tolist()])
    _, first, rank = np.unique(cut, return_index=True, return_inverse=True)
    return values[first][rank.reshape(-1)]


def missing_rows(column: Column) -> Any:
    """A mask of the rows with NaN, or NaT; types that have none miss nothing."""
    if column.missing is not None:
        return column.missing
    if column.offsets is None and column.values.dtype.kind in "fM":
        return np.isnan(column.values)
    return np.zeros(column.rows, bool)


def all_missing(columns: Sequence[Column]) -> Any:
    """A mask of the values, or items, that are missing in every column; None where none can be."""
    masks = []
    for column in columns:
        if column.offsets is None and column.missing is not None:
            masks.append(column.missing)
        elif column.values.dtype.kind in "fM":
            masks.append(np.isnan(column.values))
        else:
            return None
    return reduce(np.logical_and, masks)


def take_rows(column: Column, rows: Any) -> Column:
    """Some of its rows, in their order. rows: their numbers, or a mask over all."""
    missing = None if column.missing is None else column.missing[rows]
    if column.offsets is None:
        return Column(column.values[rows], None, missing)
    if rows.dtype.kind == "b":
        rows = np.flatnonzero(rows)
    starts, lengths = column.offsets[rows], np.diff(column.offsets)[rows]
    return Column(column.values[ranges(starts, lengths)], offsets_of(lengths), missing)


def ranges(starts: Any, lengths: Any) -> Any:
    """starts[0], starts[0] + 1, ..., lengths[0] of them; then those of starts[1], and so on."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)


def offsets_of(lengths: Any) -> Any:
    """Lengths of rows -> where each begins, and the end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
