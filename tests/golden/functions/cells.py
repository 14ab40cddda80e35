"""Session workflows with functions in the middle, as a notebook defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.dag import ColumnSelector
from merlin.schema import Schema

MODEL = ""
LONGEST, SHORTEST = 20, 3
START = 1_396_310_400  # 2014-04-01
WEEK_S = 7 * 86400


def events() -> pd.DataFrame:
    generator = np.random.default_rng(211)
    return made(generator, generator.integers(50000, 50080, 700))


def rows() -> pd.DataFrame:
    """Eight sessions: one of one event, one longer than is read, and items never seen."""
    sessions = np.arange(50003, 50011).repeat([1, 2, 3, 24, 6, 5, 9, 5])
    asked = made(np.random.default_rng(212), np.random.default_rng(213).permutation(sessions))
    asked.loc[asked.index % 11 == 4, "item"] = "item-never"
    return asked


def made(generator: np.random.Generator, sessions: np.ndarray) -> pd.DataFrame:
    count = len(sessions)
    items = np.clip(generator.lognormal(1.5, 1.0, count).astype("int64"), 1, 30)
    ts: Any = START + sessions * 50021 % WEEK_S
    return pd.DataFrame(
        {
            "session_id": sessions,
            "item": [f"item-{number}" for number in items],
            "category": [f"category-{number // 4}" for number in items],
            "price": generator.gamma(2.0, 10.0, count),
            "ts": ts + generator.integers(0, 3600, count),
            "first_seen": START - items * 43210,
        }
    )


class ItemRecency(nvt.ops.Operator):  # type: ignore[misc]  # nvtabular has no types
    """For how many days an item has been there: an operator of one's own."""

    def transform(self, col_selector: ColumnSelector, df: pd.DataFrame) -> pd.DataFrame:
        days = (df["ts"] - df["first_seen"]) / 86400
        return pd.DataFrame({"age_days": days * (days >= 0)})

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
        return {"age_days": ["ts", "first_seen"]}

    @property
    def output_dtype(self) -> type:
        return np.float64


def weekday_sine() -> Any:
    """Dates by two lambdas, and a sine of them."""
    dates = ["ts"] >> nvt.ops.LambdaOp(lambda column: pd.to_datetime(column, unit="s"))
    weekday = dates >> nvt.ops.LambdaOp(lambda column: column.dt.weekday)
    sine = weekday >> nvt.ops.LambdaOp(lambda column: np.sin(2 * np.pi * (column + 1) / 7))
    return sine >> nvt.ops.Rename(name="weekday_sin")


def week_seconds() -> Any:
    """In the place of the sine, without a function."""
    return ["ts"] >> nvt.ops.NormalizeMinMax() >> nvt.ops.Rename(name="weekday_sin")


def log_price() -> Any:
    return ["price"] >> nvt.ops.LogOp() >> nvt.ops.Normalize() >> nvt.ops.Rename(name="price_log")


def log_age() -> Any:
    return ["ts", "first_seen"] >> ItemRecency() >> nvt.ops.LogOp() >> nvt.ops.Normalize()


def sessions(sine: Any, *others: Any, **aggregations: list[str]) -> Any:
    categories = ["item", "category"] >> nvt.ops.Categorify()
    columns = categories + log_price() + sine + ["session_id", "ts"]
    for other in others:
        columns += other
    return columns >> nvt.ops.Groupby(
        groupby_cols=["session_id"],
        sort_cols=["ts"],
        aggs={
            "item": ["list", "count"],
            "category": ["list"],
            "price_log": ["list"],
            "weekday_sin": ["list"],
            **aggregations,
        },
        name_sep="-",
    )


LISTS = ["item-list", "category-list", "price_log-list", "weekday_sin-list"]


def cut(grouped: Any, *more: str) -> Any:
    return grouped[[*LISTS, *more]] >> nvt.ops.ListSlice(-LONGEST)


def dates() -> Any:
    return cut(sessions(weekday_sine()))


def behind_groupby() -> Any:
    grouped = sessions(weekday_sine())
    share = grouped["item-count"] >> nvt.ops.LambdaOp(lambda column: column / column.max())
    return cut(grouped) + share


def own_operator() -> Any:
    return cut(sessions(weekday_sine(), log_age(), age_days=["list"]), "age_days-list")


def with_filter() -> Any:
    grouped = sessions(weekday_sine())
    return cut(grouped) + grouped["item-count"] >> nvt.ops.Filter(
        f=lambda frame: frame["item-count"] >= SHORTEST
    )


def without() -> Any:
    return cut(sessions(week_seconds()))


GRAPHS: dict[str, Callable[[], Any]] = {
    made.__name__: made for made in (dates, behind_groupby, own_operator, with_filter, without)
}
