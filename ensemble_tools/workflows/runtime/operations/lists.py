"""Parts of lists: ListSlice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import INTEGERS, Column, offsets_of, ranges
from ..lookups import Lookup
from ..records import Number, number_of
from .operation import Operation, Transform


@dataclass(frozen=True)
class SliceLists(Operation):
    """A part of each list, from start to end, which are bounds as in Python.

    Makes floats of whole numbers where a list is filled up, since that is what Python's lists hold
    then.
    """

    name = "list_slice"
    start: int
    end: int
    #: The length that lists are filled up to, None to leave them.
    length: int | None
    fill: Number

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        fill = number_of(self.fill)

        def slice_lists(column: Column) -> list[Column]:
            lengths = np.diff(column.offsets)
            first, last = _within(self.start, lengths), _within(self.end, lengths)
            lengths_left = np.maximum(last - first, 0)
            values = column.values[ranges(column.offsets[:-1] + first, lengths_left)]
            if self.length is None or not (lengths_left < self.length).any():
                return [Column(values, offsets_of(lengths_left))]
            return [_filled_up(values, lengths_left, self.length, fill)]

        return slice_lists


def _filled_up(values: Any, lengths: Any, length: int, fill: Any) -> Column:
    """Lists with that value at their end, as long as they have fewer items than `length`."""
    if values.dtype.kind in INTEGERS:
        values = values.astype(np.int64)
    offsets = offsets_of(np.maximum(lengths, length))
    filled = np.full(offsets[-1], fill, np.result_type(values.dtype, type(fill)))
    filled[ranges(offsets[:-1], lengths)] = values
    return Column(filled, offsets)


def _within(bound: int, lengths: Any) -> Any:
    """A slice's bound as an index of each list."""
    if bound < 0:
        return np.maximum(lengths + bound, 0)
    return np.minimum(lengths, bound)
