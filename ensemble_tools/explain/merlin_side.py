"""Merlin's operator graph -> the left side of the picture, subgraphs drawn in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node, SchemaColumn
from ensemble_tools.ensembles.operator_kinds import OperatorKind, classify
from ensemble_tools.explain.picture import (
    ANSWER,
    REQUEST,
    Box,
    CarriedTensor,
    DrawnTensor,
    Edge,
    Side,
)

_REQUEST, _ANSWER = "merlin.request", "merlin.answer"
#: Operators of Merlin's that hand columns on unchanged; an ensemble's edges do the same.
_SELECTIONS = (OperatorKind.SELECTION, OperatorKind.SUBTRACTION, OperatorKind.IDENTITY)


def merlin_side(
    graph: ExecutorGraph, request: Iterable[DrawnTensor], answered: Iterable[str]
) -> Side:
    """request: the columns of a request; answered: the columns of the answer that are declared."""
    builder = _SideBuilder()
    columns = tuple(request)
    builder.add(Box(_REQUEST, REQUEST, "request", outputs=columns))
    last = builder.graph(graph, "", (), [_REQUEST])
    declared = set(answered)
    answer = tuple(_tensor(column) for column in graph.output_node.output)
    declared_answer = tuple(tensor for tensor in answer if tensor.name in declared)
    builder.add(Box(_ANSWER, ANSWER, "answer", outputs=declared_answer))
    builder.edges.append(Edge(last, _ANSWER, tuple(_same(tensor) for tensor in declared_answer)))
    return Side("Merlin's graph", tuple(builder.boxes.values()), tuple(builder.edges))


def node_id(prefix: str, number: int) -> str:
    """The id of a node of the graph: merlin.3; inside of a Subgraph, merlin.4.0."""
    return f"merlin.{prefix}{number}"


def node_id_at(path: tuple[int, ...]) -> str:
    """The id of the node that stands there: its number, behind those of the Subgraphs around it."""
    *around, number = path
    return node_id("".join(f"{it}." for it in around), number)


def kind_of(node: Node) -> str:
    """The kind of box that the operator is to Triton."""
    operator = node.operator
    if operator.subgraph is not None:
        return "subgraph"
    if operator.model_name is not None:
        return "call"
    return "selection" if classify(operator) in _SELECTIONS else "inline"


@dataclass
class _SideBuilder:
    boxes: dict[str, Box] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    drawn: dict[int, str] = field(default_factory=dict)

    def add(self, box: Box) -> None:
        self.boxes[box.id] = box

    def graph(
        self, graph: ExecutorGraph, prefix: str, within: tuple[str, ...], around: list[str]
    ) -> str:
        """Draw the nodes; the id of the last one. around: who gives what no upstream node has."""
        self.drawn[id(graph)] = node_id(prefix, graph.output_node.number)
        for node in graph.nodes:
            self._node(node, prefix, within, around)
        return node_id(prefix, graph.output_node.number)

    def _node(self, node: Node, prefix: str, within: tuple[str, ...], around: list[str]) -> None:
        box_id, operator = node_id(prefix, node.number), node.operator
        upstream = [node_id(prefix, number) for number in node.upstream]
        detail = f"calls {operator.model_name}" if operator.model_name else ""
        inner = operator.subgraph
        if inner is not None:
            detail = "repeats until a condition holds" if operator.loops else "the graph above"
        if inner is not None and id(inner) not in self.drawn:
            inside = (*within, f"#{node.number} {operator.label}")
            last = self.graph(inner, f"{prefix}{node.number}.", inside, [*around, *upstream])
            self.edges.append(Edge(last, box_id, tuple(_same(_tensor(c)) for c in node.output)))
        else:
            self._flows(node, box_id, upstream, around)
            detail = "the same graph as before" if inner is not None else detail
        outputs = tuple(_tensor(column) for column in node.output)
        title = f"#{node.number} {operator.label}"
        self.add(Box(box_id, kind_of(node), title, detail, operator.model_name, outputs, within))

    def _flows(self, node: Node, box_id: str, upstream: list[str], around: list[str]) -> None:
        """One edge from each node that gives something; of equal names the later one arrives."""
        types = {column.name: column.dtype for column in node.operator.columns_in}
        open_names = dict.fromkeys((*node.inputs, *node.dependency_columns))
        carried: dict[str, list[CarriedTensor]] = {source: [] for source in upstream}
        for source in (*reversed(upstream), *reversed(around)):
            outputs: Mapping[str, DrawnTensor] = {t.name: t for t in self.boxes[source].outputs}
            for name in [name for name in open_names if name in outputs]:
                del open_names[name]
                flow = CarriedTensor(name, name, outputs[name].dtype, types.get(name))
                carried.setdefault(source, []).append(flow)
        self.edges += [Edge(source, box_id, tuple(flows)) for source, flows in carried.items()]


def _tensor(column: SchemaColumn) -> DrawnTensor:
    return DrawnTensor(column.name, column.dtype, ragged=column.is_ragged)


def _same(tensor: DrawnTensor) -> CarriedTensor:
    return CarriedTensor(tensor.name, tensor.name, tensor.dtype)
