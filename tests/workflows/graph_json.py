"""Writes a fitted workflow as graph.json, as NVTabular does from commit 08e0633 on.

That NVTabular is not on PyPI. What it writes is written here of what 23.08 has fitted, from its
graph_serializer: the numbering of nodes, the fields of each operator, and the files beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from merlin.dag import ColumnSelector

#: Operators whose parameters are saved under the names that their constructors have.
_PLAIN = {
    "FillMissing": ("fill_val", "add_binary_cols"),
    "FillMedian": ("add_binary_cols",),
    "Normalize": (),
    "NormalizeMinMax": (),
    "Clip": ("min_value", "max_value"),
    "LogOp": (),
    "HashBucket": ("num_buckets",),
    "Bucketize": (),
    "ListSlice": ("start", "end", "pad", "pad_value"),
    "Dropna": (),
    "Rename": ("postfix", "name"),
    "LambdaOp": (),
    "Filter": (),
    "Categorify": (
        *("freq_threshold", "on_host", "encode_type", "name_sep", "search_sorted", "num_buckets"),
        *("max_size", "single_table", "split_out", "split_every"),
    ),
    "TargetEncoding": (
        *("target_mean", "kfold", "fold_seed", "p_smooth", "out_col", "split_out", "split_every"),
        *("on_host", "name_sep", "drop_folds"),
    ),
    "JoinGroupby": ("split_out", "split_every", "on_host", "name_sep"),
}
_FITTED = ("means", "stds", "mins", "maxs", "medians")
_MODULES = {
    **dict.fromkeys(("FillMissing", "FillMedian"), "fill"),
    **dict.fromkeys(("Normalize", "NormalizeMinMax"), "normalize"),
    "HashBucket": "hash_bucket",
    "ListSlice": "list_slice",
    "TargetEncoding": "target_encoding",
    "JoinGroupby": "join_groupby",
}


class NoForm(Exception):
    """The format has none for it, or NVTabular cannot read it again."""


def write_graph_json(workflow: Any, directory: Path) -> None:
    """graph.json and artifacts/, in an existing directory. Raises NoForm."""
    try:
        text = json.dumps(
            {"format_version": 1, **_graph(workflow.output_node, directory)}, indent=2
        )
    except TypeError as error:  # numpy's own numbers
        raise NoForm(str(error)) from error
    (directory / "graph.json").write_text(text)


def _graph(output: Any, directory: Path) -> dict[str, Any]:
    """Breadth first from the output, and turned around."""
    seen: dict[int, Any] = {}
    waiting = [output]
    while waiting:
        node = waiting.pop(0)
        if id(node) not in seen:
            seen[id(node)] = node
            waiting.extend(node.parents_with_dependencies)
    numbers = {key: number for number, key in enumerate(reversed(seen))}
    nodes = [_node(seen[key], number, numbers, directory) for key, number in numbers.items()]
    return {"output_node_id": numbers[id(output)], "nodes": nodes}


def _node(node: Any, number: int, numbers: dict[int, int], directory: Path) -> dict[str, Any]:
    dependencies = []
    for one in node.dependencies:
        dependencies += one if isinstance(one, list) else [one]
    path, params, state = _operator(node, directory / "artifacts" / f"node_{number}")
    return {
        "id": number,
        "op_class": path,
        "op_params": params,
        "op_state": state,
        "parent_ids": [numbers[id(one)] for one in node.parents],
        "dependency_ids": [numbers[id(one)] for one in dependencies],
        "selector": _selector(node.selector),
        "input_schema": _schema(node.input_schema),
        "output_schema": _schema(node.output_schema),
    }


def _operator(node: Any, artifacts: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    operator = node.op
    name = next((it.__name__ for it in type(operator).__mro__ if it.__name__ in _KNOWN), "")
    if not name:
        raise NoForm(type(operator).__name__)
    if name in _DAG:
        return f"merlin.dag.ops.{_DAG[name]}.{name}", *_KNOWN[name](operator, artifacts)
    if name == "UDF":
        name = "LambdaOp"
    combined = any(len(group) > 1 for group in _groups(node))
    if combined and name in _GROUPED and getattr(operator, "encode_type", "") != "joint":
        raise NoForm("columns that are combined")
    params, state = _KNOWN[name](operator, artifacts)
    return f"nvtabular.ops.{_MODULES.get(name, name.lower())}.{name}", params, state


def _groups(node: Any) -> list[list[str]]:
    return [group.names for group in node.selector.subgroups] if node.selector else []


Saved = tuple[dict[str, Any], dict[str, Any]]


def _plain(name: str) -> Callable[[Any, Path], Saved]:
    """Parameters as they are, and what was fitted."""

    def save(operator: Any, artifacts: Path) -> Saved:
        params = {field: getattr(operator, field) for field in _PLAIN[name]}
        state: dict[str, Any] = {
            field: {str(key): float(value) for key, value in getattr(operator, field).items()}
            for field in _FITTED
            if hasattr(operator, field)
        }
        if hasattr(operator, "out_dtype"):
            params["out_dtype"] = _type(operator.out_dtype, coded=name == "TargetEncoding")
        if name == "Categorify":
            params["dtype"] = _type(operator.dtype, coded=True)
            limit = operator.cardinality_memory_limit
            params["cardinality_memory_limit"] = None if limit is None else str(limit)
        if hasattr(operator, "cat_cache"):
            params["cat_cache"] = operator.cat_cache if type(operator.cat_cache) is str else "host"
        if hasattr(operator, "storage_name"):
            state["storage_name"] = {str(k): str(v) for k, v in operator.storage_name.items()}
        if name == "Bucketize":
            params["boundaries"] = _boundaries(operator)
        if name in ("Rename", "LambdaOp", "Filter"):
            params["f"] = _function(operator.f)
        if name == "LambdaOp":
            dependency = operator.dependency or []
            params["dependency"] = [dependency] if isinstance(dependency, str) else dependency
            params |= {"dtype": None, "tags": [], "properties": {}}
        if name == "TargetEncoding":
            params["target_cols"] = list(operator.target_columns)
        if name == "JoinGroupby":
            columns = operator.cont_cols  # a selector, or a node
            known = isinstance(columns, ColumnSelector)
            params["cont_cols"] = list(columns.names) if known else None
            params["stats"] = list(operator.stats)
        for field in ("categories", "stats"):
            if isinstance(getattr(operator, field, None), dict):
                state[field] = _files(operator, field, artifacts)
        return params, state

    return save


def _files(operator: Any, field: str, artifacts: Path) -> list[dict[str, Any]]:
    """Copied by NVTabular itself; the paths are below the operator's own directory."""
    artifacts.mkdir(parents=True, exist_ok=True)
    before, out_path = dict(getattr(operator, field)), operator.out_path
    operator.set_storage_path(str(artifacts), copy=True)
    records = [
        {
            "key": list(key) if isinstance(key, tuple) else [key],
            "path": os.path.relpath(str(path), artifacts),
        }
        for key, path in getattr(operator, field).items()
    ]
    setattr(operator, field, before)
    operator.out_path = out_path
    return records


def _boundaries(operator: Any) -> Any:
    closure = operator.boundaries.__closure__
    if closure is None:
        raise NoForm("boundaries of a function")
    found = closure[0].cell_contents
    if not isinstance(found, list | tuple | dict):
        raise NoForm("boundaries of a function")
    return found


def _function(function: Any) -> dict[str, str] | None:
    if function is None:
        return None
    module = getattr(function, "__module__", None)
    if not module or module == "__main__" or "<" in function.__qualname__:
        raise NoForm("a function without a module")
    return {"module": module, "qualname": function.__qualname__}


def _subgraph(operator: Any, artifacts: Path) -> Saved:
    inner = _graph(operator.graph.output_node, artifacts)
    return {"name": operator.name, "loop_until": None, "inner_graph": inner}, {}


def _type(dtype: Any, coded: bool) -> dict[str, Any] | None:
    if dtype is None:
        return None
    return {"name": np.dtype(dtype).str if coded else str(dtype)}


def _selector(selector: Any) -> dict[str, Any] | None:
    if selector is None:
        return None
    return {"names": list(selector.names), "tags": [str(tag) for tag in selector.tags]}


def _schema(schema: Any) -> list[dict[str, Any]] | None:
    if schema is None:
        return None
    return [_column(column) for column in schema.column_schemas.values()]


def _column(column: Any) -> dict[str, Any]:
    dtype = column.dtype
    fields: dict[str, Any] = {"name": dtype.name}
    for name in ("element_type", "element_size", "element_unit", "signed"):
        value = getattr(dtype, name)
        if value is not None:
            fields[name] = getattr(value, "value", value)
    if dtype.shape is not None and dtype.shape.dims is not None:
        fields["shape"] = [{"min": dim.min, "max": dim.max} for dim in dtype.shape.dims]
    return {
        "name": column.name,
        "tags": [str(tag) for tag in column.tags],
        "properties": column.properties,
        "dtype": fields,
        "is_list": column.is_list,
        "is_ragged": column.is_ragged,
    }


#: Of merlin.dag, and their modules.
_DAG = {"SelectionOp": "selection", "ConcatColumns": "concat_columns", "Subgraph": "subgraph"}
#: They know their columns by groups.
_GROUPED = ("Categorify", "TargetEncoding", "JoinGroupby")
_KNOWN: dict[str, Callable[[Any, Path], Saved]] = {
    "SelectionOp": lambda operator, _: ({"selector": _selector(operator.selector)}, {}),
    "ConcatColumns": lambda _, __: ({}, {}),
    "Subgraph": _subgraph,
    "AddMetadata": lambda operator, _: (
        {"tags": [str(tag) for tag in operator.tags], "properties": operator.properties},
        {},
    ),
    "UDF": _plain("LambdaOp"),
    **{name: _plain(name) for name in _PLAIN},
}
_MODULES["AddMetadata"] = "add_metadata"
