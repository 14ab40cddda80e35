"""Joins a table's columns by a key: JoinGroupby and JoinExternal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import INTEGERS, Column, RequestError, missing_rows, offsets_of, ranges
from ..lookups import Lookup
from .operation import Operation, Transform

#: What merlin-systems answers for NaN in a column of texts, whose rows pandas has as missing.
MISSING_TEXT = b"nan"


@dataclass(frozen=True)
class Join(Operation):
    """The columns beside the keys in a table, NaN where the keys are not in it, also as a text."""

    name = "join"
    #: The table's number.
    table: int
    #: The names of what stands beside, and the type that each is cast to, None for its own.
    wanted: tuple[tuple[str, str | None], ...]
    #: The names of the keys.
    columns: tuple[str, ...]

    def prepare(self, tables: Sequence[Lookup]) -> Transform:
        table = tables[self.table]

        def join(*columns: Column) -> list[Column]:
            is_known, rows = table.find([column.values for column in columns])
            for column in columns:
                if column.missing is not None:
                    is_known = is_known & ~column.missing
            return [
                self._of_rows(name, dtype, table.column(name, rows), is_known)
                for name, dtype in self.wanted
            ]

        return join

    def _of_rows(self, name: str, dtype: str | None, column: Column, is_known: Any) -> Column:
        if column.offsets is not None:
            return column if is_known.all() else _without_lists(column, ~is_known)
        if column.values.dtype.kind == "S":
            return column if is_known.all() else _without_texts(column, ~is_known)
        return Column(self._statistic(name, dtype, column.values, is_known))

    def _statistic(self, name: str, dtype: str | None, values: Any, is_known: Any) -> Any:
        if not is_known.all():
            if values.dtype.kind in INTEGERS:
                values = values.astype(np.float64)
            values = np.where(is_known, values, values.dtype.type(np.nan))
        if dtype is None:
            return values
        whole = np.dtype(dtype).kind in INTEGERS and values.dtype.kind == "f"
        if whole and not np.isfinite(values).all():
            raise RequestError(
                f"column {', '.join(map(repr, self.columns))}: a value was not seen when the "
                f"workflow was fitted, and has no {name!r}"
            )
        return values.astype(dtype)


def _without_texts(column: Column, rows: Any) -> Column:
    """The texts, missing in those rows, too."""
    return Column(np.where(rows, MISSING_TEXT, column.values), None, missing_rows(column) | rows)


def _without_lists(column: Column, rows: Any) -> Column:
    """The lists, missing in those rows, too."""
    lengths = np.where(rows, 0, np.diff(column.offsets))
    values = column.values[ranges(column.offsets[:-1], lengths)]
    return Column(values, offsets_of(lengths), missing_rows(column) | rows)
