"""Operator graph + declared inputs -> Program. The graph is run once, without values. No I/O.

The walk is merlin-core's LocalExecutor (merlin/dag/executors.py, 23.08): each node takes what its
parents and dependencies put out, what is missing from the request's own columns, and hands the
columns to its operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node
from ensemble_tools.archive.inert_pickle import BY_VALUE
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.kept_steps import finish_steps
from ensemble_tools.workflows.no_rows import find_refusal
from ensemble_tools.workflows.operators import OPERATORS
from ensemble_tools.workflows.operators.users_code import FUNCTION
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.program import Kept, Program, Step
from ensemble_tools.workflows.rules import Emitter, KeptColumns, OperatorCall, Rule, Unnamed
from ensemble_tools.workflows.runtime.kept import (
    BESIDE,
    REQUESTS,
    RUN_WITHOUT_NVTABULAR,
    KeptNode,
    NodePath,
    TakeArray,
)
from ensemble_tools.workflows.schema_columns import answer_column, read_inputs, read_schema_type
from ensemble_tools.workflows.unnamed_columns import NOBODY, Makers, UnnamedColumns

#: Columns that operators are handed, over all of them. A Subgraph is run wherever it stands, so a
#: few bytes of a pickle can ask for any number; a thousand columns through thirty operators are far
#: below.
MAX_COLUMNS = 500_000
_SUBGRAPH = "merlin.dag.ops.subgraph.Subgraph"
#: Of classes that nothing is known of: Merlin's own, and others.
_UNKNOWN = Rule(())
_YOURS = Rule(
    (), kept=KeptColumns.ALONE, why_not="it is an operator of yours", unnamed=Unnamed.SEEN
)
_MERLINS = ("nvtabular.", "merlin.")
#: What operators have that read category files, and descendants of theirs.
_FILES = "out_path"
#: What of kept operators puts out one row for each that it is given.
_KEEP_ROWS = (KeptColumns.ALONE, KeptColumns.BESIDE_INPUT)


def compile_workflow(
    graph: ExecutorGraph, inputs: Mapping[str, TensorSpec], directory: Path
) -> Program:
    """The program that answers as the workflow does, or NotCompiled with the reason.

    inputs: the tensors that its model declares. directory: where its files are.
    """
    try:
        emitter = Emitter(may_leave_out=True)
        try:
            return _Compiler(graph, inputs, directory, emitter).run()
        except NotCompiled:
            if not emitter.left_out:
                raise
        return _Compiler(graph, inputs, directory, Emitter(may_leave_out=False)).run()
    except Unknown as error:
        raise NotCompiled(str(error)) from error


class _Compiler:
    """The walk.

    1. The request's columns get the first registers.
    2. Each node is run on columns without values: its rule emits steps, or it is kept as it is, or
       the workflow is not compiled.
    3. The columns that are answered are found.
    4. The steps are finished: kept nodes learn what the steps after them do.
    """

    def __init__(
        self,
        graph: ExecutorGraph,
        inputs: Mapping[str, TensorSpec],
        directory: Path,
        emitter: Emitter,
    ) -> None:
        self._graph, self._declared, self._directory = graph, inputs, directory
        self._emitter = emitter
        self._operators: Counter[str] = Counter()
        self._columns_allowed = MAX_COLUMNS
        self._kept: list[Kept] = []
        #: Where the node at work is, and the one whose columns are the answer.
        self._path: NodePath = ()
        self._last_path = _last_path(graph)
        self._unnamed = UnnamedColumns()
        #: Arrays of kept operators that must be of the kind that is foreseen.
        self._of_one_kind: set[int] = set()

    def run(self) -> Program:
        root, inputs = read_inputs(self._graph, self._declared, self._emitter)  # 1.
        frame = self._execute(self._graph, root, ())  # 2.
        columns = self._graph.output_node.output
        outputs = tuple(answer_column(column, frame, self._emitter) for column in columns)  # 3.
        steps = finish_steps(  # 4.
            self._emitter.steps, outputs, self._unnamed, self._of_one_kind
        )
        return Program(
            inputs,
            steps,
            outputs,
            self._emitter.registers,
            tuple(self._emitter.tables),
            dict(self._operators),
            tuple(self._kept),
            find_refusal(self._graph, root, outputs),
        )

    # -- the walk

    def _execute(self, graph: ExecutorGraph, root: Frame, path: NodePath) -> Frame:
        """The last node's columns. A node's operator is run once: it is the same each time.

        path: of the Subgraph whose graph it is.
        """
        frames: dict[int, Frame] = {}
        unnamed: dict[int, Makers] = {}
        for node in graph.nodes:
            self._path = (*path, node.number)
            self._emitter.is_last = self._path == self._last_path
            merged = self._merge(node, frames, root)
            makers = self._unnamed.merge(node, frames, unnamed, root)
            self._count_columns(len(merged))
            steps, tables = len(self._emitter.steps), len(self._emitter.tables)
            try:
                frames[node.number] = self._transform(node, merged)
                unnamed[node.number] = self._pass_on(node, makers)
            except (NotCompiled, Unknown) as error:
                # 1. Why, in words that name the operator.
                reason = (
                    error
                    if isinstance(error, NotCompiled)
                    else NotCompiled(str(error), _label(node), node.selection)
                )
                # 2. What its rule emitted before it gave up is taken back.
                del self._emitter.steps[steps:], self._emitter.tables[tables:]
                # 3. It runs in pandas, if that is known to be possible.
                frames[node.number] = self._keep(node, merged, reason)
                unnamed[node.number] = self._pass_on(node, makers) | self._unnamed.new_maker(merged)
        return frames[graph.output_node.number]

    def _pass_on(self, node: Node, makers: Makers) -> Makers:
        """Whose unnamed columns are in what the node puts out, of those in what it is given."""
        rule = _rule(node)
        if rule.unnamed is Unnamed.DROPPED or _is_of_a_column_alone(node):
            return NOBODY
        # Dropna without a selection looks at all columns.
        if rule.unnamed is Unnamed.SEEN or not node.selection:
            self._unnamed.see(makers)
            return NOBODY
        return makers

    def _count_columns(self, columns: int) -> None:
        self._columns_allowed -= 1 + columns
        if self._columns_allowed < 0:
            raise NotCompiled(f"it has more than {MAX_COLUMNS} operators and columns")

    def _keep(self, node: Node, merged: Frame, reason: NotCompiled) -> Frame:
        """The node's operator runs on a frame of pandas.

        Raises the reason why the operator is not compiled where that is not known to be possible.
        """
        rule = _rule(node)
        if rule.kept is None or not merged:
            raise reason
        # 1. The frame that it is given; a function of a column alone does not see the others.
        if _is_of_a_column_alone(node):
            merged = {name: _column(node, merged, name) for name in node.selection}
        if any(column.absent for column in merged.values()):
            raise reason
        handed_over = [column.handed_over for column in merged.values()]
        # 2. What it puts out, as far as the schemas say it.
        try:
            columns = self._foresee(node, rule, rule.kept, merged)
        except (NotCompiled, Unknown) as error:
            raise reason from error
        names, keeps_rows = tuple(columns), rule.kept in _KEEP_ROWS
        operation = KeptNode(
            node=self._path,
            selection=node.groups or node.selection,
            inputs=tuple(merged),
            python_lists=tuple(column.python_rows for column in merged.values()),
            others_read=(False,) * len(merged),
            shared_by=tuple(column.shared_by for column in merged.values()),
            columns=names,
            not_beside=None,
            unchanged=(),
            keeps_rows=keeps_rows,
            operator=_label(node),
        )
        series = [self._emitter.new_register() for _ in columns]
        self._emitter.steps.append(
            Step(
                operation,
                tuple(handed_over),
                tuple(series),
                _label(node),
                names,
                is_last=self._emitter.is_last,
            )
        )
        class_name = node.operator.class_name
        runs_alone = class_name in RUN_WITHOUT_NVTABULAR or class_name.startswith(BY_VALUE)
        self._kept.append(Kept(_label(node), reason.columns, str(reason), not runs_alone))
        # 3. The same as arrays, where numpy has a plain type for it.
        rows = next(iter(merged.values())).rows if keeps_rows else self._emitter.new_rows()
        # 4. A function may pass on lists that it was given.
        shared_by = _find_sharing((*merged.values(), *columns.values()))
        return {
            name: self._take_array(
                node, name, replace(column, rows=rows, shared_by=shared_by), register
            )
            for (name, column), register in zip(columns.items(), series, strict=True)
        }

    def _foresee(self, node: Node, rule: Rule, kept: KeptColumns, merged: Frame) -> Frame:
        """The columns that it puts out on a frame of pandas; raises NotCompiled, Unknown."""
        if kept is KeptColumns.SOME_ROWS:
            return {name: replace(column, width=0) for name, column in merged.items()}
        foreseen = {
            column.name: read_schema_type(column, lists=kept is KeptColumns.OTHER_ROWS)
            for column in node.output
        }
        call = OperatorCall(node, merged, self._directory, self._emitter)
        if rule.adds is not None:
            known = rule.adds(call)
            added = {name: foreseen[name] for name in foreseen if name not in merged}
            of_table = {name: replace(column, shared_by=REQUESTS) for name, column in added.items()}
            return {**merged, **of_table, **{name: known[name] for name in added if name in known}}
        if kept is KeptColumns.BESIDE_INPUT:
            return {**merged, **foreseen}
        if rule.order is None:
            return foreseen
        names = [name for name in rule.order(call) if name in foreseen]
        return {**{name: foreseen[name] for name in names}, **foreseen}

    def _take_array(self, node: Node, name: str, column: ColumnType, series: int) -> ColumnType:
        """A column that a kept node made, for both kinds of readers."""
        if column.is_list and column.kind is Kind.DATE:
            column = replace(column, kind=Kind.PANDAS)
        column = replace(column, any_rows=column.is_list and not column.python_rows)
        if column.kind is Kind.PANDAS:
            return replace(column, register=series, series=series)
        rows = "values"
        if column.is_list:
            rows = "lists" if column.any_rows else "python lists"
        elif column.kind is Kind.TEXT:
            column = replace(column, with_gaps=True, gaps_left=True)
        operation = TakeArray(name, column.kind.value, rows)
        register = self._emitter.convert(operation, series, _label(node), (name,))
        either = frozenset({register} if column.kind.is_number else ())
        return replace(column, register=register, series=series, either=either)

    def _merge(self, node: Node, frames: Mapping[int, Frame], root: Frame) -> Frame:
        """The columns of several nodes, as merlin-core's LocalExecutor merges them."""
        # 1. What parents and dependencies put out.
        upstream = [frames[number] for number in node.upstream]
        # 2. What none of them does, of what the node's schema and its dependencies' name, is taken
        #    from the request.
        present = {name for frame in upstream for name in node.inputs if name in frame}
        missing = [
            name
            for name in dict.fromkeys((*node.inputs, *node.dependency_columns))
            if name not in present
        ]
        if missing:
            upstream.append({name: _column(node, root, name) for name in missing})
        # 3. Of columns with one name the last is taken, and stands behind those that were there
        #    before; all must have the same rows.
        merged: Frame = {}
        for frame in upstream:
            before = {name: column for name, column in merged.items() if name not in frame}
            again = {name: frame[name] for name in merged if name in frame}
            merged = {**before, **again, **frame}
        row_sets = {column.rows for frame in upstream for column in frame.values()}
        if len(row_sets) > 1:
            raise NotCompiled("it joins columns whose rows are not the same", node.operator.label)
        return merged

    def _transform(self, node: Node, frame: Frame) -> Frame:
        operator = node.operator
        if operator.class_name == _SUBGRAPH:
            return self._run_subgraph(node, frame)
        rule = _rule(node)
        if rule.compile is None:
            raise NotCompiled(rule.why_not, _label(node), node.selection)
        absent = [name for name in node.selection if name not in frame]
        if absent:
            raise NotCompiled("the column is not there", operator.label, absent)
        put_out = self._compile(node, rule, frame)
        if not operator.class_name.startswith("merlin.dag.ops.") and node.selection:
            self._operators[operator.label] += 1
        return put_out

    def _compile(self, node: Node, rule: Rule, frame: Frame) -> Frame:
        """The rule's columns; numbers of either kind stay so where that changes no step."""
        assert rule.compile is not None
        uncertain = [name for name, column in frame.items() if column.either]
        if not uncertain:
            return rule.compile(OperatorCall(node, frame, self._directory, self._emitter))
        before = self._emitter.save()
        put_out = rule.compile(OperatorCall(node, frame, self._directory, self._emitter))
        after = self._emitter.save()
        either = dict.fromkeys(put_out, frozenset[int]())
        for name in uncertain:
            self._emitter.restore(before)
            self._count_columns(len(frame))
            other = self._compile_otherwise(node, rule, frame, name)
            if self._emitter.save() == after and _are_alike(put_out, other):
                for output, column in put_out.items():
                    if column.kind is not other[output].kind:
                        either[output] |= frame[name].either
            else:
                self._of_one_kind |= frame[name].either
        self._emitter.restore(after)
        return {name: replace(put_out[name], either=either[name]) for name in put_out}

    def _compile_otherwise(self, node: Node, rule: Rule, frame: Frame, name: str) -> Frame:
        """The rule's columns if numbers are of the other kind; nothing where that is unsaid."""
        assert rule.compile is not None
        if rule.adds is not None:  # a table of any size is read for each
            return {}
        flipped = {**frame, name: frame[name].of_other_kind()}
        try:
            return rule.compile(OperatorCall(node, flipped, self._directory, self._emitter))
        except (NotCompiled, Unknown):
            return {}

    def _run_subgraph(self, node: Node, frame: Frame) -> Frame:
        inner = node.operator.subgraph
        if inner is None or node.operator.loops:
            raise NotCompiled("it is repeated", node.operator.label, node.selection)
        # Its frame is made once, whatever its operators do to lists in it.
        shared = {name: column.shared_in_subgraph() for name, column in frame.items()}
        put_out = self._execute(inner, shared, self._path)
        names = [column.name for column in inner.output_node.output]
        return {name: _column(node, put_out, name) for name in names}


def _are_alike(frame: Frame, other: Frame) -> bool:
    """Whether they are the same but for the kinds of numbers."""
    return [*frame] == [*other] and all(
        column.is_alike(other[name]) for name, column in frame.items()
    )


def _find_sharing(columns: Iterable[ColumnType]) -> str:
    """The name of who shares the lists of any of them."""
    sharing = {column.shared_by for column in columns}
    return next((who for who in (REQUESTS, BESIDE) if who in sharing), "")


def _last_path(graph: ExecutorGraph) -> NodePath:
    """The path of the node that puts out the answer, in a Subgraph where that is the last one."""
    last = graph.output_node
    inner = last.operator.subgraph if last.operator.class_name == _SUBGRAPH else None
    return (last.number, *(_last_path(inner) if inner else ()))


def _is_of_a_column_alone(node: Node) -> bool:
    """Whether it is a function that is handed columns, but not their frame."""
    return _rule(node).label == FUNCTION and node.operator.state.get("_param_count") == 1


def _rule(node: Node) -> Rule:
    name, state = node.operator.class_name, node.operator.state
    is_yours = not name.startswith(_MERLINS) and _FILES not in state
    return OPERATORS.get(name, _YOURS if is_yours else _UNKNOWN)


def _label(node: Node) -> str:
    """The name that users have for the node's operator."""
    return _rule(node).label or node.operator.label


def _column(node: Node, frame: Frame, name: str) -> ColumnType:
    if name not in frame:
        raise NotCompiled("the column comes from nowhere", node.operator.label, [name])
    return frame[name]
