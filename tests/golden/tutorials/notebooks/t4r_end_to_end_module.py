"""The workflow of t4r_end_to_end, whose functions are in a module: as it is in production."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
import session_functions as functions  # type: ignore[import-not-found]  # it is in modules/
from merlin.dag import ColumnSelector
from merlin.schema import Tags

MODEL = ""
MODULE = "session_functions.py"
LONGEST = 20
START = 1_396_310_400  # 2014-04-01


def events() -> pd.DataFrame:
    generator = np.random.default_rng(191)
    return made(generator, generator.integers(70000, 70080, 700))


def rows() -> pd.DataFrame:
    """Eight sessions: one of one event, one longer than is read, and items never seen."""
    sessions = np.arange(70003, 70011).repeat([1, 2, 3, 24, 6, 5, 9, 5])
    asked = made(np.random.default_rng(192), np.random.default_rng(193).permutation(sessions))
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


def graph() -> Any:
    categories = ColumnSelector(["category", "item_id"]) >> nvt.ops.Categorify()
    when = ColumnSelector(["timestamp"])
    dates = when >> nvt.ops.LambdaOp(functions.to_dates) >> nvt.ops.Rename(name="event_time_dt")
    weekday = dates >> nvt.ops.LambdaOp(functions.to_weekday) >> nvt.ops.Rename(name="weekday")
    sine = weekday >> functions.to_sine >> nvt.ops.Rename(name="et_dayofweek_sin")
    recency = (
        when
        >> functions.ItemRecency("itemid_ts_first")
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
        >> nvt.ops.LambdaOp(functions.to_day_index)
        >> nvt.ops.Rename(name="day_index")
        >> nvt.ops.AddMetadata(tags=[Tags.CATEGORICAL])
    )
    session = sessions["session_id"] >> nvt.ops.AddMetadata(tags=[Tags.CATEGORICAL])
    return session + sessions["item_id-count"] + lists + day >> nvt.ops.Filter(
        f=functions.is_long_enough
    )
