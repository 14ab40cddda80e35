"""Names of columns for random workflows and graphs: ordinary ones, and those that Merlin uses."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

ORDINARY = (
    "a",
    "b",
    "user_id",
    "item",
    "price",
    "x1",
    "x2",
    "genre",
    "ts",
    "label",
    "a_b",
    "A",
    "with space",
    "per.iod",
    "dash-ed",
    "größe",
    "a_count",
    "list",
)
#: What NVTabular, merlin-core, pandas and pyarrow call columns, indexes and keys of their own, what
#: a DataFrame has as an attribute, and signs that mean something in a path, a pattern or a config.
RESERVED = (
    "order",
    "order",
    "order",
    "labels",
    "index",
    "level_0",
    "__index_level_0__",
    "__null_dask_index__",
    "__null__",
    "__tmp__",
    "__fold__",
    "count_y",
    "count_y_all",
    "__all__",
    "_merge",
    "key_0",
    "left",
    "right",
    "values",
    "offsets",
    "size",
    "count",
    "sum",
    "columns",
    "dtype",
    "shape",
    "name",
    "T",
    "0",
    "nan",
    "None",
    "*",
    "a=1",
    'quo"te',
    "back\\slash",
)
#: What NVTabular makes of names, for its own columns and for what it puts out.
_ENDINGS = (
    "_filled",
    "_filled",
    "_filled",
    "_size",
    "_count",
    "_list",
    "_first",
    "_last",
    "_sum",
    "_mean",
    "_std",
    "_min",
    "_nunique",
    "_pow2",
    "_x",
    "_y",
    "_r",
    "_sum_y",
    "_sum_y_all",
    "_difference_lag_1",
    "_sim",
)
_JOINED = (
    "{}_{}",
    "{}_{}",
    "{}-{}",
    "{}_X_{}",
    "{}_{}_sum",
    "{}_{}_count",
    "{}_{}_size",
    "TE_{}_{}",
    "{}_{}_sim",
)
#: merlin-core takes them for parts of lists, and nothing is answered where a request has them.
_PARTS = ("__values", "__offsets")


def hostile_names(count: int, random: Random, known: Iterable[str] = ORDINARY) -> list[str]:
    """So many different names, some of them made of others of them."""
    names: list[str] = []
    while len(names) < count:
        style = random.random()
        if style < 0.35 or not names:
            name = random.choice(RESERVED)
        elif style < 0.55:
            name = random.choice(tuple(known))
        else:
            name = made_of(names, random)
        if name not in names:
            names.append(name)
    random.shuffle(names)
    return names


def made_of(names: list[str], random: Random) -> str:
    """A name that NVTabular might make of these."""
    style = random.random()
    if style < 0.02:
        return random.choice(names) + random.choice(_PARTS)
    if style < 0.65 or len(names) < 2:
        return random.choice(names) + random.choice(_ENDINGS)
    return random.choice(_JOINED).format(*random.sample(names, 2))
