"""Fills or drops missing values: FillMissing, FillMedian and Dropna."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..casting import put
from ..columns import (
    Column,
    LeftToNVTabular,
    NoRowsLeft,
    RequestError,
    missing_rows,
    take_rows,
)
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
class FillTexts(Operation):
    """A text in the place of those that are missing."""

    name = "fill_texts"
    text: str

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        text = np.bytes_(self.text.encode())

        def fill_texts(column: Column) -> list[Column]:
            return [Column(np.where(missing_rows(column), text, column.values))]

        return fill_texts


@dataclass(frozen=True)
class NoneMissing(Operation):
    """Lists of which no row may be without one."""

    name = "none_missing"
    column: str

    def run(self, column: Column) -> list[Column]:
        if missing_rows(column).any():
            raise RequestError(
                f"column {self.column!r}: a row has no list, since a key of the request is not in "
                "the table that JoinExternal takes it from"
            )
        return [Column(column.values, column.offsets)]


@dataclass(frozen=True)
class NoneLeft(Operation):
    """Texts of which none may be missing: NVTabular answers a request otherwise."""

    name = "none_left"
    column: str

    def run(self, column: Column) -> list[Column]:
        if missing_rows(column).any():
            raise LeftToNVTabular(
                f"column {self.column!r}: an operator that is not compiled for missing texts is "
                "given some"
            )
        return [Column(column.values)]


@dataclass(frozen=True)
class IsMissing(Operation):
    """Where NaN is: the `_filled` columns."""

    name = "is_missing"

    def run(self, column: Column) -> list[Column]:
        return [Column(missing_rows(column))]


@dataclass(frozen=True)
class DropMissing(Operation):
    """The rows without NaN."""

    name = "drop_missing"
    #: How many columns decide, counted from the first.
    watched: int

    def run(self, *columns: Column) -> list[Column]:
        whole = np.ones(columns[0].rows, bool)
        for column in columns[: self.watched]:
            whole &= ~missing_rows(column)
        if not whole.any():
            raise NoRowsLeft(
                "every row has a missing value, so that Dropna leaves none; NVTabular gives the "
                "operators after it the request's own rows"
            )
        return [take_rows(column, whole) for column in columns]
