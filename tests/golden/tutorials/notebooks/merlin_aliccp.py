"""Merlin, examples/Building-and-deploying-multi-stage-RecSys: 01 (the whole ETL, and a ranker)."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.dag.ops.subgraph import Subgraph
from merlin.schema import Tags

MODEL = "click"
TARGET = "click"
#: How many values each has.
USER = {
    "user_id": 40,
    "user_shops": 20,
    "user_profile": 9,
    "user_group": 5,
    "user_gender": 2,
    "user_age": 7,
    "user_consumption_2": 3,
    "user_is_occupied": 2,
    "user_geography": 4,
    "user_intentions": 20,
    "user_brands": 20,
    "user_categories": 12,
}
ITEM = {"item_id": 50, "item_category": 8, "item_shop": 15, "item_brand": 12}


def events() -> pd.DataFrame:
    return made(np.random.default_rng(211), 300)


def rows() -> pd.DataFrame:
    """Of one user; the last two items were never seen."""
    asked = made(np.random.default_rng(212), 9)
    asked[[*USER]] = asked[[*USER]].iloc[0]
    asked.loc[[7, 8], "item_id"] = [777, 778]
    return asked


def made(generator: np.random.Generator, count: int) -> pd.DataFrame:
    columns: dict[str, Any] = {
        name: generator.integers(1, size + 1, count).astype("int32")
        for name, size in {**USER, **ITEM}.items()
    }
    columns["click"] = generator.integers(0, 2, count).astype("int32")
    return pd.DataFrame(columns)


def graph() -> Any:
    items = [*ITEM] >> nvt.ops.Categorify(dtype="int32")
    item = Subgraph(
        "item",
        Subgraph("items_cat", items)
        + (items["item_id"] >> nvt.ops.TagAsItemID())
        + (items["item_category", "item_shop", "item_brand"] >> nvt.ops.TagAsItemFeatures()),
    )
    others = [name for name in USER if name != "user_id"]
    user = Subgraph(
        "user",
        (["user_id"] >> nvt.ops.Categorify(dtype="int32") >> nvt.ops.TagAsUserID())
        + (others >> nvt.ops.Categorify(dtype="int32") >> nvt.ops.TagAsUserFeatures()),
    )
    click = ["click"] >> nvt.ops.AddMetadata(tags=[Tags.BINARY_CLASSIFICATION, "target"])
    return user + item + click >> nvt.ops.Dropna()
