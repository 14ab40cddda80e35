"""Prints what Merlin exports mean as JSON: graphs, fitted parameters, category tables, models.

Run it with the models' environment: .venv-merlin/bin/python describe.py REPOSITORY...
It loads the exports with Merlin itself, so it runs their pickles: for exports of one's own only.
Two exports of one recipe differ in their bytes (time stamps, paths, pickled sets), not in this.
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")

import nvtabular
import pandas as pd
import torch
from merlin.dag import BaseOperator, Node, postorder_iter_nodes
from merlin.schema import Schema
from merlin.systems.dag import Ensemble

# Categorify writes down a share of the memory that the exporting machine had.
OF_THE_MACHINE = "cardinality_memory_limit"


def describe(repository: Path) -> dict[str, Any]:
    """Everything about one export that serving it depends on, besides its configs."""
    steps = sorted(path for path in repository.iterdir() if path.name != "executor_model")
    ensemble = Ensemble.load(str(repository / "executor_model" / "1" / "ensemble"))
    return {
        "graph": nodes(ensemble.graph.output_node),
        "steps": {step.name: describe_step(step / "1") for step in steps},
    }


def describe_step(version: Path) -> dict[str, Any]:
    if (version / "workflow").is_dir():
        return describe_workflow(version / "workflow")
    return describe_torch(version / "model.pt")


def describe_workflow(path: Path) -> dict[str, Any]:
    workflow = nvtabular.Workflow.load(str(path))
    tables = sorted((path / "categories").glob("*.parquet"))
    return {
        "nodes": nodes(workflow.graph.output_node),
        "categories": {
            table.name: pd.read_parquet(table).reset_index().to_dict("list") for table in tables
        },
    }


def describe_torch(path: Path) -> dict[str, Any]:
    model = torch.jit.load(str(path))
    return {
        # TorchScript numbers types of equal names in the order in which a process meets them.
        "code": re.sub(r"___torch_mangle_\d+\.", "", model.code),
        "state": {
            name: [str(value.dtype), value.tolist()] for name, value in model.state_dict().items()
        },
    }


def nodes(output: Node) -> list[dict[str, Any]]:
    """The graph's nodes in post-order; parents and dependencies by their places."""
    ordered = list(postorder_iter_nodes(output))
    index_of = {id(node): index for index, node in enumerate(ordered)}
    return [
        {
            "operator": type(node.op).__name__,
            "attributes": attributes(node.op) if node.op else None,
            "selector": node.selector.names if node.selector else None,
            "parents": [index_of[id(parent)] for parent in node.parents],
            "dependencies": [index_of.get(id(other), str(other)) for other in node.dependencies],
            "input": columns(node.input_schema),
            "output": columns(node.output_schema),
        }
        for node in ordered
    ]


def attributes(operator: BaseOperator) -> dict[str, Any]:
    kept = {name: value for name, value in vars(operator).items() if name != OF_THE_MACHINE}
    return {name: plain(value) for name, value in kept.items()}


def columns(schema: Schema | None) -> list[list[Any]]:
    return [
        [
            column.name,
            column.dtype.name,
            str(column.shape),
            column.is_list,
            column.is_ragged,
            sorted(tag.value for tag in column.tags),
        ]
        for column in schema or ()
    ]


def plain(value: Any) -> Any:
    """As JSON: of a path the last part, of a schema its columns, of an object its class."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return value.rpartition("/")[2]
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, Schema):
        return columns(value)
    return value.__name__ if isinstance(value, type) else type(value).__name__


if __name__ == "__main__":
    print(json.dumps({name: describe(Path(name)) for name in sys.argv[1:]}))
