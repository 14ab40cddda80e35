"""Transformers4Rec, examples/getting-started-session-based: 01 (ETL), 02 (XLNet), 03 (serving)."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.schema import Tags

MODEL = "xlnet"
MODEL_COLUMNS = ["item_id-list", "category-list", "weekday_sin-list", "age_days-list"]
LONGEST, SHORTEST = 20, 2


def events() -> pd.DataFrame:
    generator = np.random.default_rng(101)
    return made(generator, generator.integers(70000, 70080, 700))


def rows() -> pd.DataFrame:
    """Eight sessions: one of one event, one longer than is read, and items never seen."""
    sessions = np.arange(70003, 70011).repeat([1, 2, 3, 24, 6, 5, 9, 5])
    asked = made(np.random.default_rng(102), np.random.default_rng(103).permutation(sessions))
    asked.loc[asked.index % 11 == 4, "item_id"] = 99999
    return asked


def made(generator: np.random.Generator, sessions: np.ndarray) -> pd.DataFrame:
    count = len(sessions)
    items = np.clip(generator.lognormal(1.5, 1.0, count).astype("int32"), 1, 30)
    return pd.DataFrame(
        {
            "session_id": sessions,
            "item_id": items,
            "category": (items // 4 + 1).astype("int32"),
            "age_days": generator.uniform(0, 1, count).astype("float32"),
            "weekday_sin": generator.uniform(0, 1, count).astype("float32"),
            "day": sessions % 9 + 1,
        }
    )


def graph() -> Any:
    encoded = ["item_id", "category"] >> nvt.ops.Categorify()
    others = nvt.ColumnSelector(["session_id", "day", "age_days", "weekday_sin"])
    sessions = encoded + others >> nvt.ops.Groupby(
        groupby_cols=["session_id"],
        aggs={
            "item_id": ["list", "count"],
            "category": ["list"],
            "day": ["first"],
            "age_days": ["list"],
            "weekday_sin": ["list"],
        },
        name_sep="-",
    )
    categories = sessions["category-list"] >> nvt.ops.ListSlice(-LONGEST)
    items = sessions["item_id-list"] >> nvt.ops.ListSlice(-LONGEST) >> nvt.ops.TagAsItemID()
    numbers = (
        sessions["age_days-list", "weekday_sin-list"]
        >> nvt.ops.ListSlice(-LONGEST)
        >> nvt.ops.AddMetadata(tags=[Tags.CONTINUOUS])
    )
    selected = sessions["item_id-count", "day-first", "session_id"] + items + categories + numbers
    long_enough = selected >> nvt.ops.Filter(f=lambda frame: frame["item_id-count"] >= SHORTEST)
    return long_enough["session_id", "day-first"] + (
        long_enough["item_id-list", "category-list", "age_days-list", "weekday_sin-list"]
        >> nvt.ops.ValueCount()
    )
