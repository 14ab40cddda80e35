"""Exports whose workflows hold tables: in their pickles, and in category files of each kind.

Run in the models' environment, in an empty directory: tables_export.py DEST

DEST/NAME/export           what Ensemble.export wrote
DEST/NAME/request.json     a request of some rows
DEST/NAME/expected.json    what the workflow itself makes of them
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import dask.dataframe as dd
import numpy as np
import nvtabular
import pandas as pd
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.workflow import TransformWorkflow
from nvtabular import WorkflowNode, ops

ASKED = pd.DataFrame(
    {
        "user": np.array([5, 3, 40, 0, 17], dtype="int64"),
        "item": ["hat", "book", "shoe", "hat", "coat"],
        "price": np.array([1.5, 0.25, 99, 7, 3], dtype="float32"),
    }
)
FITTED = pd.concat([ASKED] * 20, ignore_index=True).head(90)
USERS = pd.DataFrame(
    {
        "user": np.arange(60, dtype="int64"),
        "age": np.arange(60, dtype="int64") * 7 % 90,
        "score": np.arange(60) / 7,
        "city": [f"city {n % 5}" for n in range(60)],
    }
)
WORDS = pd.Series(["hat", "shoe", "book"])
#: Longer than a pickle of which all is read as data (MAX_OPCODES).
MANY = 1_200_000


def mapped(table: Any, default: Any = 0.0) -> Any:
    """Of each user what the table says."""
    return ["user"] >> ops.LambdaOp(lambda column: column.map(lambda u: look_up(table, u, default)))


def look_up(table: Any, user: int, default: Any) -> Any:
    if isinstance(table, dict):
        return table.get((user, "k") if (0, "k") in table else user, default)
    if isinstance(table, set):
        return float(user in table)
    return float(len(table)) if isinstance(table, list) else float(table[user])


def joined(table: Any, **options: Any) -> Any:
    return ["user", "item"] >> ops.JoinExternal(table, on="user", **options)


def joined_by_words() -> Any:
    items = pd.DataFrame({"item": [*WORDS, "größe"], "weight": [2.0, 5.0, 3.0, 1.0]})
    return ["item"] >> ops.JoinExternal(items, on=["item"]) >> ops.FillMissing(fill_val=7)


def users_file(directory: Path) -> str:
    """The users as a file, which JoinExternal reads once and keeps."""
    USERS.to_parquet(directory / "users.parquet")
    return str(directory / "users.parquet")


def vocabulary(directory: Path) -> str:
    """A file such as Categorify writes, which another workflow may be given."""
    directory.mkdir()
    frame = pd.DataFrame({"item": WORDS})
    frame.index += 3
    frame.to_parquet(directory / "unique.item.parquet")
    return str(directory / "unique.item.parquet")


WORKFLOWS: dict[str, Callable[[Path], WorkflowNode]] = {
    "join_frame": lambda _: joined(USERS),
    "join_numbers": lambda _: (
        ["user"] >> ops.JoinExternal(USERS[["user", "age", "score"]], on="user")
    ),
    "join_dataset": lambda _: joined(nvtabular.Dataset(USERS)),
    "join_file": lambda path: joined(nvtabular.Dataset(users_file(path))),
    "join_dask": lambda _: joined(dd.from_pandas(USERS, npartitions=2)),
    "join_missing": lambda _: joined(USERS[["user", "city"]].head(10)),
    "join_words": lambda _: joined_by_words(),
    "join_inner": lambda _: joined(USERS.head(20), how="inner", columns_ext=["user", "age"]),
    "lambda_numbers": lambda _: mapped({n: n * 2.5 for n in range(1_001)}),
    "lambda_tuples": lambda _: mapped({(n, "k"): n * 2.5 for n in range(50)}),
    "lambda_set": lambda _: mapped(set(range(0, 2_002, 2))),
    "lambda_texts": lambda _: mapped([f"n{n}" for n in range(600_000)]),
    "lambda_array": lambda _: mapped(np.arange(9_700_000) / 3),
    "lambda_many": lambda _: mapped([f"n{n}" for n in range(MANY)]),
    "lambda_beside": lambda _: (
        mapped({n: n * 2.5 for n in range(50)}) + (["price"] >> ops.FillMissing())
    ),
    "vocabs": lambda _: ["item"] >> ops.Categorify(vocabs={"item": WORDS}),
    "vocabs_buckets": lambda _: ["item"] >> ops.Categorify(vocabs={"item": WORDS}, num_buckets=4),
    "vocabs_copied": lambda path: (
        ["item"]
        >> ops.Categorify(vocabs={"item": vocabulary(path / "files")}, out_path=str(path / "files"))
    ),
    "vocabs_elsewhere": lambda path: (
        ["item"] >> ops.Categorify(vocabs={"item": vocabulary(path / "files")})
    ),
    "relative": lambda _: ["item"] >> ops.Categorify(out_path="out"),
    "counted": lambda _: ["user"] >> ops.JoinGroupby(cont_cols=["price"], stats=["count", "sum"]),
}


def main(destination: str, *names: str) -> None:
    for name in names or WORKFLOWS:
        directory = Path(destination, name)
        directory.mkdir(parents=True)
        export(WORKFLOWS[name](directory), directory)


def export(columns: WorkflowNode, directory: Path) -> None:
    workflow = nvtabular.Workflow(columns)
    workflow.fit(nvtabular.Dataset(FITTED))
    graph = workflow.input_schema.column_names >> TransformWorkflow(workflow)
    Ensemble(graph, workflow.input_schema).export(str(directory / "export"))
    asked = ASKED[workflow.input_schema.column_names]
    made = workflow.transform(nvtabular.Dataset(asked)).to_ddf().compute()
    write(directory / "request.json", "inputs", asked)
    write(directory / "expected.json", "outputs", made)


def write(path: Path, kind: str, frame: pd.DataFrame) -> None:
    tensors = [
        {
            "name": name,
            "datatype": datatype(values),
            "shape": [len(values)],
            "data": list(map(str, values)) if values.dtype.kind == "O" else values.tolist(),
        }
        for name, values in frame.items()
    ]
    path.write_text(json.dumps({kind: tensors}))


def datatype(values: pd.Series) -> str:
    if values.dtype.kind == "O":
        return "BYTES"
    return {"i": "INT", "f": "FP"}[values.dtype.kind] + str(8 * values.dtype.itemsize)


if __name__ == "__main__":
    main(*sys.argv[1:])
