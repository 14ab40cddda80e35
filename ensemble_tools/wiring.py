"""PURE. Which step's column goes where: Merlin's executor, run on names instead of numbers.

Theory of operation. The executor evaluates the output node after everything upstream of it. What
reaches a node is the union of what its upstream nodes put out, where the later one wins, and of
columns that none of them has, which come from the request (merlin-core, LocalExecutor). Here the
same evaluation is done with a Source in the place of each column's numbers. The result is, for
every operator that calls a Triton model, the source of each of its columns, and the source of each
column of the answer: exactly the edges of an ensemble.

Operators fall into four kinds:
1. those that only choose columns: they disappear;
2. those that call a Triton model with columns by name: they become steps;
3. the forest operator, which calls a Triton model with one matrix of all its columns;
4. all others run Python inside the executor: inline operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_tools.errors import GraphNotExpressible, GraphNotServable
from ensemble_tools.executor_graph import Column, ExecutorGraph, Node, Operator

#: Far above any real graph (the largest seen have tens); a bound on nested subgraphs of an archive.
MAX_EVALUATED_NODES = 10_000
#: Columns that reach nodes, over all of them: a hundred nodes with ten thousand columns each.
MAX_EVALUATED_COLUMNS = 1_000_000

_EXPORT_AGAIN = "export the graph again with merlin-systems 23.08"

#: Packages whose operators call no model but the one that they name.
_MERLINS = ("merlin.", "nvtabular.")
#: Where a node stands: its number in the graph, behind those of the Subgraph nodes around it.
Place = tuple[int, ...]

#: What the forest operator's matrix is called (merlin-systems, PredictForestTriton).
MATRIX = Column("input__0", None, False)


@dataclass(frozen=True)
class Source:
    """Where a column's numbers come from.

    producer: None for the request, the key of a Call, or the key of an Inline operator.
    """

    producer: str | None
    column: str


@dataclass(frozen=True)
class Call:
    """One call of a Triton model: its columns, their sources, and the columns it answers with.

    key: the model's name, with `/2`, `/3` for further calls of the same model. stacked: the forest
    operator's columns, in the order in which they become the matrix; `sources` is empty then.
    """

    key: str
    model_name: str
    operator: str
    columns_in: tuple[Column, ...]
    sources: Mapping[str, Source]
    columns_out: tuple[Column, ...]
    place: Place
    stacked: tuple[Source, ...] = ()

    @property
    def reads(self) -> tuple[Source, ...]:
        """Everything that the call is fed with."""
        return (*self.sources.values(), *self.stacked)


@dataclass(frozen=True)
class Inline:
    """An operator that runs Python inside the executor.

    columns: those it is handed. reads: all that reaches it. models: Triton models that it calls, as
    a loop over a subgraph may. foreign: it is not Merlin's own.
    """

    key: str
    operator: str
    columns: tuple[str, ...]
    reads: tuple[Source, ...]
    models: tuple[str, ...] = ()
    foreign: bool = False


@dataclass(frozen=True)
class Wiring:
    """The calls in an order in which each finds its sources, and the answer's columns.

    inlines: the inline operators that calls or the answer depend on, by key. columns: the schema of
    the answer. idle: calls that nothing in the answer needs, which are here for inline operators:
    Merlin's own code makes them all. notes: sentences
    about what Merlin leaves open and how it was decided.
    """

    calls: tuple[Call, ...]
    inlines: Mapping[str, Inline]
    answer: Mapping[str, Source]
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    idle: frozenset[str] = frozenset()


class Flow(dict[str, Source]):
    """Columns by name, in the executor's order; ordered says whether that has one."""

    ordered = True


def wire(
    graph: ExecutorGraph, request: tuple[str, ...], answered: tuple[str, ...], path: Path
) -> Wiring:
    """Evaluate the graph on the names of a request's columns.

    answered: the declared columns of the answer; Triton drops what else the executor answers with.
    path names the graph in messages. Raises GraphNotServable where the executor would fail, and
    GraphNotExpressible where this evaluation cannot follow it.
    """
    run = _Run(path)
    computed = run.graph(graph, Flow({column: Source(None, column) for column in request}), ())
    answer = {column: source for column, source in computed.items() if column in answered}
    needed = _needed(run, answer)
    # With inline operators Merlin's own code runs parts of the graph, and makes every call in them.
    reached = {*run.calls, *run.inlines} if needed & run.inlines.keys() else needed
    return Wiring(
        tuple(call for key, call in run.calls.items() if key in reached),
        {key: inline for key, inline in run.inlines.items() if key in reached},
        answer,
        graph.output_node.output,
        tuple(run.notes),
        frozenset(run.calls.keys() - needed),
    )


def called_models(graph: ExecutorGraph) -> tuple[str, ...]:
    """Every Triton model that an operator of the graph names, in the order of evaluation."""
    names = (operator.model_name for operator in _operators(graph))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def has_foreign_operators(graph: ExecutorGraph) -> bool:
    """Whether an operator is not Merlin's own: nothing is known of what it does."""
    return any(not operator.class_name.startswith(_MERLINS) for operator in _operators(graph))


def has_inline_operators(graph: ExecutorGraph) -> bool:
    """Whether an operator runs Python inside the executor."""
    return any(_kind(operator) == "inline" for operator in _operators(graph))


def _operators(graph: ExecutorGraph) -> Iterator[Operator]:
    """Every operator of the graph and of its subgraphs, of each graph once."""
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            for node in current.nodes:
                yield node.operator
                if node.operator.subgraph is not None:
                    waiting.append(node.operator.subgraph)


def _needed(run: _Run, answer: Mapping[str, Source]) -> set[str]:
    """Calls and inline operators that the answer depends on; the executor runs the others too."""
    reached: set[str] = set()
    waiting = list(answer.values())
    while waiting:
        key = waiting.pop().producer
        if key is not None and key not in reached:
            reached.add(key)
            waiting.extend(run.calls[key].reads if key in run.calls else run.inlines[key].reads)
    return reached


@dataclass
class _Run:
    path: Path
    calls: dict[str, Call] = field(default_factory=dict)
    inlines: dict[str, Inline] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    nodes: int = 0
    columns: int = 0

    def graph(self, graph: ExecutorGraph, request: Flow, around: Place) -> Flow:
        outputs: dict[int, Flow] = {}
        for node in graph.nodes:
            self._count(sum(len(outputs[number]) for number in node.upstream))
            place = (*around, node.number)
            reaching = self._merged(node, outputs, request)
            outputs[node.number] = self._transform(node, reaching, place)
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
        """LocalExecutor._append_addl_root_columns and _merge_upstream_columns.

        The executor keeps names in sets where it merges, so that the order of columns then changes
        from one start of its process to the next.
        """
        flows = [flow for number in node.upstream if (flow := outputs[number])]
        present = {name for name in node.inputs if any(name in flow for flow in flows)}
        from_request = {*node.inputs, *node.dependency_columns} - present
        missing = sorted(from_request - request.keys())
        if missing:
            raise self._failing(
                node, missing, "neither an earlier operator nor the request has this column, "
                "so Merlin's executor fails as well",
            )  # fmt: skip
        if len(flows) == 1 and not from_request:
            return flows[0]
        merged = Flow()
        for flow in [*flows, Flow({name: request[name] for name in sorted(from_request)})]:
            merged.update(flow)
        merged.ordered = len(merged) <= 1
        return merged

    def _transform(self, node: Node, flow: Flow, place: Place) -> Flow:
        kind = _kind(node.operator)
        if kind == "selection":
            return self._chosen(node, node.selection or node.operator.selector or (), flow)
        if kind == "subtraction":  # Merlin's selects what the operator's own selector names
            return self._chosen(node, node.operator.selector or node.selection, flow)
        if kind == "identity":
            return flow
        if kind == "subgraph" and node.operator.subgraph is not None and not node.operator.loops:
            return self.graph(node.operator.subgraph, flow, place)
        if kind == "call":
            return self._call(node, flow, place)
        if kind == "forest":
            return self._forest(node, flow, place)
        return self._inline(node, flow, place)

    def _chosen(self, node: Node, names: tuple[str, ...] | list[str], flow: Flow) -> Flow:
        missing = [name for name in names if name not in flow]
        if missing:
            raise self._failing(
                node, missing, "the operator selects a column that does not reach it, so Merlin's "
                "executor fails as well",
            )  # fmt: skip
        return Flow({name: flow[name] for name in names})

    def _call(self, node: Node, flow: Flow, place: Place) -> Flow:
        operator = node.operator
        if operator.model_name is None or not operator.columns_in or not operator.columns_out:
            raise GraphNotServable(
                self.path, operator.label, (), "it names no Triton model or no columns",
                _EXPORT_AGAIN,
            )  # fmt: skip
        sources = self._chosen(node, [column.name for column in operator.columns_in], flow)
        return self._called(node, place, operator.columns_in, sources, operator.columns_out, ())

    def _forest(self, node: Node, flow: Flow, place: Place) -> Flow:
        if node.operator.model_name is None:
            raise GraphNotServable(
                self.path, node.operator.label, (), "it names no Triton model", _EXPORT_AGAIN
            )
        names = [*flow]
        if not flow.ordered:
            names = [column.name for column in node.operator.columns_in]
            if set(names) != flow.keys():
                raise GraphNotServable(
                    self.path, node.operator.label, tuple({*names} ^ flow.keys()),
                    "not the columns that the forest was trained on reach it",
                    "feed it from one workflow, or from a selection of its columns",
                )  # fmt: skip
            self.notes.append(
                f"{node.operator.label} gets its columns in the order of its schema "
                f"({', '.join(names[:20])}); Merlin's executor joins them in an order that changes "
                "from start to start (python's hash seed)"
            )
        stacked = tuple(flow[name] for name in names)
        return self._called(node, place, (MATRIX,), {}, node.output, stacked)

    def _called(
        self,
        node: Node,
        place: Place,
        columns_in: tuple[Column, ...],
        sources: Mapping[str, Source],
        columns_out: tuple[Column, ...],
        stacked: tuple[Source, ...],
    ) -> Flow:
        name = node.operator.model_name
        assert name is not None
        before = sum(call.model_name == name for call in self.calls.values())
        key = f"{name}/{before + 1}" if before else name
        self.calls[key] = Call(
            key, name, node.operator.label, columns_in, sources, columns_out, place, stacked
        )
        return Flow({column.name: Source(key, column.name) for column in columns_out})

    def _inline(self, node: Node, flow: Flow, place: Place) -> Flow:
        key = "/".join(["", *map(str, place)])  # no directory, so no model, has a name like it
        operator = node.operator
        inner = called_models(operator.subgraph) if operator.subgraph else ()
        own = (operator.model_name,) if operator.model_name else ()
        self.inlines[key] = Inline(
            key, operator.label, node.selection, tuple(flow.values()), (*own, *inner),
            not operator.class_name.startswith(_MERLINS),
        )  # fmt: skip
        return Flow({column.name: Source(key, column.name) for column in node.output})

    def _failing(
        self, node: Node, columns: list[str], reason: str
    ) -> GraphNotServable | GraphNotExpressible:
        """What an inline operator really gives is known when it runs; then Merlin decides."""
        error = GraphNotExpressible if self.inlines else GraphNotServable
        return error(self.path, node.operator.label, columns, reason, _EXPORT_AGAIN)


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
    "PredictForestTriton": "forest",
}


def _kind(operator: Operator) -> str:
    """What the operator does; "inline" for every class that is not Merlin's own and known."""
    module, _, name = operator.class_name.rpartition(".")
    return _KINDS.get(name, "inline") if module.startswith("merlin.") else "inline"
