"""Exports of one workflow without category files each, made in one process.

Run in the models' environment: numbers_export.py DEST

DEST/plain: operators that all take an empty frame. DEST/dropna: a Dropna in front, which leaves no
row of a request whose ages are all missing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import nvtabular
import pandas as pd
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.workflow import TransformWorkflow
from nvtabular import WorkflowNode, ops

ROWS = 200


def main(destination: str) -> None:
    random = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "user": random.integers(0, 1000, ROWS),
            "item": random.choice(["hat", "shoe", "book"], ROWS),
            "price": random.uniform(0, 100, ROWS).astype("float32"),
            "age": np.where(random.random(ROWS) < 0.2, np.nan, random.uniform(1, 90, ROWS)),
        }
    )
    hashed = ["user", "item"] >> ops.HashBucket(100)
    price = ["price"] >> ops.Clip(0, 90) >> ops.LogOp() >> ops.Normalize()
    age = ["age"] >> ops.FillMedian() >> ops.Normalize()
    export(frame, hashed + price + age, Path(destination, "plain"))
    columns = ["price", "age"] >> ops.Dropna() >> ops.Normalize()
    export(frame[["price", "age"]], columns, Path(destination, "dropna"))


def export(frame: pd.DataFrame, columns: WorkflowNode, destination: Path) -> None:
    workflow = nvtabular.Workflow(columns)
    workflow.fit(nvtabular.Dataset(frame))
    graph = workflow.input_schema.column_names >> TransformWorkflow(workflow)
    destination.mkdir(parents=True)
    Ensemble(graph, workflow.input_schema).export(str(destination))


if __name__ == "__main__":
    main(*sys.argv[1:])
