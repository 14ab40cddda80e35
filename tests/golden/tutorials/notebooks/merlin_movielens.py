"""Merlin, examples/getting-started-movielens: 01 (movies), 02 (ETL), 03 (a smaller network)."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.schema import Tags

MODEL = "click"
TARGET = "rating"
GENRES = np.array(["Adventure", "Animation", "Children", "Comedy", "Drama", "Romance", "Thriller"])


def movies() -> pd.DataFrame:
    """Each with a list of genres, as `str.split("|")` makes them."""
    generator = np.random.default_rng(131)
    texts = [
        "|".join(generator.choice(GENRES, size=size, replace=False))
        for size in generator.integers(1, 4, 40)
    ]
    return pd.DataFrame({"movieId": np.arange(1, 41), "genres": pd.Series(texts).str.split("|")})


def events() -> pd.DataFrame:
    return made(np.random.default_rng(132), 300)


def rows() -> pd.DataFrame:
    asked = made(np.random.default_rng(133), 8)
    asked.loc[[2, 5], "userId"] = [99999, 0]
    return asked


def made(generator: np.random.Generator, count: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "userId": generator.integers(1, 25, count),
            "movieId": generator.integers(1, 41, count),
            "rating": generator.integers(1, 11, count) / 2,
        }
    )


def graph() -> Any:
    user = ["userId"] >> nvt.ops.TagAsUserID()
    movie = ["movieId"] >> nvt.ops.TagAsItemID()
    joined = user + movie >> nvt.ops.JoinExternal(movies(), on=["movieId"])
    rating = (
        nvt.ColumnGroup(["rating"])
        >> nvt.ops.LambdaOp(lambda column: (column > 3).astype("int8"))
        >> nvt.ops.AddTags(Tags.TARGET)
    )
    return (joined >> nvt.ops.Categorify()) + rating
