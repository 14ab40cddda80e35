"""graph.json -> the objects that the workflow's pickle would hold, as data.

NVTabular saves a workflow as graph.json and files beside it from commit 08e0633 (March 2026) on,
and no longer as a pickle. The objects are inert (Inert), as those of a pickle are, so whoever
reads a graph need not know which of both it was. NVTabular alone writes these files: what it would
not read, or has not written so, is told with the node and the field.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from ensemble_tools.archive.files import read_bounded
from ensemble_tools.archive.inert_pickle import Inert
from ensemble_tools.archive.json_fields import MAX_BYTES, NONE, Fields, NotAWorkflow, parse_json
from ensemble_tools.archive.nvtabular_release import list_attributes
from ensemble_tools.archive.operator_forms import (
    FORMS,
    NODE,
    SUBGRAPH,
    SavedOperator,
    make,
    read_selector,
)
from ensemble_tools.errors import quoted

#: NVTabular writes and reads this one (graph_serializer.deserialize_graph).
FORMAT_VERSION = 1
#: Subgraphs within each other.
MAX_DEPTH = 20
#: Nodes of a circle that a message names.
_SHOWN = 10

#: Parameters of a function's operator that are about schemas, which are saved themselves.
_OF_SCHEMAS = {"dtype", "tags", "properties"}


def read_graph_json(path: Path) -> Inert | None:
    """The workflow as an inert object, None when there is no such file.

    Raises NotAWorkflow, and as read_bounded does. Paths of artifacts are those in this directory.
    """
    data = read_bounded(path, MAX_BYTES)
    if data is None:
        return None
    graph = Fields(parse_json(data), "the file")
    version = graph.field("format_version", int, default=FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise NotAWorkflow(f"its format_version is {version}, and {FORMAT_VERSION} is known")
    workflow = make("nvtabular.workflow.workflow.Workflow")
    workflow.state["graph"] = _read_graph(graph, path.parent, path.parent, 0)
    return workflow


def _read_graph(graph: Fields, workflow: Path, directory: Path, depth: int) -> Inert:
    """directory: of the artifacts; a Subgraph has its own."""
    if depth > MAX_DEPTH:
        raise NotAWorkflow(f"it has more than {MAX_DEPTH} Subgraphs within each other")
    records: dict[int, Fields] = {}
    for record in graph.list_objects("nodes", "node at place"):
        number = record.field("id", int)
        if number in records:
            raise record.refuse("id", f"is {number}, as another node's is")
        record.where = f"node {number}"
        records[number] = record
    nodes: dict[int, Inert] = {}
    for number in _in_order(records):
        nodes[number] = _read_node(number, records[number], nodes, workflow, directory, depth)
    output = graph.field("output_node_id", int)
    if output not in nodes:
        raise graph.refuse("output_node_id", f"is {output}, and there is no such node")
    return make("merlin.dag.graph.Graph", output_node=nodes[output])


def _in_order(records: dict[int, Fields]) -> list[int]:
    """Each node after those that it needs.

    NVTabular reads them in the order of their ids, and fails on a graph in which a node is needed
    at two depths: it numbers such a node after one that needs it. What is meant is certain.
    """
    needed: dict[int, list[int]] = {}
    for number, record in records.items():
        needed[number] = [*record.ids("parent_ids"), *record.ids("dependency_ids")]
        for name in ("parent_ids", "dependency_ids"):
            for other in record.ids(name):
                if other not in records:
                    raise record.refuse(name, f"has {other}, and there is no such node")
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        circle = ", ".join(map(str, error.args[1][:_SHOWN]))
        raise NotAWorkflow(f"its nodes go in a circle ({circle})") from error


def _read_node(
    number: int,
    record: Fields,
    nodes: dict[int, Inert],
    workflow: Path,
    directory: Path,
    depth: int,
) -> Inert:
    path = record.field("op_class", str)
    if path not in FORMS:
        raise record.refuse("op_class", f"is {quoted(path)}, which has no form in it")
    record.where = f"node {number} ({path.rpartition('.')[2]})"
    selector = read_selector(record, "selector")
    saved = SavedOperator(
        record.inner("op_params"),
        record.inner("op_state"),
        selector.state["_names"] if selector else [],
        workflow,
        directory / "artifacts" / f"node_{number}",
    )
    attributes = {}
    if path == SUBGRAPH:
        inner = saved.params.inner("inner_graph")
        attributes["graph"] = _read_graph(inner, workflow, saved.artifacts, depth + 1)
    operator = make(path, **attributes, **FORMS[path](saved))
    operator.state |= dict.fromkeys(_find_unknown(path, saved))
    return make(
        NODE,
        op=operator,
        parents=[nodes[other] for other in record.ids("parent_ids")],
        dependencies=[nodes[other] for other in record.ids("dependency_ids")],
        _selector=selector,
        input_schema=_schema(record, "input_schema"),
        output_schema=_schema(record, "output_schema"),
    )


def _find_unknown(path: str, saved: SavedOperator) -> set[str]:
    """Parameters that the operator of 23.08 has not: another one wrote them, for what they do."""
    known = list_attributes(path)
    if known is None:
        return set()
    return (saved.params.rest | saved.state.rest) - known - _OF_SCHEMAS


def _schema(record: Fields, name: str) -> Inert:
    columns = {}
    for fields in record.list_objects(name, f"{name}, column"):
        columns[fields.field("name", str)] = make(
            "merlin.schema.schema.ColumnSchema",
            dtype=_dtype(fields),
            is_list=fields.field("is_list", bool, NONE, default=None),
            is_ragged=fields.field("is_ragged", bool, NONE, default=None),
        )
    return make("merlin.schema.schema.Schema", column_schemas=columns)


def _dtype(column: Fields) -> Inert | None:
    if column.field("dtype", dict, NONE, default=None) is None:
        return None
    fields = column.inner("dtype")
    name = fields.field("name", str)
    shape = None
    if fields.field("shape", list, NONE, default=None) is not None:
        dims = (
            make(
                "merlin.dtypes.shape.Dimension",
                min=bounds.field("min", int),
                max=bounds.field("max", int, NONE),
            )
            for bounds in fields.list_objects("shape", "dimension")
        )
        shape = make("merlin.dtypes.shape.Shape", dims=tuple(dims))
    return make("merlin.dtypes.base.DType", name=name, shape=shape)
