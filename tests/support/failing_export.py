"""Exports whose functions fail, print, or change their process, as the request's `mode` says.

Run in the models' environment, in an empty directory: failing_export.py DEST

DEST/NAME       what Ensemble.export wrote
DEST/predictor  the workflow of DEST/part, with a predictor behind it
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import nvtabular
import pandas as pd
import torch
from merlin.dag import BaseOperator
from merlin.dag.ops.udf import UDF
from merlin.schema import ColumnSchema, Schema
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.pytorch import PredictPyTorch
from merlin.systems.dag.ops.workflow import TransformWorkflow
from nvtabular import ops

FITTED = pd.DataFrame(
    {"mode": np.zeros(10, "int64"), "price": np.arange(10.0), "weight": np.arange(10.0)}
)


class Unspeakable(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


def fail(mode: int) -> None:
    if mode == 1:
        raise ValueError(f"mode {mode} is not welcome")
    if mode == 2:
        raise KeyError("weekday")
    if mode == 3:
        import nowhere_to_be_found  # type: ignore[import-not-found]  # noqa: F401
    if mode == 4:
        never_defined  # type: ignore[name-defined]  # noqa: B018, F821
    if mode == 5:
        os.no_such_function()  # type: ignore[attr-defined]
    if mode == 6:
        eval("1 +")
    if mode == 7:
        raise Unspeakable
    if mode == 8:
        raise ValueError("column 'price': " + "long\n" * 9_000 + "\udce4")
    if mode == 9:
        fail(mode)


def end(mode: int) -> None:
    if mode == 20:
        sys.exit(3)
    if mode == 21:
        raise KeyboardInterrupt
    if mode == 22:
        os._exit(3)


def moody(column: Any) -> Any:
    mode = int(next(iter(column)))
    fail(mode)
    end(mode)
    if mode == 10:
        return column.array_of_nothing
    if mode == 11:
        return None
    if mode == 30:
        print("the function says hello")
    if mode == 31:
        return column * 0 + np.random.rand()
    if mode == 32:
        np.seterr(all="raise")
    if mode == 33:
        return np.float64(1) / np.float64(0) + column
    if mode == 34:
        os.chdir("/")
    if mode == 35:
        return column * 0 + len(os.getcwd())
    if mode == 36:
        warnings.simplefilter("error")
    if mode == 38:
        thread = threading.Thread(target=fail, args=(1,))
        thread.start()
        thread.join()
    return column * 1.0


class Recency(BaseOperator):  # type: ignore[misc]  # Merlin has no types here
    def transform(self, col_selector: Any, transformable: Any) -> Any:
        columns = {name: moody(transformable[name]) for name in col_selector.names}
        return type(transformable)(columns)


def keep(frame: Any) -> Any:
    moody(frame["mode"])
    return frame


def turn(column: Any) -> Any:
    return column.astype(str) if column.iloc[0] == 40 else column * 1.0


def count(column: Any) -> Any:
    if column.iloc[0] == 13 and column.name == "weight":
        raise ValueError("thirteen")
    return column * 2


class Score(torch.nn.Module):  # type: ignore[misc]  # nor has torch
    def forward(self, columns: dict[str, torch.Tensor]) -> torch.Tensor:
        return columns["mode"] + 0 * columns["price"]


def predict() -> Any:
    columns = {name: torch.ones(3, dtype=torch.float64) for name in ("mode", "price")}
    schemas = [
        Schema([ColumnSchema(it, dtype="float64") for it in its]) for its in (columns, ["score"])
    ]
    return PredictPyTorch(torch.jit.trace(Score(), (columns,), strict=False), *schemas)


def filled(*names: str) -> Any:
    return list(names) >> ops.FillMissing()


WORKFLOWS = {
    "part": lambda: (["mode"] >> ops.LambdaOp(moody)) + filled("price"),
    # A Categorify without a cache is neither compiled nor kept.
    "whole": lambda: (
        (["mode"] >> ops.LambdaOp(moody))
        + (["mode"] >> ops.Rename(postfix="_key") >> ops.Categorify(cat_cache=None))
    ),
    "filter": lambda: filled("mode", "price") >> ops.Filter(keep),
    "own": lambda: (["mode"] >> Recency()) + filled("price"),
    "later": lambda: (
        (["mode"] >> ops.LambdaOp(turn) >> ops.FillMissing())
        + (["price", "weight"] >> ops.LambdaOp(count))
    ),
}


def main(destination: str, *names: str) -> None:
    for name in names or WORKFLOWS:
        workflow = nvtabular.Workflow(WORKFLOWS[name]())
        workflow.fit(nvtabular.Dataset(FITTED))
        graph = workflow.input_schema.column_names >> TransformWorkflow(workflow)
        Ensemble(graph, workflow.input_schema).export(str(Path(destination, name)))
        if name == "part":
            predictor = graph >> predict()
            Ensemble(predictor, workflow.input_schema).export(str(Path(destination, "predictor")))
        if name == "whole":
            executor = graph >> UDF(moody)
            Ensemble(executor, workflow.input_schema).export(str(Path(destination, "executor")))


if __name__ == "__main__":
    main(*sys.argv[1:])
