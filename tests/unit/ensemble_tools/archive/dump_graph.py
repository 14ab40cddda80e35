"""Run by the models' Python: the graph of an ensemble.pkl as Merlin itself sees it, as JSON."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")

from merlin.dag import postorder_iter_nodes  # noqa: E402  # after its warnings are silenced
from merlin.systems.dag import Ensemble  # noqa: E402


def columns(schema: Any) -> list[list[Any]]:
    return [
        [name, None if column.dtype.name == "unknown" else column.dtype.name, column.is_ragged]
        for name, column in (schema.column_schemas.items() if schema else ())
    ]


def graph(ensemble: Any) -> list[dict[str, Any]]:
    ordered = list(postorder_iter_nodes(ensemble.graph.output_node))
    place = {id(node): number for number, node in enumerate(ordered)}
    return [
        {
            "class": f"{type(node.op).__module__}.{type(node.op).__name__}",
            "model": next((v for k, v in vars(node.op).items() if k.endswith("_model_name")), None),
            "upstream": [place[id(other)] for other in node.parents_with_dependencies],
            "selection": node.input_columns.resolve(node.input_schema).names,
            "inputs": node.input_schema.column_names,
            "dependency_columns": node.dependency_columns.names,
            "output": columns(node.output_schema),
            "operator_in": columns(getattr(node.op, "input_schema", None)),
            "operator_out": columns(getattr(node.op, "output_schema", None)),
        }
        for node in ordered
    ]


print(json.dumps([graph(Ensemble.load(path)) for path in sys.argv[1:]]))
