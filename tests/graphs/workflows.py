"""Random NVTabular workflows, fitted on random rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import nvtabular as nvt
from merlin.io import Dataset
from merlin.schema import Tags
from nvtabular import ops

from tests.graphs.columns import (
    FIXED,
    FLOATS,
    INTEGERS,
    SCALAR,
    STRING,
    Col,
    frame,
    schema_of,
)

FITTED_ROWS = 30
LONGEST_CHAIN = 3


def fitted_workflow(
    cols: Sequence[Col], staging: Path, random: Random, features: Counter[str]
) -> nvt.Workflow:
    """A workflow with a chain of operators for each column, joined, fitted."""
    # Of a fixed list that it is fitted on, a workflow in Triton gets the first element of each row.
    keeps_fixed = any(col.kind == FIXED for col in cols) and random.random() < 0.4
    joined = None
    flagged = [col for col in cols if col.dtype in FLOATS and col.kind == SCALAR]
    if len(flagged) > 1 and random.random() < 0.3:
        filled = [col.name for col in flagged]
        random.shuffle(filled)
        joined = filled >> ops.FillMissing(add_binary_cols=True)
        cols = [col for col in cols if col not in flagged]
        features["op FillMissing with flags"] += 1
    for col in cols:
        chain = _chain(col, staging, random, features, keeps_fixed=keeps_fixed)
        joined = chain if joined is None else joined + chain
    if random.random() < 0.25:
        joined = joined >> ops.Rename(postfix=f"_w{random.randrange(100)}")
        features["workflow renames"] += 1
    workflow = nvt.Workflow(joined)
    rows = frame(cols, FITTED_ROWS, random)
    if keeps_fixed:
        workflow.fit(Dataset(rows, schema=schema_of(cols)))
        features["workflow fitted on fixed lists"] += 1
    else:
        workflow.fit(Dataset(rows))
    return workflow


def grouping_workflow(
    cols: Sequence[Col], key: Col, random: Random, features: Counter[str]
) -> nvt.Workflow:
    """Rows of one key become a row of lists, sliced and padded, as session models want them."""
    names = [col.name for col in cols]
    grouped = [key.name, *names] >> ops.Groupby(
        groupby_cols=[key.name],
        aggs={name: random.choice([["list"], ["list", "count"], ["first"]]) for name in names},
        name_sep="-",
    )
    workflow = nvt.Workflow(grouped)
    workflow.fit(Dataset(frame([key, *cols], FITTED_ROWS, random)))
    features["Groupby"] += 1
    return workflow


def _chain(
    col: Col, staging: Path, random: Random, features: Counter[str], *, keeps_fixed: bool
) -> Any:
    node: Any = [col.name]
    dtype = col.dtype
    for _ in range(random.randint(1, LONGEST_CHAIN)):
        few = keeps_fixed and col.kind == FIXED and random.random() < 0.9
        name, operator, dtype = _operator(col.kind, dtype, staging, random, few=few)
        node = node >> operator
        features[f"op {name} on {col.kind}"] += 1
    return node


def _operator(
    kind: str, dtype: str, staging: Path, random: Random, *, few: bool
) -> tuple[str, Any, str]:
    """A name, an operator that takes such a column, and the dtype that comes out.

    few: only those that take scalars and lists alike.
    """
    choices = ["Categorify", "AddMetadata"]
    if few:
        pass
    elif kind == SCALAR:
        choices += ["HashBucket", "LambdaOp"]
        if dtype in INTEGERS or dtype in FLOATS:
            choices += ["Normalize", "NormalizeMinMax", "FillMissing", "Clip", "LogOp"]
    else:
        choices += ["ListSlice", "ListSlice", "ValueCount", "HashBucket"]
        if dtype in FLOATS:
            choices += ["Clip", "LogOp"]
    if dtype in FLOATS:
        choices = [name for name in choices if name not in ("Categorify", "HashBucket")] * 4 + [
            "Categorify"
        ]
    name = random.choice(choices)
    return name, *_made(name, kind, dtype, staging, random)


def _made(name: str, kind: str, dtype: str, staging: Path, random: Random) -> tuple[Any, str]:
    if name == "Categorify":
        return ops.Categorify(out_path=str(staging)), "int64"
    if name == "HashBucket":
        return ops.HashBucket(num_buckets=7), "int64"
    if name == "AddMetadata":
        return ops.AddMetadata(tags=[random.choice([Tags.CATEGORICAL, Tags.USER])]), dtype
    if name == "Normalize":
        out = random.choice([None, np.float32, np.float64])
        return ops.Normalize(out_dtype=out), "float64"
    if name == "NormalizeMinMax":
        return ops.NormalizeMinMax(out_dtype=random.choice([None, np.float32])), "float64"
    if name == "FillMissing":
        return ops.FillMissing(fill_val=random.choice([0, 3])), dtype
    if name == "Clip":
        return ops.Clip(min_value=1, max_value=8), dtype
    if name == "LogOp":
        return ops.LogOp(), "float32"
    if name == "ListSlice":
        pad = random.random() < 0.6
        start, end = random.choice([(0, 3), (-3, None), (1, 4), (0, 2)])
        return (ops.ListSlice(start, end, pad=pad) if end else ops.ListSlice(start, pad=pad)), dtype
    if name == "ValueCount":
        return ops.ValueCount(), dtype
    assert name == "LambdaOp"
    if dtype == STRING:
        return ops.LambdaOp(lambda column: column.str.len(), dtype=np.int64), "int64"
    if dtype == "bool":
        return ops.LambdaOp(lambda column: ~column), dtype
    return ops.LambdaOp(lambda column: column + 1), dtype
