"""NVTabular, examples/02-Advanced-NVTabular-workflow: MovieLens with lists out of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.schema import Tags

MODEL = ""
GENRES = np.array(["Adventure", "Animation", "Children", "Comedy", "Drama", "Romance", "Western"])


def movies() -> pd.DataFrame:
    """Each with a list of genres; the title is not asked for."""
    generator = np.random.default_rng(141)
    likely = np.arange(7, 0, -1) / 28
    return pd.DataFrame(
        {
            "movieId": np.arange(1, 41),
            "genres": [
                generator.choice(GENRES, size=size, replace=False, p=likely).tolist()
                for size in generator.integers(1, 4, 40)
            ],
            "title": [f"Film {number}" for number in range(1, 41)],
        }
    )


def events() -> pd.DataFrame:
    return made(np.random.default_rng(142), 450)


def rows() -> pd.DataFrame:
    asked = made(np.random.default_rng(143), 8)
    asked.loc[[2, 5], "userId"] = [99999, 0]
    return asked


def made(generator: np.random.Generator, count: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "userId": generator.integers(1, 25, count),
            "movieId": generator.integers(1, 41, count),
            "rating": generator.integers(1, 6, count),
        }
    )


def rating_to_binary(column: pd.Series) -> pd.Series:
    return column > 3


def graph() -> Any:
    genres = (
        ["movieId"]
        >> nvt.ops.JoinExternal(movies(), on="movieId", columns_ext=["movieId", "genres"])
        >> nvt.ops.Categorify(freq_threshold=10)
    )
    liked = (
        ["rating"]
        >> nvt.ops.LambdaOp(rating_to_binary)
        >> nvt.ops.Rename(name="binary_rating")
        >> nvt.ops.AddTags(tags=[Tags.TARGET, Tags.BINARY_CLASSIFICATION])
    )
    user = (
        ["userId"]
        >> nvt.ops.Categorify()
        >> nvt.ops.AddTags(tags=[Tags.USER_ID, Tags.CATEGORICAL, Tags.USER])
    )
    movie = (
        ["movieId"]
        >> nvt.ops.Categorify()
        >> nvt.ops.AddTags(tags=[Tags.ITEM_ID, Tags.CATEGORICAL, Tags.ITEM])
    )
    return user + movie + genres + liked
