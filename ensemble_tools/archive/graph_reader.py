"""ensemble.pkl, or a workflow's file -> ExecutorGraph.

Merlin is not imported, and no pickled code is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node, Operator, SchemaColumn
from ensemble_tools.archive.executor_template import read_template
from ensemble_tools.archive.inert_pickle import (
    Inert,
    NotInert,
    Unpicklable,
    class_name,
)
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.saved_workflow import read_objects
from ensemble_tools.archive.source_model import PYTHON_FILE
from ensemble_tools.errors import GraphNotInert, GraphUnreadable, quoted

#: The operator's attribute that names its Triton model: _nvt_model_name, _torch_model_name, ...
_MODEL_NAME = re.compile(r"_[a-z0-9]+_model_name")
#: Nodes, edges and columns read, over all of the graph. A few bytes of a pickle can put one list
#: into thousands of places; a graph of a hundred nodes with a thousand columns each stays below.
MAX_PARTS = 1_000_000
#: numpy's codes of data types in Merlin's words. merlin-systems 0.8 and 0.9 have numpy's own types
#: in their schemas, and take objects for strings (_convert_dtype).
_NUMPY_TYPES = {
    "b1": "bool",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "O8": "string",
}
_NUMPY_DTYPE = "numpy.dtype"
_NUMPY_TEXTS = re.compile(r"[US]\d+")


def read_executor_graph(repository: ModelRepository) -> ExecutorGraph | None:
    """The graph of the repository's entry model, or None when that is no executor model.

    Without nodes, and with the reason, where it cannot be read as data: Merlin's own code may read
    it. Raises GraphUnreadable, naming the file, when the pickle is truncated or no graph.
    """
    path = repository.graph_path
    if path is None:
        return None
    template = read_template(path.parent.parent / (repository.entry.named_file or PYTHON_FILE))
    try:
        graph = read_graph_file(path)
    except GraphNotInert as error:
        graph = ExecutorGraph((), unread=error.reason)
    return replace(
        graph,
        customised=template.customised,
        outdated="" if template.converts else template.release,
    )


def read_graph_file(path: Path) -> ExecutorGraph:
    """Read one ensemble.pkl, or the file that holds a workflow.

    Raises GraphNotInert for what takes too much to read as data, or is not understood;
    GraphUnreadable for what Merlin cannot read either, and as read_with does.
    """
    try:
        objects = read_objects(path)
        if objects is None:
            raise GraphUnreadable(path, "there is no such file")
        return _GraphReader().read(_state(objects, "graph"))
    except Unpicklable as error:
        raise GraphUnreadable(path, str(error)) from error
    except NotInert as error:
        raise GraphNotInert(path, str(error)) from error
    except _NotAGraph as error:
        raise GraphUnreadable(path, f"it holds no executor graph ({error})") from error
    except RecursionError as error:
        raise GraphUnreadable(path, "its graph is nested too deeply") from error


class _NotAGraph(Exception):
    """An object in the pickle is not what merlin-core puts in its place."""


class _GraphReader:
    """Reads each graph once, however many Subgraph operators share it; counts what it reads."""

    def __init__(self) -> None:
        self._graphs: dict[int, ExecutorGraph] = {}
        self._operators: dict[int, Operator] = {}
        self._parts = 0

    def read(self, graph: Any) -> ExecutorGraph:
        if id(graph) not in self._graphs:
            ordered = self._post_order(_state(graph, "output_node"))
            numbers = {id(node): number for number, node in enumerate(ordered)}
            nodes = tuple(self._node(node, numbers) for node in ordered)
            self._graphs[id(graph)] = ExecutorGraph(nodes)
        return self._graphs[id(graph)]

    def _node(self, node: Any, numbers: dict[int, int]) -> Node:
        columns = self._columns(_state(node, "input_schema"))
        names = tuple(column.name for column in columns)
        selection, groups = self._select(node, names)
        return Node(
            number=numbers[id(node)],
            operator=self._operator(_state(node, "op")),
            upstream=tuple(numbers[id(upstream)] for upstream in self._upstream(node)),
            selection=selection,
            inputs=names,
            dependency_columns=tuple(self._dependency_columns(node)),
            output=self._columns(_state(node, "output_schema")),
            groups=groups,
            columns_in=columns,
            is_leaf=not _list(_state(node, "parents")),
        )

    def _operator(self, op: Any) -> Operator:
        state = _inert(op, "an operator").state
        if id(op) not in self._operators:
            self._operators[id(op)] = self._new_operator(op, state)
        return self._operators[id(op)]

    def _new_operator(self, op: Any, state: dict[str, Any]) -> Operator:
        graph = state.get("graph")
        # Operators of the user's may have something else of that name.
        is_graph = isinstance(graph, Inert) and "output_node" in graph.state
        return Operator(
            class_name=class_name(op),
            label=class_name(op).rpartition(".")[2],
            model_name=_model_name(state),
            columns_in=self._optional_columns(state.get("input_schema")),
            columns_out=self._optional_columns(state.get("output_schema")),
            selector=self._selector_names(state.get("selector")),
            subgraph=self.read(graph) if is_graph else None,
            loops=state.get("loop_until") is not None,
            state=state,
        )

    def _post_order(self, output: Any) -> list[Any]:
        """Every node after the nodes it needs, each once; iterative: graphs may be long."""
        ordered: dict[int, Any] = {}
        open_nodes: set[int] = set()
        stack: list[tuple[Any, Iterator[Any]]] = [(output, iter(self._upstream(output)))]
        open_nodes.add(id(output))
        while stack:
            node, upstream = stack[-1]
            unvisited = next((other for other in upstream if id(other) not in ordered), None)
            if unvisited is None:
                stack.pop()
                open_nodes.discard(id(node))
                ordered[id(node)] = node
            elif id(unvisited) in open_nodes:
                raise _NotAGraph("a node needs its own output")
            else:
                open_nodes.add(id(unvisited))
                stack.append((unvisited, iter(self._upstream(unvisited))))
        return list(ordered.values())

    def _upstream(self, node: Any) -> list[Any]:
        """merlin-core's Node.parents_with_dependencies: parents, then dependencies."""
        return [*self._flat(_state(node, "parents")), *self._flat(_state(node, "dependencies"))]

    def _flat(self, nodes: Any) -> Iterator[Any]:
        for node in _list(nodes):
            inner = node if isinstance(node, list) else [node]
            self._count(len(inner))
            yield from inner

    def _dependency_columns(self, node: Any) -> list[str]:
        """merlin-core's Node.dependency_columns: what the dependencies put out."""
        return [
            column.name
            for upstream in self._flat(_state(node, "dependencies"))
            for column in self._columns(_state(upstream, "output_schema"))
        ]

    def _select(
        self, node: Any, names: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str | tuple[str, ...], ...]]:
        """merlin-core's Node.input_columns.resolve(input_schema), and its grouped_names."""
        selector = _inert(node, "a node").state.get("_selector")
        if selector is None or self._has_tags(selector) or _selects_all(selector):
            return names, names
        chosen, state = self._selector_names(selector), _inert(selector, "a selector").state
        known = {*names}
        selection = tuple(name for name in chosen if name in known) if chosen else names
        present = {*selection}
        groups = [
            tuple(name for name in self._selector_names(group) or () if name in present)
            for group in _list(state.get("subgroups", []))
        ]
        alone = {*_strings(state.get("_names"))}
        single = [name for name in selection if name in alone or not groups]
        return selection, (*single, *dict.fromkeys(group for group in groups if group))

    def _has_tags(self, selector: Any) -> bool:
        groups = _list(_inert(selector, "a selector").state.get("subgroups", []))
        self._count(len(groups))
        return any(
            bool(_inert(group, "a group").state.get("_tags")) for group in [selector, *groups]
        )

    def _selector_names(self, selector: Any) -> tuple[str, ...] | None:
        """Names in a ColumnSelector and its subgroups; None where it selects nothing by name."""
        if not isinstance(selector, Inert):
            return None
        names = [*_strings(selector.state.get("_names"))]
        for group in _list(selector.state.get("subgroups", [])):
            names.extend(self._selector_names(group) or ())
        self._count(1 + len(names))
        return tuple(dict.fromkeys(names)) or None

    def _optional_columns(self, schema: Any) -> tuple[SchemaColumn, ...]:
        return () if schema is None else self._columns(schema)

    def _columns(self, schema: Any) -> tuple[SchemaColumn, ...]:
        columns = _state(schema, "column_schemas")
        if not isinstance(columns, dict):
            raise _NotAGraph("a schema without columns")
        self._count(len(columns))
        return tuple(self._column(name, column) for name, column in columns.items())

    def _column(self, name: Any, column: Any) -> SchemaColumn:
        state = _inert(column, "a column").state
        return SchemaColumn(
            name=_string(name),
            dtype=_dtype(state.get("dtype")),
            is_ragged=bool(state.get("is_ragged")),
            dims=self._dims(state),
        )

    def _dims(self, column: dict[str, Any]) -> tuple[int | None, ...] | None:
        """The data type's shape since 23.02; before, what flags and value counts say."""
        dtype = column.get("dtype")
        if class_name(dtype) == _NUMPY_DTYPE:
            return _dims_by_flags(column)
        shape = dtype.state.get("shape") if isinstance(dtype, Inert) else None
        dims = shape.state.get("dims") if isinstance(shape, Inert) else None
        if not isinstance(dims, tuple) or not dims:
            return None
        self._count(len(dims))
        return tuple(_size(_inert(dim, "a dimension").state) for dim in dims)

    def _count(self, parts: int) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS:
            raise NotInert(f"it has more than {MAX_PARTS} nodes, edges and columns")


def _model_name(state: dict[str, Any]) -> str | None:
    names = [
        value
        for key, value in state.items()
        if isinstance(key, str) and _MODEL_NAME.fullmatch(key) and isinstance(value, str)
    ]
    return names[0] if len(names) == 1 else None


def _selects_all(selector: Any) -> bool:
    """`*`: the attribute is `all` up to 23.04 and `_all` after."""
    state = _inert(selector, "a selector").state
    return bool(state.get("_all") or state.get("all"))


def _dtype(dtype: Any) -> str | None:
    """Merlin's name of a merlin.dtypes.DType or of a numpy.dtype; None for the unknown one."""
    if not isinstance(dtype, Inert):
        return None
    if class_name(dtype) == _NUMPY_DTYPE:
        code = dtype.args[0] if dtype.args else None
        if not isinstance(code, str):
            return None
        return "string" if _NUMPY_TEXTS.fullmatch(code) else _NUMPY_TYPES.get(code)
    name = dtype.state.get("name")
    return name if isinstance(name, str) and name != "unknown" else None


def _dims_by_flags(column: dict[str, Any]) -> tuple[int | None, ...] | None:
    """Rows and list length of a list column of 0.8 and 0.9; of others they know no shape."""
    if not column.get("is_list"):
        return None
    properties = column.get("properties")
    counts = properties.get("value_count") if isinstance(properties, dict) else None
    if column.get("is_ragged") or not isinstance(counts, dict):
        return (None, None)
    return (None, _size(counts))


def _size(bounds: dict[str, Any]) -> int | None:
    """The size of which `min` and `max` leave one only."""
    low, high = bounds.get("min"), bounds.get("max")
    return high if isinstance(high, int) and low == high else None


def _state(value: Any, attribute: str) -> Any:
    state = _inert(value, f"an object with `{attribute}`").state
    if attribute not in state:
        raise _NotAGraph(f"{quoted(class_name(value))} has no `{attribute}`")
    return state[attribute]


def _inert(value: Any, what: str) -> Inert:
    if not isinstance(value, Inert):
        raise _NotAGraph(f"{what} was expected, found {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    return quoted(type(value).__name__)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _NotAGraph(f"a list was expected, found {_kind(value)}")
    return value


def _strings(values: Any) -> Iterable[str]:
    return (_string(value) for value in values) if isinstance(values, list | tuple) else ()


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _NotAGraph(f"a name was expected, found {_kind(value)}")
    return value
