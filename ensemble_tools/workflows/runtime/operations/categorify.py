"""Values to labels of categories: Categorify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import Column, RequestError, missing_rows
from ..hashing import hash_crossed_rows
from ..lookups import Lookup
from .operation import Operation, Transform


@dataclass(frozen=True)
class Categorify(Operation):
    """Labels of one column's values, or of those of a combination."""

    name = "categorify"
    #: The number of the table with the labels.
    table: int
    #: The label of missing values, None for the table's first. The next label is that of unseen
    #: values, or the first of the buckets that they are hashed to.
    null: int | None
    buckets: int | None
    dtype: str
    #: The columns' names.
    columns: tuple[str, ...]

    def prepare(self, tables: Sequence[Lookup]) -> Transform:
        table, dtype = tables[self.table], np.dtype(self.dtype)
        null = table.first("label") if self.null is None else self.null
        unseen = null + 1

        def categorify(*columns: Column) -> list[Column]:
            nulls = _nulls(self.columns, columns)
            is_known, rows = table.find([column.values for column in columns])
            others = unseen
            if self.buckets:
                buckets = hash_crossed_rows(columns) % np.uint64(self.buckets)
                others = buckets.astype(np.int64) + unseen
            labels = np.where(is_known, table.beside("label", rows), others)
            if nulls is not None:
                labels[nulls] = null
            return [Column(labels.astype(dtype), columns[0].offsets)]

        return categorify


def _nulls(names: Sequence[str], columns: Sequence[Column]) -> Any:
    """A mask of the rows in which every column is missing; None for none, and for lists."""
    if columns[0].offsets is not None:
        return None
    nulls = np.ones(columns[0].rows, bool)
    for name, column in zip(names, columns, strict=True):
        missing = missing_rows(column)
        has_gaps = column.missing is not None or column.values.dtype.kind == "f"
        if has_gaps and missing.all():
            raise RequestError(
                f"column {name!r}: every value is missing, which Categorify cannot encode"
            )
        nulls &= missing
    return nulls
