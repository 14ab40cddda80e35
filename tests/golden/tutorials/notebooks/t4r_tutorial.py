"""Transformers4Rec, examples/tutorial: 01 (a shop's events), 02 (ETL)."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.dag import ColumnSelector
from merlin.schema import Schema, Tags

MODEL = ""
LONGEST, SHORTEST = 20, 2
START = 1_569_888_000  # 2019-10-01
CODES = np.array(["appliances.kitchen", "computers.notebook", "electronics.audio", "furniture"])
BRANDS = np.array(["acer", "apple", "bosch", "huawei", "lg", "samsung", "xiaomi"])
KINDS = np.array(["cart", "purchase", "view"])


def events() -> pd.DataFrame:
    generator = np.random.default_rng(171)
    return made(generator, generator.integers(1, 80, 700))


def rows() -> pd.DataFrame:
    """Eight sessions: one of one event, one longer than is read, and products never seen."""
    sessions = np.arange(3, 11).repeat([1, 2, 3, 24, 6, 5, 9, 5])
    asked = made(np.random.default_rng(172), np.random.default_rng(173).permutation(sessions))
    unseen = asked.index % 11 == 4
    asked.loc[unseen, "product_id"] = 99999
    asked.loc[unseen, "prod_first_event_time_ts"] = asked["event_time_ts"][unseen] + 5
    return asked


def made(generator: np.random.Generator, sessions: np.ndarray) -> pd.DataFrame:
    """The notebook's columns after its first part; the events of a session are of one day."""
    count = len(sessions)
    products = generator.integers(1, 41, count)
    began: Any = START + sessions * 50021 % (6 * 86400)
    return pd.DataFrame(
        {
            "event_type": generator.choice(KINDS, count),
            "product_id": products,
            "category_id": products % 9 + 2053013552326770905,
            "category_code": CODES[products % 4],
            "brand": BRANDS[products % 7],
            "price": generator.gamma(2.0, 40.0, count).round(2),
            "user_id": sessions % 13 + 500,
            "event_time_ts": began + generator.integers(0, 3600, count),
            "user_session": sessions,
            "prod_first_event_time_ts": START + products * 1237,
        }
    )


class ItemRecency(nvt.ops.Operator):  # type: ignore[misc]  # nvtabular has no types
    """For how many days a product has been there: an operator of the notebook's own."""

    def transform(self, col_selector: ColumnSelector, df: pd.DataFrame) -> pd.DataFrame:
        for name in col_selector.names:
            days = (df[name] - df["prod_first_event_time_ts"]) / (60 * 60 * 24)
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
        return ["prod_first_event_time_ts"]

    @property
    def output_dtype(self) -> type:
        return np.float64


def sine_of_cycle(column: pd.Series, longest: int) -> pd.Series:
    return np.sin(2 * np.pi * ((column + 0.000001) / longest))


def cosine_of_cycle(column: pd.Series, longest: int) -> pd.Series:
    return np.cos(2 * np.pi * ((column + 0.000001) / longest))


def beside_the_average(column: pd.Series, frame: pd.DataFrame) -> pd.Series:
    """A price relative to the average of its category."""
    return ((frame["price"] - column) / (column + 1e-5)) * (column > 0).astype(int)


def times(when: Any) -> Any:
    """The day of the week, as a number and on a circle, and the dates."""
    continuous = nvt.ops.AddMetadata(tags=[Tags.CONTINUOUS])
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
    sine = weekday >> (lambda column: sine_of_cycle(column + 1, 7))
    cosine = weekday >> (lambda column: cosine_of_cycle(column + 1, 7))
    recency = (
        when
        >> ItemRecency()
        >> nvt.ops.LogOp()
        >> nvt.ops.Normalize(out_dtype=np.float32)
        >> nvt.ops.Rename(name="product_recency_days_log_norm")
    )
    return (
        dates
        + weekday
        + (sine >> nvt.ops.Rename(name="et_dayofweek_sin") >> continuous)
        + (cosine >> nvt.ops.Rename(name="et_dayofweek_cos") >> continuous)
        + recency
    )


def prices() -> Any:
    price = (
        ["price"]
        >> nvt.ops.LogOp()
        >> nvt.ops.Normalize(out_dtype=np.float32)
        >> nvt.ops.Rename(name="price_log_norm")
    )
    relative = (
        ["category_id"]
        >> nvt.ops.JoinGroupby(cont_cols=["price"], stats=["mean"])
        >> nvt.ops.Rename(name="avg_category_id_price")
        >> nvt.ops.LambdaOp(beside_the_average, dependency=["price"])
        >> nvt.ops.Rename(name="relative_price_to_avg_categ_id")
        >> nvt.ops.AddMetadata(tags=[Tags.CONTINUOUS])
    )
    return price + relative


def graph() -> Any:
    item = ["product_id"] >> nvt.ops.TagAsItemID()
    texts = ["category_code", "brand", "user_id", "category_id", "event_type"]
    categories = item + texts >> nvt.ops.Categorify()
    keys = ColumnSelector(["event_time_ts", "user_session"])
    features = keys + categories + times(["event_time_ts"]) + prices()
    lists = [
        "product_id",
        "category_code",
        "brand",
        "category_id",
        "et_dayofweek_sin",
        "et_dayofweek_cos",
        "price_log_norm",
        "relative_price_to_avg_categ_id",
        "product_recency_days_log_norm",
    ]
    sessions = features >> nvt.ops.Groupby(
        groupby_cols=["user_session"],
        sort_cols=["event_time_ts"],
        aggs={
            "user_id": ["first"],
            "event_time_ts": ["first"],
            "event_time_dt": ["first"],
            **{name: ["list"] for name in lists},
            "product_id": ["list", "count"],
        },
        name_sep="-",
    )
    filled = sessions[[f"{name}-list" for name in lists]] >> nvt.ops.ListSlice(-LONGEST, pad=True)
    day = (
        sessions["event_time_dt-first"]
        >> nvt.ops.LambdaOp(lambda column: (column - column.min()).dt.days + 1)
        >> nvt.ops.Rename(f=lambda name: "day_index")
        >> nvt.ops.AddMetadata(tags=[Tags.CATEGORICAL])
    )
    session = sessions["user_session"] >> nvt.ops.AddMetadata(tags=[Tags.CATEGORICAL])
    return session + sessions["product_id-count"] + filled + day >> nvt.ops.Filter(
        f=lambda frame: frame["product_id-count"] >= SHORTEST
    )
