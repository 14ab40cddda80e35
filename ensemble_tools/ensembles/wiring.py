"""Which step's column goes where: Merlin's executor, run on names instead of numbers. No I/O.

Theory of operation. The executor evaluates the output node after everything upstream of it. What
reaches a node is the union of what its upstream nodes put out, where the later one wins, and of
columns that none of them has, which come from the request (merlin-core, LocalExecutor). Here the
same evaluation is done with a Source in the place of each column's numbers. The result is, for
every operator that calls a Triton model, the source of each of its columns, and the source of each
column of the answer: exactly the edges of an ensemble.

Operators fall into five kinds:

1. those that only choose columns, or pass them on: they disappear;
2. those that call a Triton model with columns by name: they become steps;
3. the forest operator, which calls a Triton model with one matrix of all its columns;
4. those that run Python inside the executor, of which it is known what they do (operators.py): a
   step is generated for each, which is called as a model is;
5. all others run Python inside the executor: inline operators. Merlin's own code then runs those of
   the fourth kind as well, since it runs parts of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node, Operator, SchemaColumn
from ensemble_tools.archive.tensor_names import is_part_of_list
from ensemble_tools.ensembles.operator_kinds import (
    OperatorKind,
    classify,
    is_foreign,
    list_called_models,
)
from ensemble_tools.ensembles.operators import OperatorWork, find_work
from ensemble_tools.ensembles.producers import REQUEST, FromCall, FromInline, FromRequest
from ensemble_tools.errors import GraphNotExpressible, GraphNotServable

#: Far above any real graph (the largest seen have tens); a bound on nested subgraphs of an archive.
MAX_EVALUATED_NODES = 10_000
#: Columns that reach nodes, over all of them: a hundred nodes with ten thousand columns each.
MAX_EVALUATED_COLUMNS = 1_000_000

_EXPORT_AGAIN = "export the graph again with merlin-systems 23.08"

#: Where a node stands: its number in the graph, behind those of the Subgraph nodes around it.
NodePath = tuple[int, ...]

#: What the forest operator's matrix is called (merlin-systems, PredictForestTriton).
MATRIX = SchemaColumn("input__0", None, False)


@dataclass(frozen=True)
class Source:
    """The producer of a column's numbers, and its name there."""

    producer: FromRequest | FromCall | FromInline
    column: str


@dataclass(frozen=True)
class Call:
    """One call of a Triton model: its columns, their sources, and the columns it answers with."""

    #: The model's name, with `/2`, `/3` for further calls of the same model.
    key: str
    model_name: str
    operator: str
    columns_in: tuple[SchemaColumn, ...]
    sources: Mapping[str, Source]
    columns_out: tuple[SchemaColumn, ...]
    node_path: NodePath
    #: The forest operator's columns, in the order in which they become the matrix; `sources` is
    #: empty then.
    stacked: tuple[Source, ...] = ()
    #: The work of a generated step, which is then what is called: key and model_name are the
    #: step's.
    work: OperatorWork | None = None
    #: The keys of all calls that Merlin's own code makes before this one, read or not, where
    #: inline operators feed it.
    above: frozenset[str] = frozenset()

    @property
    def reads(self) -> tuple[Source, ...]:
        """Everything that the call is fed with."""
        return (*self.sources.values(), *self.stacked)


@dataclass(frozen=True)
class Inline:
    """An operator that runs Python inside the executor."""

    key: str
    operator: str
    #: The columns that the operator is handed.
    columns: tuple[str, ...]
    #: Everything that reaches the operator.
    reads: tuple[Source, ...]
    #: Triton models that the operator calls, as a loop over a subgraph may.
    models: tuple[str, ...] = ()
    #: Whether the operator's class is not Merlin's own.
    foreign: bool = False


@dataclass(frozen=True)
class Wiring:
    """The calls in an order in which each finds its sources, and the answer's columns."""

    calls: tuple[Call, ...]
    #: The inline operators that calls or the answer depend on, by key.
    inlines: Mapping[str, Inline]
    answer: Mapping[str, Source]
    #: The schema of the answer.
    columns: tuple[SchemaColumn, ...] = ()
    #: What Merlin leaves open and how it was decided, a sentence each.
    notes: tuple[str, ...] = ()
    #: Keys of calls that the answer does not need: Merlin's own code makes all calls, and inline
    #: operators are run by it.
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
    columns = Flow({name: Source(REQUEST, name) for name in request})
    if not graph.outdated:
        _check_names(path, "the request", request)
    for with_generated_steps in (
        not graph.outdated,
        False,
    ):  # what an older release does, it alone knows
        run = _Evaluation(path, with_generated_steps, bool(graph.outdated))
        computed = run.evaluate(graph, columns, ())
        answer = {column: source for column, source in computed.items() if column in answered}
        calls, inlines = _find_needed(run, answer)
        if not inlines:
            break
    idle = frozenset(run.calls.keys() - calls)
    if inlines:  # Merlin's own code runs parts of the graph, and makes every call in them
        calls, inlines = {*run.calls}, {*run.inlines}
    return Wiring(
        tuple(run.with_above(call) for key, call in run.calls.items() if key in calls),
        {key: inline for key, inline in run.inlines.items() if key in inlines},
        answer,
        graph.output_node.output,
        tuple(run.notes),
        idle,
    )


def _check_names(path: Path, owner: str, names: Iterable[str]) -> None:
    """Raise GraphNotExpressible for names that the executor takes apart."""
    if parts := tuple(filter(is_part_of_list, names)):
        raise GraphNotExpressible(
            path, owner, parts, "Merlin reads such a name as a part of a list column", "rename it"
        )


def _find_needed(run: _Evaluation, answer: Mapping[str, Source]) -> tuple[set[str], set[str]]:
    """Keys of the calls and of the inline operators that the answer depends on.

    The executor runs the others too.
    """
    calls: set[str] = set()
    inlines: set[str] = set()
    waiting = [source.producer for source in answer.values()]
    while waiting:
        producer = waiting.pop()
        if isinstance(producer, FromCall) and producer.key not in calls:
            calls.add(producer.key)
            waiting += [source.producer for source in run.calls[producer.key].reads]
        elif isinstance(producer, FromInline) and producer.key not in inlines:
            inlines.add(producer.key)
            waiting += [source.producer for source in run.inlines[producer.key].reads]
    return calls, inlines


@dataclass
class _Evaluation:
    """One evaluation of a graph, and the calls and inline operators that it came to."""

    path: Path
    #: Whether generated steps take the place of operators.
    with_generated_steps: bool = True
    #: Whether an older release made the graph, in which lists are columns with names of two
    #: parts.
    outdated: bool = False
    calls: dict[str, Call] = field(default_factory=dict)
    inlines: dict[str, Inline] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    nodes: int = 0
    columns: int = 0
    #: Of each call, and of where the evaluation is: a bit for each call made before, in its order.
    above: dict[str, int] = field(default_factory=dict)
    here: int = 0

    def evaluate(self, graph: ExecutorGraph, request: Flow, around: NodePath) -> Flow:
        """What the graph's output node puts out for these columns of a request."""
        outputs: dict[int, Flow] = {}
        above, evaluated = self.here, dict[int, int]()
        for node in graph.nodes:
            self.here = above
            for number in node.upstream:
                self.here |= evaluated[number]
            self._count(sum(len(outputs[number]) for number in node.upstream))
            if not self.outdated:
                names = (*node.inputs, *(column.name for column in node.output))
                _check_names(self.path, node.operator.label, dict.fromkeys(names))
            path = (*around, node.number)
            reaching = self._merge_upstream(node, outputs, request)
            outputs[node.number] = self._transform(node, reaching, path)
            evaluated[node.number] = self.here
        last = graph.output_node
        return self._choose(last, [column.name for column in last.output], outputs[last.number])

    def _count(self, columns: int) -> None:
        self.nodes += 1
        self.columns += columns
        if self.nodes > MAX_EVALUATED_NODES or self.columns > MAX_EVALUATED_COLUMNS:
            raise GraphNotExpressible(
                self.path,
                "the graph",
                (),
                f"it has more than {MAX_EVALUATED_NODES} nodes, or "
                f"{MAX_EVALUATED_COLUMNS} columns between them",
                "split it over several archives",
            )

    def _merge_upstream(self, node: Node, outputs: Mapping[int, Flow], request: Flow) -> Flow:
        """LocalExecutor._append_addl_root_columns and _merge_upstream_columns.

        The executor keeps names in sets where it merges, so that the order of columns then changes
        from one start of its process to the next.
        """
        flows = [flow for number in node.upstream if (flow := outputs[number])]
        present = {name for name in node.inputs if any(name in flow for flow in flows)}
        from_request = {*node.inputs, *node.dependency_columns} - present
        missing = sorted(from_request - request.keys())
        if missing:
            raise self._name_failure(
                node,
                missing,
                "neither an earlier operator nor the request has this column, "
                "so Merlin's executor fails as well",
            )
        if len(flows) == 1 and not from_request:
            return flows[0]
        merged = Flow()
        for flow in [*flows, Flow({name: request[name] for name in sorted(from_request)})]:
            merged.update(flow)
        merged.ordered = len(merged) <= 1
        return merged

    def _transform(self, node: Node, flow: Flow, path: NodePath) -> Flow:
        """What the node puts out; the cases are those of the module's docstring."""
        operator = node.operator
        kind = classify(operator)
        # 1. Columns are chosen or passed on: each keeps its source.
        if kind is OperatorKind.SELECTION:
            return self._choose(node, node.selection or operator.selector or (), flow)
        if kind is OperatorKind.SUBTRACTION:  # Merlin's selects what its own selector names
            return self._choose(node, operator.selector or node.selection, flow)
        if kind is OperatorKind.IDENTITY:
            return flow
        if kind is OperatorKind.SUBGRAPH and operator.subgraph is not None and not operator.loops:
            return self.evaluate(operator.subgraph, flow, path)
        # 2. A model is called with columns by name: what it answers has the call as its source.
        if kind is OperatorKind.CALL:
            return self._add_call(node, flow, path)
        # 3. A forest is called with one matrix of all columns, so that their order counts.
        if kind is OperatorKind.FOREST:
            return self._add_forest_call(node, flow, path)
        # 4. A generated step is called.
        work = find_work(node) if self.with_generated_steps else None
        if work is not None and not (work.reads_all and flow.keys() != {*work.reads}):
            return self._add_generated_call(node, work, flow, path)
        # 5. Python inside the executor, a loop over a subgraph as well: known when it runs.
        return self._add_inline(node, flow, path)

    def _choose(self, node: Node, names: Iterable[str], flow: Flow) -> Flow:
        names = tuple(names)
        missing = [name for name in names if name not in flow]
        if missing:
            raise self._name_failure(
                node,
                missing,
                "the operator selects a column that does not reach it, so Merlin's "
                "executor fails as well",
            )
        return Flow({name: flow[name] for name in names})

    def _add_call(self, node: Node, flow: Flow, path: NodePath) -> Flow:
        operator = node.operator
        if operator.model_name is None or not operator.columns_in or not operator.columns_out:
            raise GraphNotServable(
                self.path,
                operator.label,
                (),
                "it names no Triton model or no columns",
                _EXPORT_AGAIN,
            )
        sources = self._choose(node, [column.name for column in operator.columns_in], flow)
        key = self._choose_key(operator.model_name)
        return self._record_call(
            Call(
                key,
                operator.model_name,
                operator.label,
                operator.columns_in,
                sources,
                operator.columns_out,
                path,
            )
        )

    def _add_forest_call(self, node: Node, flow: Flow, path: NodePath) -> Flow:
        operator = node.operator
        if operator.model_name is None:
            raise GraphNotServable(
                self.path, operator.label, (), "it names no Triton model", _EXPORT_AGAIN
            )
        names = [*flow] if flow.ordered else self._order_for_forest(operator, flow)
        stacked = tuple(flow[name] for name in names)
        key = self._choose_key(operator.model_name)
        return self._record_call(
            Call(
                key, operator.model_name, operator.label, (MATRIX,), {}, node.output, path, stacked
            )
        )

    def _order_for_forest(self, operator: Operator, flow: Flow) -> list[str]:
        """The forest's columns as its schema has them, where the executor's own order is open."""
        names = [column.name for column in operator.columns_in]
        if set(names) != flow.keys():
            raise GraphNotServable(
                self.path,
                operator.label,
                tuple({*names} ^ flow.keys()),
                "not the columns that the forest was trained on reach it",
                "feed it from one workflow, or from a selection of its columns",
            )
        self.notes.append(
            f"{operator.label} gets its columns in the order of its schema "
            f"({', '.join(names[:20])}); Merlin's executor joins them in an order that changes "
            "from start to start (python's hash seed)"
        )
        return names

    def _choose_key(self, model_name: str) -> str:
        before = sum(call.model_name == model_name for call in self.calls.values())
        return f"{model_name}/{before + 1}" if before else model_name

    def with_above(self, call: Call) -> Call:
        """The call, with those above it where it is fed by inline operators."""
        if not any(isinstance(source.producer, FromInline) for source in call.reads):
            return call
        bits = self.above[call.key]
        above = frozenset(key for number, key in enumerate(self.calls) if bits >> number & 1)
        return replace(call, above=above)

    def _record_call(self, call: Call) -> Flow:
        self.above[call.key] = self.here
        self.here |= 1 << len(self.calls)
        self.calls[call.key] = call
        return Flow(
            {column.name: Source(FromCall(call.key), column.name) for column in call.columns_out}
        )

    def _add_generated_call(
        self, node: Node, work: OperatorWork, flow: Flow, path: NodePath
    ) -> Flow:
        key = f"{node.operator.label}//{'.'.join(map(str, path))}"  # no model is called so
        sources = self._choose(node, work.reads, flow)
        columns = tuple(SchemaColumn(name, None, False) for name in work.writes)
        outputs = self._record_call(
            Call(key, key, node.operator.label, (), sources, columns, path, work=work)
        )
        if not work.keeps_the_rest:
            return outputs
        taken = work.writes.values()
        rest = {name: source for name, source in flow.items() if name not in taken}
        reaching = Flow(rest | outputs)
        reaching.ordered = flow.ordered
        return reaching

    def _add_inline(self, node: Node, flow: Flow, path: NodePath) -> Flow:
        key = "/".join(map(str, path))
        operator = node.operator
        inner = list_called_models(operator.subgraph) if operator.subgraph else ()
        own = (operator.model_name,) if operator.model_name else ()
        self.inlines[key] = Inline(
            key,
            operator.label,
            node.selection,
            tuple(flow.values()),
            (*own, *inner),
            is_foreign(operator),
        )
        return Flow({column.name: Source(FromInline(key), column.name) for column in node.output})

    def _name_failure(
        self, node: Node, columns: list[str], reason: str
    ) -> GraphNotServable | GraphNotExpressible:
        """An inline operator's columns are only known when it runs; then Merlin decides."""
        error = GraphNotExpressible if self.inlines else GraphNotServable
        return error(self.path, node.operator.label, columns, reason, _EXPORT_AGAIN)
