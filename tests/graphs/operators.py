"""Inline operators of a user's own: their classes travel inside the export, pickled by value."""

from __future__ import annotations

from typing import Any

import numpy as np
from merlin.dag import BaseOperator, ColumnSelector
from merlin.schema import ColumnSchema, Schema
from merlin.table import TensorTable


class Scale(BaseOperator):  # type: ignore[misc]  # merlin has no types in the checker's environment
    """Every column times a factor; types and forms stay."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def transform(self, col_selector: ColumnSelector, transformable: Any) -> Any:
        scaled = {}
        for name, array in transformable.to_dict().items():
            kept = name.endswith("__offsets") or array.dtype == np.object_
            scaled[name] = array if kept else (array * self.factor).astype(array.dtype)
        return TensorTable(scaled)


class RowSum(BaseOperator):  # type: ignore[misc]  # merlin has no types in the checker's environment
    """One float64 a row beside the columns: the sum over all that are numbers, ragged ones too."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def compute_output_schema(
        self, input_schema: Schema, col_selector: ColumnSelector, prev_output_schema: Any = None
    ) -> Schema:
        return Schema([*input_schema, ColumnSchema(self.name, dtype="float64", dims=(None,))])

    def transform(self, col_selector: ColumnSelector, transformable: Any) -> Any:
        total: Any = 0.0
        for column in transformable.values():
            if column.values.dtype == np.object_:
                continue
            if column.offsets is None:
                inner = tuple(range(1, column.values.ndim))
                rows = column.values.astype("float64").sum(axis=inner)
            else:
                running = np.concatenate([[0.0], np.cumsum(column.values.astype("float64"))])
                rows = running[column.offsets[1:]] - running[column.offsets[:-1]]
            total = total + rows
        tensors = transformable.to_dict()
        return TensorTable({**tensors, self.name: np.asarray(total, dtype="float64")})


class Reverse(BaseOperator):  # type: ignore[misc]  # merlin has no types in the checker's environment
    """The rows from last to first, scalars and fixed lists alone; answers what it declares wrongly.

    Its output is float64 whatever the schema says: Merlin casts where it next looks.
    """

    def transform(self, col_selector: ColumnSelector, transformable: Any) -> Any:
        return TensorTable(
            {
                name: np.ascontiguousarray(array[::-1]).astype("float64")
                for name, array in transformable.to_dict().items()
            }
        )
