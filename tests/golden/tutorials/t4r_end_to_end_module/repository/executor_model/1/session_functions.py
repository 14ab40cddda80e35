"""What a team keeps of the tutorial's functions in a module of its own, beside `model.py`."""

from __future__ import annotations

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.dag import ColumnSelector
from merlin.schema import Schema

SECONDS_PER_DAY = 60 * 60 * 24
SHORTEST = 2


class ItemRecency(nvt.ops.Operator):  # type: ignore[misc]  # nvtabular has no types
    """For how many days an item has been there."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self.first = first

    def transform(self, col_selector: ColumnSelector, df: pd.DataFrame) -> pd.DataFrame:
        for name in col_selector.names:
            days = (df[name] - df[self.first]) / SECONDS_PER_DAY
            df[name + "_age_days"] = days * (days >= 0)
        return df

    def compute_selector(
        self,
        input_schema: Schema,
        selector: ColumnSelector,
        parents_selector: ColumnSelector,
        dependencies_selector: ColumnSelector,
    ) -> ColumnSelector:
        self._validate_matching_cols(input_schema, parents_selector, "computing input selector")
        return parents_selector

    def column_mapping(self, col_selector: ColumnSelector) -> dict[str, list[str]]:
        return {name + "_age_days": [name] for name in col_selector.names}

    @property
    def dependencies(self) -> list[str]:
        return [self.first]

    @property
    def output_dtype(self) -> type:
        return np.float64


def to_dates(column: pd.Series) -> pd.Series:
    return pd.to_datetime(column, unit="s")


def to_weekday(column: pd.Series) -> pd.Series:
    return column.dt.weekday


def to_sine(weekday: pd.Series) -> pd.Series:
    return np.sin(2 * np.pi * ((weekday + 1 + 0.000001) / 7))


def to_day_index(column: pd.Series) -> pd.Series:
    return (column - column.min()).dt.days + 1


def is_long_enough(frame: pd.DataFrame) -> pd.Series:
    return frame["item_id-count"] >= SHORTEST
