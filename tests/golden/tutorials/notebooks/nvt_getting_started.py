"""NVTabular, examples/01-Getting-started: MovieLens, the rating as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.schema import Tags

MODEL = ""


def events() -> pd.DataFrame:
    return made(np.random.default_rng(151), 200)


def rows() -> pd.DataFrame:
    asked = made(np.random.default_rng(152), 8)
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


def graph() -> Any:
    ids = ["userId", "movieId"] >> nvt.ops.Categorify()
    rating = ["rating"] >> nvt.ops.AddMetadata(tags=[Tags.REGRESSION, Tags.TARGET])
    return ids + rating
