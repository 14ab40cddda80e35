"""Merlin, examples/scaling-criteo: 02 (ETL), 03 (DLRM; here a smaller network), 04 (serving)."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
from merlin.schema import Tags

MODEL = "click"
TARGET = "label"
CONTINUOUS = [f"I{number}" for number in range(1, 14)]
CATEGORICAL = [f"C{number}" for number in range(1, 27)]


def events() -> pd.DataFrame:
    return made(np.random.default_rng(121), 300)


def rows() -> pd.DataFrame:
    """Unseen categories among them, and numbers below zero, which are clipped."""
    return made(np.random.default_rng(122), 8)


def made(generator: np.random.Generator, count: int) -> pd.DataFrame:
    """Numbers of which some are missing, and hexadecimal categories read as int32."""
    numbers = {
        name: np.where(generator.random(count) < 0.2, np.nan, generator.integers(-2, 90, count))
        for name in CONTINUOUS
    }
    categories = {
        name: (generator.zipf(1.6, count) % 12 * 178_956_971).astype("int32")
        for name in CATEGORICAL
    }
    label = generator.integers(0, 2, count).astype("int32")
    return pd.DataFrame({**numbers, **categories, "label": label})


def graph() -> Any:
    categories = CATEGORICAL >> nvt.ops.Categorify(max_size=10, dtype="int32")
    numbers = (
        CONTINUOUS
        >> nvt.ops.FillMissing()
        >> nvt.ops.Clip(min_value=0)
        >> nvt.ops.Normalize(out_dtype="float32")
    )
    label = ["label"] >> nvt.ops.AddMetadata(tags=[str(Tags.BINARY_CLASSIFICATION), "target"])
    return categories + numbers + label
