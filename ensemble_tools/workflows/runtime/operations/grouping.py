"""Rows that belong together by their keys: Groupby and DifferenceLag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..casting import Caster
from ..columns import INTEGERS, Column, widen_index
from ..grouping import aggregate, group_keys, group_rows, sort_rows
from ..lookups import Lookup
from .operation import Operation, Transform


@dataclass(frozen=True)
class Group(Operation):
    """One row for each key.

    Reads the columns of the key, then those that rows are sorted by, then those that are
    aggregated. Makes the keys in their widest type, then each aggregation.
    """

    name = "group"
    #: How many columns are the key.
    keys: int
    #: How many columns the rows are sorted by.
    sorts: int
    ascending: bool
    #: The number of the column among the aggregated ones, and what is done to it.
    aggregations: tuple[tuple[int, str], ...]
    #: The type that each column that is made is cast to, None for its own.
    casts: tuple[str | None, ...]
    #: The names of the columns that are made.
    names: tuple[str, ...]

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        casters = [
            None if dtype is None else Caster(dtype, name)
            for name, dtype in zip(self.names, self.casts, strict=True)
        ]

        def group(*columns: Column) -> list[Column]:
            return [
                column if caster is None else Column(caster.cast(column.values))
                for column, caster in zip(self._grouped(columns), casters, strict=True)
            ]

        return group

    def _grouped(self, columns: Sequence[Column]) -> list[Column]:
        """The keys and the aggregations, before casts."""
        keys = list(columns[: self.keys])
        sort_by = list(columns[self.keys : self.keys + self.sorts])
        values = columns[self.keys + self.sorts :]
        order = sort_rows(sort_by, self.ascending) if sort_by else np.arange(columns[0].rows)
        groups = group_rows(keys, order)
        return [
            *(Column(widen_index(group_keys(key, order, groups))) for key in keys),
            *(aggregate(name, values[number], groups) for number, name in self.aggregations),
        ]


@dataclass(frozen=True)
class DifferenceLag(Operation):
    """The difference to the row `shift` before, where that is of the same partition.

    The first column is the one that is compared, those after it are the partition's.
    """

    name = "difference_lag"
    shift: int

    def run(self, column: Column, *partition: Column) -> list[Column]:
        rows = column.rows
        here, there = _shifted(self.shift, rows)
        inside = np.zeros(rows, bool)
        inside[here] = True
        for part in partition:
            # A shifted column has missing values.
            values = _with_room_for_nan(part.values) if self.shift else part.values
            inside[here] &= values[here] == values[there]
        values = _with_room_for_nan(column.values)
        differences = np.full(rows, np.nan, values.dtype)
        differences[here] = values[here] - values[there]
        return [Column(np.where(inside, differences, np.nan).astype(np.float32))]


def _with_room_for_nan(values: Any) -> Any:
    return values.astype(np.float64) if values.dtype.kind in INTEGERS else values


def _shifted(shift: int, rows: int) -> tuple[slice, slice]:
    """The rows that have another one `shift` before them, and those others."""
    size = min(abs(shift), rows)
    if shift >= 0:
        return slice(size, rows), slice(0, rows - size)
    return slice(0, rows - size), slice(size, rows)
