"""Transformers4Rec, examples/end-to-end-session-based: 01 (Yoochoose's ETL), 02 (XLNet, top k)."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.dag import ColumnSelector
from merlin.schema import Schema, Tags

MODEL = "xlnet"
TOP_K = 20
MODEL_COLUMNS = [
    "item_id-list",
    "category-list",
    "product_recency_days_log_norm-list",
    "et_dayofweek_sin-list",
]
LONGEST, SHORTEST = 20, 2
START = 1_396_310_400  # 2014-04-01


def events() -> pd.DataFrame:
    generator = np.random.default_rng(111)
    return made(generator, generator.integers(70000, 70080, 700))


def rows() -> pd.DataFrame:
    """Eight sessions: one of one event, one longer than is read, and items never seen."""
    sessions = np.arange(70003, 70011).repeat([1, 2, 3, 24, 6, 5, 9, 5])
    asked = made(np.random.default_rng(112), np.random.default_rng(113).permutation(sessions))
    unseen = asked.index % 11 == 4
    asked.loc[unseen, "item_id"] = 99999
    asked.loc[unseen, "itemid_ts_first"] = asked["timestamp"][unseen] + 5
    return asked


def made(generator: np.random.Generator, sessions: np.ndarray) -> pd.DataFrame:
    """The notebook's synthetic clicks; those of a session are of one day."""
    count = len(sessions)
    items = np.clip(generator.lognormal(1.5, 1.0, count).astype("int64"), 1, 30)
    began: Any = START + sessions * 50021 % (4 * 86400)
    return pd.DataFrame(
        {
            "session_id": sessions,
            "item_id": items,
            "category": items // 4 + 1,
            "timestamp": began + generator.integers(0, 3600, count),
            "itemid_ts_first": START + items * 1237,
        }
    )


class ItemRecency(nvt.ops.Operator):  # type: ignore[misc]  # nvtabular has no types
    """For how many days an item has been there: an operator of the notebook's own."""

    def transform(self, col_selector: ColumnSelector, df: pd.DataFrame) -> pd.DataFrame:
        for name in col_selector.names:
            days = (df[name] - df["itemid_ts_first"]) / (60 * 60 * 24)
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
        return ["itemid_ts_first"]

    @property
    def output_dtype(self) -> type:
        return np.float64


def sine_of_cycle(column: pd.Series, longest: int) -> pd.Series:
    return np.sin(2 * np.pi * ((column + 0.000001) / longest))


def graph() -> Any:
    categories = ColumnSelector(["category", "item_id"]) >> nvt.ops.Categorify()
    when = ColumnSelector(["timestamp"])
    dates = (
        when
        >> nvt.ops.LambdaOp(lambda column: pd.to_datetime(column, unit="s"))
        >> nvt.ops.Rename(name="event_time_dt")
    )
    weekday = (
        dates
        >> nvt.ops.LambdaOp(lambda column: column.dt.weekday)
        >> nvt.ops.Rename(name="et_dayofweek")
    )
    sine = (
        weekday
        >> (lambda column: sine_of_cycle(column + 1, 7))
        >> nvt.ops.Rename(name="et_dayofweek_sin")
    )
    recency = (
        when
        >> ItemRecency()
        >> nvt.ops.LogOp()
        >> nvt.ops.Normalize(out_dtype=np.float32)
        >> nvt.ops.Rename(name="product_recency_days_log_norm")
    )
    features = ColumnSelector(["session_id", "timestamp"]) + categories
    sessions = features + (dates + weekday + sine + recency) >> nvt.ops.Groupby(
        groupby_cols=["session_id"],
        sort_cols=["timestamp"],
        aggs={
            "item_id": ["list", "count"],
            "category": ["list"],
            "timestamp": ["first"],
            "event_time_dt": ["first"],
            "et_dayofweek_sin": ["list"],
            "product_recency_days_log_norm": ["list"],
        },
        name_sep="-",
    )
    items = sessions["item_id-list"] >> nvt.ops.TagAsItemID()
    numbers = sessions[
        "et_dayofweek_sin-list", "product_recency_days_log_norm-list"
    ] >> nvt.ops.AddMetadata(tags=[Tags.CONTINUOUS])
    lists = items + numbers + sessions["category-list"] >> nvt.ops.ListSlice(-LONGEST)
    day = (
        sessions["event_time_dt-first"]
        >> nvt.ops.LambdaOp(lambda column: (column - column.min()).dt.days + 1)
        >> nvt.ops.Rename(f=lambda name: "day_index")
        >> nvt.ops.AddMetadata(tags=[Tags.CATEGORICAL])
    )
    session = sessions["session_id"] >> nvt.ops.AddMetadata(tags=[Tags.CATEGORICAL])
    return session + sessions["item_id-count"] + lists + day >> nvt.ops.Filter(
        f=lambda frame: frame["item_id-count"] >= SHORTEST
    )
