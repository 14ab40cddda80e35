"""What becomes of missing values: FillMissing, FillMedian and Dropna."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..casting import put
from ..columns import Column, NoRowsLeft, missing_rows, take_rows
from ..lookups import Lookup
from ..records import Number, number_of
from .operation import Operation, Transform


@dataclass(frozen=True)
class Fill(Operation):
    """A value in the place of NaN."""

    name = "fill"
    value: Number

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        value = number_of(self.value)

        def fill(column: Column) -> list[Column]:
            if column.offsets is not None or column.values.dtype.kind != "f":
                return [column]
            return [Column(put(column.values, missing_rows(column), value))]

        return fill


@dataclass(frozen=True)
class IsMissing(Operation):
    """Where NaN is: the `_filled` columns."""

    name = "is_missing"

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        return lambda column: [Column(missing_rows(column))]


@dataclass(frozen=True)
class DropMissing(Operation):
    """The rows without NaN. watched: so many columns decide, the first ones."""

    name = "drop_missing"
    watched: int

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        watched = self.watched

        def drop_missing(*columns: Column) -> list[Column]:
            kept = np.ones(columns[0].rows, bool)
            for column in columns[:watched]:
                kept &= ~missing_rows(column)
            if not kept.any():
                raise NoRowsLeft(
                    "every row has a missing value, so that Dropna leaves none; NVTabular gives "
                    "the operators after it the request's own rows"
                )
            return [take_rows(column, kept) for column in columns]

        return drop_missing
