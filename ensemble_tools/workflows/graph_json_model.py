"""Reads a workflow's graph.json in the models' Python, for an NVTabular that cannot.

NVTabular reads it from commit 08e0633 on; its operators are those of 23.08. Each is made here of
its parameters by its own class, and is given what it was fitted to. Functions are imported: from
beside the model's file, or from what the models' Python has. NVTabular is imported where its
classes are made, not where a program has others in their place (load_operators).
"""

import importlib
import importlib.util
import json
import os
import re
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np

#: Fitted state that is files, by columns.
FILES = ("categories", "stats")
#: A class of numpy's, as str() writes it: NVTabular saves one so, and cannot read it again.
CLASS = re.compile(r"<class '(?:numpy\.)?(\w+)'>")
#: Classes that NVTabular has under two names.
TOLD_ELSEWHERE = {"nvtabular.ops.lambdaop.LambdaOp": "merlin.dag.ops.udf.UDF"}
#: Parameters of a function's operator that are about schemas, which are saved themselves.
OF_SCHEMAS = ("dtype", "tags", "properties")


class Refused(Exception):
    """A function that the workflow names cannot be had; the message says what to do."""


def set_reader():
    """Gives NVTabular this reader, unless it has its own."""
    import nvtabular

    if importlib.util.find_spec("nvtabular.workflow.graph_serializer") is None:
        nvtabular.Workflow.load = staticmethod(load)


def load(directory):
    """The workflow, as nvtabular.Workflow.load returns one. directory: of graph.json."""
    import nvtabular
    from merlin.dag.executors import DaskExecutor

    directory = Path(directory)
    saved = json.loads((directory / "graph.json").read_text(encoding="utf-8"))
    workflow = object.__new__(nvtabular.Workflow)
    workflow.graph = read_graph(saved, directory, directory.parent)
    workflow.executor = DaskExecutor(None)
    return workflow


def load_operators(directory):
    """The operators that pandas_operators.py has, by the paths of their nodes; others are None.

    Raises NeedsNVTabular, which a function's module has imported.
    """
    from compiled_workflow.pandas_operators import CLASSES, NeedsNVTabular, imported_packages
    from compiled_workflow.unpickling import walk_nodes

    saved = json.loads((directory / "graph.json").read_text(encoding="utf-8"))
    before, operators = imported_packages(), {}
    for path, record in walk_nodes(link_records(saved), read_upstream, find_inner_output):
        op_class = TOLD_ELSEWHERE.get(record["op_class"], record["op_class"])
        module, _, name = op_class.rpartition(".")
        known = CLASSES.get((module, name))
        operators[path] = known and read_operator(record, directory, directory.parent, known)
    if imported_packages() != before:
        raise NeedsNVTabular("a module of its functions imports NVTabular")
    return operators


def link_records(graph):
    """The record of its last node; each has those of the nodes that it needs."""
    records = {record["id"]: record for record in graph["nodes"]}
    for number, needed in read_needed(records).items():
        records[number]["upstream"] = [records[other] for other in needed]
    return records[graph["output_node_id"]]


def read_upstream(record):
    return record["upstream"]


def find_inner_output(record):
    inner = record["op_params"].get("inner_graph")
    return None if inner is None else link_records(inner)


def read_needed(records):
    """The nodes that each needs: parents, then dependencies."""
    return {
        number: [*record.get("parent_ids", []), *record.get("dependency_ids", [])]
        for number, record in records.items()
    }


def read_graph(saved, directory, beside):
    """directory: of the artifacts. beside: where the archive has its own modules."""
    from merlin.dag import Graph, Node

    nodes, records = {}, {record["id"]: record for record in saved["nodes"]}
    needed = read_needed(records)
    for record in map(records.get, TopologicalSorter(needed).static_order()):
        artifacts = directory / "artifacts" / f"node_{record['id']}"
        node = nodes[record["id"]] = Node()
        node.op = read_operator(record, artifacts, beside)
        node.selector = read_selector(record.get("selector"))
        node.input_schema = read_schema(record["input_schema"])
        node.output_schema = read_schema(record["output_schema"])
        for number in record.get("parent_ids", []):
            node.add_parent(nodes[number])
        for number in record.get("dependency_ids", []):
            node.add_dependency(nodes[number])
    return Graph(nodes[saved["output_node_id"]])


def read_operator(record, artifacts, beside, operator_class=None):
    """operator_class: another than the one that is named."""
    module, _, name = record["op_class"].rpartition(".")
    if operator_class is None:
        operator_class = getattr(importlib.import_module(module), name)
    parameters, state = dict(record["op_params"]), record["op_state"]
    if name in ("LambdaOp", "UDF"):
        parameters = {key: it for key, it in parameters.items() if key not in OF_SCHEMAS}
        parameters["dependency"] = parameters.get("dependency") or None
    for key in ("f", "loop_until"):
        if parameters.get(key) is not None:
            parameters[key] = find_function(parameters[key], name, beside)
    for key in ("dtype", "out_dtype"):
        if parameters.get(key) is not None:
            parameters[key] = read_numpy_type(parameters[key]["name"])
    if "selector" in parameters:
        parameters["selector"] = read_selector(parameters["selector"])
    if "target_cols" in parameters:
        parameters["target"] = parameters.pop("target_cols")
    if "inner_graph" in parameters:
        inner = read_graph(parameters.pop("inner_graph"), artifacts, beside)
        parameters["output_node"] = inner
    operator = operator_class(**parameters)
    for key, value in state.items():
        setattr(operator, key, read_files(value, artifacts) if key in FILES else value)
    if any(key in state for key in FILES):
        operator.out_path = str(artifacts)
    return operator


def read_files(records, artifacts):
    """The files that an operator was fitted into, by the columns that they are of."""
    return {
        tuple(record["key"]) if len(record["key"]) > 1 else record["key"][0]: os.path.normpath(
            artifacts / record["path"]
        )
        for record in records
    }


def read_numpy_type(text):
    match = CLASS.fullmatch(text)
    return np.dtype(match[1] if match else text)


def read_selector(saved):
    from merlin.dag import ColumnSelector

    return ColumnSelector(saved["names"]) if saved else None


def read_schema(saved):
    from merlin.schema import Schema

    return Schema([read_column(column) for column in saved])


def read_column(saved):
    from merlin.schema import ColumnSchema

    return ColumnSchema(
        saved["name"],
        tags=[read_tag(text) for text in saved.get("tags") or []],
        properties=saved.get("properties") or {},
        dtype=read_type(saved.get("dtype")),
        is_list=saved.get("is_list"),
        is_ragged=saved.get("is_ragged"),
    )


def read_tag(text):
    from merlin.schema import Tags

    name = text.rpartition(".")[2]
    return Tags[name] if name in Tags.__members__ else text


def read_type(saved):
    """The shape is in the column's flags and properties."""
    import merlin.dtypes as md
    from merlin.dtypes.base import ElementType, ElementUnit

    if saved is None:
        return None
    element, unit = saved.get("element_type"), saved.get("element_unit")
    return md.DType(
        saved["name"],
        element_type=None if element is None else ElementType(element),
        element_size=saved.get("element_size"),
        element_unit=None if unit is None else ElementUnit(unit),
        signed=saved.get("signed"),
    )


def find_function(named, operator, beside):
    """A function by its module and its name in it.

    A module beside the model's file is the archive's own, whatever the models' Python has.
    """
    module, path = named["module"], named["qualname"]
    top = module.partition(".")[0]
    calls = f"{operator} of its workflow calls {path} of the module {module}"
    is_own = any((beside / name).exists() for name in (top, f"{top}.py"))
    if is_own and top in sys.modules and not lies_in(sys.modules[top], beside):
        raise Refused(f"{calls}, whose name another module has here: give it another name")
    try:
        value = import_module(module, [str(beside)] if is_own else [])
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise Refused(
            f"{calls}, which the models' Python does not have: put {top}.py, or the package "
            f"{top}/, into the archive beside the step's model.py, or install it into the image"
        ) from error
    try:
        for part in path.split("."):
            value = getattr(value, part)
    except AttributeError as error:
        raise Refused(f"{calls}, which has no {path}") from error
    return value


def lies_in(module, directory):
    paths = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(path and directory in Path(path).parents for path in paths)


def import_module(name, first):
    """The module. first: what stands in front of sys.path meanwhile."""
    before = list(sys.path)
    sys.path[:0] = first
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = before
