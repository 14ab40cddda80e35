"""Categories to smoothed means of the targets: TargetEncoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import Column
from ..lookups import Lookup
from .operation import Operation, Transform


@dataclass(frozen=True)
class TargetEncode(Operation):
    """A table's means of a category, or the mean of all where it has none.

    With folds each row is in one, by its number in the request or at random with a fixed seed, and
    gets the mean of the others. Makes one column a target, then the folds if it keeps them.
    """

    name = "target_encode"
    #: The table's number.
    table: int
    #: Each target's mean.
    means: tuple[int | float, ...]
    folds: int
    #: The seed of the folds, None for folds by number.
    seed: int | None
    #: The type that each target's column is cast to.
    dtypes: tuple[str, ...]
    keeps: bool

    def prepare(self, tables: Sequence[Lookup]) -> Transform:
        table = tables[self.table]
        if self.seed is not None:
            np.random.RandomState(self.seed)  # imported at the load, not at the first request

        def encode(*columns: Column) -> list[Column]:
            keys = [column.values for column in columns]
            if self.folds > 1:
                keys.insert(0, self._folds(columns[0].rows))
            is_known, rows = table.find(keys)
            encoded = []
            for target, mean in enumerate(self.means):
                values = np.where(is_known, table.beside(str(target), rows), np.nan)
                values = np.where(np.isnan(values), mean, values)
                for dtype in self.dtypes:
                    values = values.astype(dtype)
                encoded.append(Column(values))
            return [*encoded, Column(keys[0])] if self.keeps else encoded

        return encode

    def _folds(self, rows: int) -> Any:
        dtype = np.min_scalar_type(self.folds * 2)
        if self.seed is None:
            return np.mod(np.arange(rows, dtype=dtype), self.folds)
        return np.random.RandomState(self.seed).choice(np.arange(self.folds, dtype=dtype), rows)
