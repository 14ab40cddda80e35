"""PURE. Which step's column goes where: Merlin's executor, run on names instead of numbers.

Theory of operation. The executor evaluates the output node after everything upstream of it. What
reaches a node is the union of what its upstream nodes put out, where the later one wins, and of
columns that none of them has, which come from the request (merlin-core, LocalExecutor). Here the
same evaluation is done with a Source in the place of each column's numbers. The result is, for
every operator that calls a Triton model, the source of each of its columns, and the source of each
column of the answer: exactly the edges of an ensemble.

Operators fall into three kinds:
1. those that only choose columns: they disappear;
2. those that call a Triton model with their columns: they become steps;
3. all others run Python inside the executor: GraphNotExpressible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_tools.errors import GraphNotExpressible, quoted
from ensemble_tools.executor_graph import Column, ExecutorGraph, Node

#: Far above any real graph (the largest seen have tens); a bound on nested subgraphs of an archive.
MAX_EVALUATED_NODES = 10_000
#: Columns that reach nodes, over all of them: a hundred nodes with ten thousand columns each.
MAX_EVALUATED_COLUMNS = 1_000_000

_EXPORT_AGAIN = "export the graph again with merlin-systems 23.08"


@dataclass(frozen=True)
class Source:
    """Where a column's numbers come from: a column of the request (step None) or of a step."""

    step: str | None
    column: str


@dataclass(frozen=True)
class Call:
    """One call of a Triton model: its columns, their sources, and the columns it answers with."""

    model_name: str
    operator: str
    columns_in: tuple[Column, ...]
    sources: Mapping[str, Source]
    columns_out: tuple[Column, ...]


@dataclass(frozen=True)
class Wiring:
    """The calls in an order in which each finds its sources, and the answer's columns."""

    calls: tuple[Call, ...]
    answer: Mapping[str, Source]
    columns: tuple[Column, ...] = ()


Flow = dict[str, Source]


def wire(
    graph: ExecutorGraph, request: tuple[str, ...], answered: tuple[str, ...], path: Path
) -> Wiring:
    """Evaluate the graph on the names of a request's columns.

    answered: the declared columns of the answer; Triton drops what else the executor answers with.
    path names the graph in messages. Raises GraphNotExpressible.
    """
    run = _Run(path)
    computed = run.graph(graph, {column: Source(None, column) for column in request})
    answer = {column: source for column, source in computed.items() if column in answered}
    calls = _needed(run.calls, answer)
    return Wiring(calls, answer, graph.output_node.output)


def _needed(calls: Mapping[str, Call], answer: Mapping[str, Source]) -> tuple[Call, ...]:
    """Calls whose columns reach the answer; the executor makes the others for nothing."""
    reached: set[str] = set()
    open_sources = list(answer.values())
    while open_sources:
        source = open_sources.pop()
        if source.step is not None and source.step not in reached:
            reached.add(source.step)
            open_sources.extend(calls[source.step].sources.values())
    return tuple(call for name, call in calls.items() if name in reached)


@dataclass
class _Run:
    path: Path
    calls: dict[str, Call] = field(default_factory=dict)
    nodes: int = 0
    columns: int = 0

    def graph(self, graph: ExecutorGraph, request: Flow) -> Flow:
        outputs: dict[int, Flow] = {}
        for node in graph.nodes:
            self._count(sum(len(outputs[number]) for number in node.upstream))
            outputs[node.number] = self._transform(node, self._merged(node, outputs, request))
        last = graph.output_node
        return self._chosen(last, [column.name for column in last.output], outputs[last.number])

    def _count(self, columns: int) -> None:
        self.nodes += 1
        self.columns += columns
        if self.nodes > MAX_EVALUATED_NODES or self.columns > MAX_EVALUATED_COLUMNS:
            raise GraphNotExpressible(
                self.path, "the graph", (), f"it has more than {MAX_EVALUATED_NODES} nodes, or "
                f"{MAX_EVALUATED_COLUMNS} columns between them", "split it over several archives",
            )  # fmt: skip

    def _merged(self, node: Node, outputs: Mapping[int, Flow], request: Flow) -> Flow:
        """LocalExecutor._append_addl_root_columns and _merge_upstream_columns."""
        flows = [outputs[number] for number in node.upstream]
        present = {name for name in node.inputs if any(name in flow for flow in flows)}
        from_request = {*node.inputs, *node.dependency_columns} - present
        missing = sorted(from_request - request.keys())
        if missing:
            raise self._refusal(
                node, missing, "neither an earlier operator nor the request has this column, "
                "so Merlin's executor fails as well", _EXPORT_AGAIN
            )  # fmt: skip
        merged: Flow = {}
        for flow in [*flows, {name: request[name] for name in sorted(from_request)}]:
            merged.update(flow)
        return merged

    def _transform(self, node: Node, flow: Flow) -> Flow:
        kind = _operator_kind(node)
        if kind == "selection":
            return self._chosen(node, node.selection or node.operator.selector or (), flow)
        if kind == "subtraction":  # Merlin's selects what the operator's own selector names
            return self._chosen(node, node.operator.selector or node.selection, flow)
        if kind == "identity":
            return flow
        if kind == "subgraph":
            return self._subgraph(node, flow)
        if kind == "call":
            return self._call(node, flow)
        raise self._refusal(
            node, node.selection, "this operator runs Python inside Merlin's executor and has no "
            "model directory, so a pure ensemble cannot hold it",
            "move what it does into the NVTabular workflow or into the predictor",
        )  # fmt: skip

    def _chosen(self, node: Node, names: tuple[str, ...] | list[str], flow: Flow) -> Flow:
        missing = [name for name in names if name not in flow]
        if missing:
            raise self._refusal(
                node, missing, "the operator selects a column that does not reach it, so Merlin's "
                "executor fails as well", _EXPORT_AGAIN
            )  # fmt: skip
        return {name: flow[name] for name in names}

    def _subgraph(self, node: Node, flow: Flow) -> Flow:
        if node.operator.loops or node.operator.subgraph is None:
            raise self._refusal(
                node, (), "it repeats its graph until a condition holds, which an ensemble cannot",
                "unroll the loop into the graph",
            )  # fmt: skip
        return self.graph(node.operator.subgraph, flow)

    def _call(self, node: Node, flow: Flow) -> Flow:
        operator = node.operator
        model_name = operator.model_name
        if model_name is None or not operator.columns_in or not operator.columns_out:
            raise self._refusal(node, (), "it names no Triton model or no columns", _EXPORT_AGAIN)
        if model_name in self.calls:
            raise self._refusal(
                node, (), f"the model {quoted(model_name)} is called by two operators",
                "give each of them a model of its own",
            )  # fmt: skip
        sources = self._chosen(node, [column.name for column in operator.columns_in], flow)
        self.calls[model_name] = Call(
            model_name, operator.label, operator.columns_in, sources, operator.columns_out
        )
        return {column.name: Source(model_name, column.name) for column in operator.columns_out}

    def _refusal(
        self, node: Node, columns: tuple[str, ...] | list[str], reason: str, remedy: str
    ) -> GraphNotExpressible:
        return GraphNotExpressible(self.path, node.operator.label, columns, reason, remedy)


_KINDS = {
    "SelectionOp": "selection",
    "ConcatColumns": "selection",
    "SubsetColumns": "selection",
    "GroupingOp": "selection",
    "SubtractionOp": "subtraction",
    "AddMetadata": "identity",
    "AddTags": "identity",
    "AddProperties": "identity",
    "TagAsUserID": "identity",
    "TagAsItemID": "identity",
    "TagAsUserFeatures": "identity",
    "TagAsItemFeatures": "identity",
    "Subgraph": "subgraph",
    "TransformWorkflowTriton": "call",
    "PredictPyTorchTriton": "call",
    "PredictTensorflowTriton": "call",
}


def _operator_kind(node: Node) -> str:
    """What the operator does; "inline" for every class that is not Merlin's own and known."""
    module, _, name = node.operator.class_name.rpartition(".")
    return _KINDS.get(name, "inline") if module.startswith("merlin.") else "inline"
