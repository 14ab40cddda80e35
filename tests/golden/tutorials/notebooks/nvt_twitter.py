"""NVTabular, examples/winning-solution-recsys2020-twitter (up to 2022): what engages with tweets.

The features of the second workflow. Its columns of ids are what the first one made of texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd

MODEL = ""
#: How many values each has.
IDS = {
    "media": 6,
    "tweet_type": 3,
    "language": 8,
    "a_user_id": 30,
    "b_user_id": 25,
    "domains": 9,
    "tweet_id": 60,
}
FLAGS = ["a_is_verified", "b_is_verified", "b_follows_a"]
COUNTS = ["a_follower_count", "a_following_count", "b_follower_count", "b_following_count"]
TARGETS = ["reply", "retweet", "retweet_comment", "like"]
START = 1_581_552_000  # 2020-02-13


def events() -> pd.DataFrame:
    return made(np.random.default_rng(201), 300)


def rows() -> pd.DataFrame:
    """Neighbours of one user. Of ids that were never seen NVTabular counts nothing: it fails."""
    asked = made(np.random.default_rng(202), 12).sort_values(["b_user_id", "timestamp"])
    asked.loc[asked.index[3:7], "b_user_id"] = 9
    return asked.reset_index(drop=True)


def made(generator: np.random.Generator, count: int) -> pd.DataFrame:
    """Engagements are times, or 0."""
    columns: dict[str, Any] = {
        name: generator.integers(1, size + 1, count) for name, size in IDS.items()
    }
    for name in FLAGS:
        columns[name] = generator.integers(0, 2, count).astype("int8")
    for name in COUNTS:
        columns[name] = generator.integers(0, 5000, count)
    columns["timestamp"] = START + generator.integers(0, 7 * 86400, count)
    for name in TARGETS:
        columns[name] = np.where(generator.random(count) < 0.3, columns["timestamp"] + 60, 0)
    return pd.DataFrame(columns)


def graph() -> Any:
    ids = ["media", "tweet_type", "language", "a_user_id", "b_user_id"]
    counts = ids >> nvt.ops.Rename(postfix="_c") >> nvt.ops.JoinGroupby(["reply"], stats=["count"])
    dates = ["timestamp"] >> nvt.ops.LambdaOp(
        lambda column: pd.to_datetime(column.astype("int32"), unit="s")
    )
    hour = dates >> (lambda column: column.dt.hour) >> nvt.ops.Rename(postfix="_hour")
    minute = dates >> (lambda column: column.dt.minute) >> nvt.ops.Rename(postfix="_minute")
    second = dates >> (lambda column: column.dt.second) >> nvt.ops.Rename(postfix="_second")
    differences = (
        ["b_follower_count", "b_following_count", "language"]
        >> nvt.ops.LambdaOp(lambda column: column.astype("float32"))
        >> nvt.ops.DifferenceLag(partition_cols=["b_user_id"], shift=[1, -1])
        >> nvt.ops.FillMissing(fill_val=0)
    )
    engaged = TARGETS >> nvt.ops.LambdaOp(lambda column: (column > 0).astype("int8"))
    together = ["domains", "language", "b_follows_a", "tweet_type", "media", "a_is_verified"]
    encoded = [*ids, together] >> nvt.ops.TargetEncoding(
        engaged, kfold=5, p_smooth=20, out_dtype="float32"
    )
    others = nvt.ColumnSelector(["timestamp", "tweet_id", "b_is_verified", *COUNTS])
    return counts + hour + minute + second + differences + engaged + encoded + others
