"""Operations of compiled workflows, done to columns in small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ensemble_tools.workflows.runtime.columns import Column, offsets_of
from ensemble_tools.workflows.runtime.operations.operation import Operation


def done(operation: Operation, *columns: Any, tables: Sequence[Any] = ()) -> list[Column]:
    """What it makes of columns, or of arrays of one value a row."""
    read = [
        column if isinstance(column, Column) else Column(np.asarray(column)) for column in columns
    ]
    with np.errstate(all="ignore"):  # as LoadedProgram.run has it
        return operation.prepare(tables)(*read)


def lists(*rows: list[int]) -> Column:
    """A column with one list a row."""
    return Column(
        np.array([item for row in rows for item in row]),
        offsets_of(np.array([len(row) for row in rows])),
    )


def rows_of(column: Column) -> list[list[Any]]:
    """The lists again."""
    return [
        column.values[start:end].tolist()
        for start, end in zip(column.offsets[:-1], column.offsets[1:], strict=True)
    ]
