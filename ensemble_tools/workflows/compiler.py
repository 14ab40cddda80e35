"""PURE: operator graph + declared inputs -> Program. The graph is run once, without values.

The walk is merlin-core's LocalExecutor (merlin/dag/executors.py, 23.08): each node takes what its
parents and dependencies put out, what is missing from the request's own columns, and hands the
columns to its operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ensemble_tools.errors import quoted
from ensemble_tools.executor_graph import Column, ExecutorGraph, Node
from ensemble_tools.tensor_names import ragged_tensors
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.frames import Family, Frame, Value
from ensemble_tools.workflows.operators import OPERATORS, Call
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.program import Input, Kept, Plain, Program, Step, Table

#: Triton's data types -> what they are to the compiler, and the width in bytes.
_FAMILIES = {
    "TYPE_BOOL": (Family.BOOL, 1),
    "TYPE_INT8": (Family.INT, 1), "TYPE_INT16": (Family.INT, 2), "TYPE_INT32": (Family.INT, 4),
    "TYPE_INT64": (Family.INT, 8), "TYPE_UINT8": (Family.INT, 1), "TYPE_UINT16": (Family.INT, 2),
    "TYPE_UINT32": (Family.INT, 4), "TYPE_FP32": (Family.FLOAT, 4), "TYPE_FP64": (Family.FLOAT, 8),
    "TYPE_STRING": (Family.TEXT, 0),
}  # fmt: skip
#: What a schema says of texts that are answered; Triton takes none of what it calls `str`.
_TEXTS = ("object",)
#: Operators that NVTabular can run for a program, since they keep the rows and are known to put out
#: their output schema's columns: True, beside all that they were given; False, alone. None reads a
#: category file: all that do share NVTabular's cache of them.
_KEPT = {
    **{
        f"nvtabular.ops.{module}.{name}": whole
        for module, name, whole in (
            ("bucketize", "Bucketize", False), ("clip", "Clip", False),
            ("column_similarity", "ColumnSimilarity", True),
            ("difference_lag", "DifferenceLag", False), ("fill", "FillMissing", True),
            ("fill", "FillMedian", True), ("hash_bucket", "HashBucket", True),
            ("hashed_cross", "HashedCross", False), ("lambdaop", "LambdaOp", False),
            ("logop", "LogOp", True),
            ("normalize", "Normalize", False), ("normalize", "NormalizeMinMax", False),
            ("reduce_dtype_size", "ReduceDtypeSize", True),
        )
    },
    "merlin.dag.ops.udf.UDF": False,
}  # fmt: skip
#: Why operators are not compiled that NVTabular has.
_UNKNOWN = {
    "merlin.dag.ops.udf.UDF": "it calls a function of yours",
    "nvtabular.ops.column_similarity.ColumnSimilarity": "numba compiles its sums",
    "nvtabular.ops.filter.Filter": "a function of yours decides which rows there are",
    "nvtabular.ops.join_external.JoinExternal": "its table is pickled inside of the workflow",
}
#: What users call it, where NVTabular has another name for the class.
_LABELS = {"UDF": "LambdaOp"}
#: How the schema's types begin -> what such values are.
_BEGINNINGS = (
    ("int", Family.INT), ("uint", Family.INT), ("float", Family.FLOAT), ("bool", Family.BOOL),
    ("object", Family.TEXT),
)  # fmt: skip
#: Columns that operators are handed, over all of them. A Subgraph is run wherever it stands, so a
#: few bytes of a pickle can ask for any number; a thousand columns through thirty operators are far
#: below.
MAX_COLUMNS = 500_000
#: The step that NVTabular carries out.
KEPT_STEP = "kept"
_SUBGRAPH = "merlin.dag.ops.subgraph.Subgraph"
#: The types that an answer's columns are cast to.
_ANSWERED = {
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "bool",
}  # fmt: skip


def compile_workflow(graph: ExecutorGraph, inputs: Mapping[str, Input], directory: Path) -> Program:
    """The program that answers as the workflow does, or NotCompiled with the reason.

    inputs: the tensors that its model declares. directory: where its files are.
    """
    try:
        return _Compiler(graph, inputs, directory).run()
    except Unknown as error:
        raise NotCompiled("", (), str(error)) from error


class _Compiler:
    def __init__(self, graph: ExecutorGraph, inputs: Mapping[str, Input], directory: Path) -> None:
        self._graph, self._declared, self._directory = graph, inputs, directory
        self._steps: list[Step] = []
        self._tables: list[Table] = []
        self._registers = 0
        self._row_sets = 1
        self._operators: Counter[str] = Counter()
        self._left = MAX_COLUMNS
        self._kept: dict[int, Kept] = {}
        #: Registers with columns that a kept node takes in.
        self._spent: set[int] = set()
        #: The columns of the request that a node and those before it read.
        self._roots: dict[int, frozenset[str]] = {}

    def run(self) -> Program:
        root, inputs = self._inputs()
        output = self._graph.output_node
        frame = self._executed(self._graph, root)[output.number]
        outputs = tuple(self._output(column, frame) for column in output.output)
        steps, kept = (self._needed(outputs), self._kept) if self._kept else (self._steps, {})
        left = {step.given["node"] for step in steps if step.operation == KEPT_STEP}
        if kept and len(left) == len(steps):
            raise NotCompiled("", (), next(iter(kept.values())).reason)
        return Program(
            inputs, tuple(steps), outputs, self._registers, tuple(self._tables),
            dict(self._operators), tuple(one for number, one in kept.items() if number in left),
        )  # fmt: skip

    def _needed(self, outputs: tuple[dict[str, Plain], ...]) -> list[Step]:
        """Without the steps whose columns only what is kept reads: it works them out itself.

        What nobody reads stays: NVTabular runs it, and may refuse a request for it.
        """
        read, spent = {output["reads"] for output in outputs}, set(self._spent)
        steps: list[Step] = []
        for step in reversed(self._steps):
            if spent.intersection(step.writes) and not read.intersection(step.writes):
                spent.update(step.reads)
            else:
                read.update(step.reads)
                steps.append(step)
        return steps[::-1]

    # -- the ends

    def _inputs(self) -> tuple[Frame, tuple[dict[str, Plain], ...]]:
        """merlin-core's Graph.input_schema: the inputs of all nodes without parents."""
        columns = {
            column.name: column
            for node in self._graph.nodes
            if node.is_leaf
            for column in node.columns_in
        }
        if not columns:
            raise NotCompiled("", (), "it reads no columns")
        frame: Frame = {}
        rows = []
        for column in columns.values():
            tensors = _tensors(column)
            declared = [self._tensor(column, tensor) for tensor in tensors]
            family, width = self._family(column, declared[0])
            if len(declared) == 2 and declared[1].data_type not in ("TYPE_INT32", "TYPE_INT64"):
                raise NotCompiled("", [column.name], "its offsets are no whole numbers")
            frame[column.name] = Value(self._register(), family, width, len(tensors) == 2)
            rows.append(
                {"name": column.name, "tensors": tensors, "text": family is Family.TEXT}
            )  # fmt: skip
        return frame, tuple(rows)

    def _tensor(self, column: Column, tensor: str) -> Input:
        if tensor not in self._declared:
            raise NotCompiled("", [column.name], f"the model declares no input {quoted(tensor)}")
        declared = self._declared[tensor]
        if len(declared.dims) > 2:
            raise NotCompiled("", [column.name], "it has more than two dimensions")
        return declared

    def _family(self, column: Column, declared: Input) -> tuple[Family, int]:
        if declared.data_type not in _FAMILIES:
            raise NotCompiled("", [column.name], f"a column of {declared.data_type} is not known")
        return _FAMILIES[declared.data_type]

    def _output(self, column: Column, frame: Frame) -> dict[str, Plain]:
        """merlin-systems' match_representations."""
        if column.name not in frame:
            raise NotCompiled("", [column.name], "the workflow does not put it out")
        value = frame[column.name]
        is_list = column.is_ragged or len(column.dims or ()) > 1
        if value.is_list != is_list:
            raise NotCompiled(
                "", [column.name],
                f"its schema says {'lists' if is_list else 'one value a row'}, and it is otherwise",
            )  # fmt: skip
        if column.dtype in _TEXTS or value.family is Family.TEXT:
            if column.dtype not in _TEXTS or value.family is not Family.TEXT:
                raise NotCompiled(
                    "",
                    [column.name],
                    f"its schema says {column.dtype}, and it is {value.family.value}",
                )
            dtype = ""
        elif column.dtype in _ANSWERED:
            dtype = column.dtype
        else:
            raise NotCompiled("", [column.name], f"it is answered as {column.dtype}")
        shape = list(column.dims or ())[1:]
        if is_list and not column.is_ragged and None in shape:
            raise NotCompiled("", [column.name], "the length of its lists is not known")
        return {
            "name": column.name,
            "tensors": _tensors(column),
            "reads": value.register,
            "ragged": column.is_ragged,
            "dtype": dtype,
            "shape": shape,
        }

    # -- the walk

    def _executed(self, graph: ExecutorGraph, root: Frame) -> dict[int, Frame]:
        """What each node puts out. A node's operator is run once: it is the same each time."""
        frames: dict[int, Frame] = {}
        for node in graph.nodes:
            merged = self._merged(graph, node, frames, root)
            self._left -= 1 + len(merged)
            if self._left < 0:
                raise NotCompiled("", (), f"it has more than {MAX_COLUMNS} operators and columns")
            steps, tables = len(self._steps), len(self._tables)
            try:
                frames[node.number] = self._transformed(node, merged)
            except (NotCompiled, Unknown) as error:
                reason = (
                    error if isinstance(error, NotCompiled)
                    else NotCompiled(_label(node), node.selection, str(error))
                )  # fmt: skip
                del self._steps[steps:], self._tables[tables:]
                if graph is not self._graph:
                    raise reason from error
                frames[node.number] = self._kept_as_it_is(node, merged, reason)
        return frames

    def _kept_as_it_is(self, node: Node, merged: Frame, reason: NotCompiled) -> Frame:
        """NVTabular runs this node, and all before it; what it puts out must be known.

        Raises the reason why the operator is not compiled where that is not so.
        """
        whole = _KEPT.get(node.operator.class_name)
        if whole is None or any(value.rows for value in merged.values()):
            raise reason
        made = dict(merged) if whole else {}
        values = []
        for column in node.output:
            dtype = column.dtype or ""
            family = next((one for begin, one in _BEGINNINGS if dtype.startswith(begin)), None)
            if family is None or column.is_ragged or len(column.dims or ()) > 1:
                raise reason
            values.append(Value(self._register(), family))
        names = [column.name for column in node.output]
        self._steps.append(
            Step(
                KEPT_STEP, (), tuple(value.register for value in values),
                {"node": node.number, "inputs": sorted(self._roots[node.number]), "columns": names,
                 "families": [value.family.value for value in values]},
                _label(node), tuple(names),
            )
        )  # fmt: skip
        self._spent.update(value.register for value in merged.values())
        self._kept[node.number] = Kept(_label(node), reason.columns, str(reason))
        made.update(zip(names, values, strict=True))
        return made

    def _merged(
        self, graph: ExecutorGraph, node: Node, frames: Mapping[int, Frame], root: Frame
    ) -> Frame:
        """LocalExecutor._append_addl_root_columns and _merge_upstream_columns."""
        upstream = [frames[number] for number in node.upstream]
        present = {name for frame in upstream for name in node.inputs if name in frame}
        missing = [
            name
            for name in dict.fromkeys((*node.inputs, *node.dependency_columns))
            if name not in present
        ]
        if graph is self._graph:
            above = [self._roots[number] for number in node.upstream]
            self._roots[node.number] = frozenset(missing).union(*above)
        if missing:
            upstream.append({name: self._column(node, root, name) for name in missing})
        merged: Frame = {}
        for frame in upstream:
            merged.update(frame)
        row_sets = {value.rows for frame in upstream for value in frame.values()}
        if len(row_sets) > 1:
            raise NotCompiled(
                node.operator.label, (), "it joins columns whose rows are not the same"
            )
        return merged

    def _column(self, node: Node, root: Frame, name: str) -> Value:
        if name not in root:
            raise NotCompiled(node.operator.label, [name], "the column comes from nowhere")
        return root[name]

    def _transformed(self, node: Node, frame: Frame) -> Frame:
        operator = node.operator
        if operator.class_name == _SUBGRAPH:
            return self._subgraph(node, frame)
        if operator.class_name not in OPERATORS:
            why = _UNKNOWN.get(operator.class_name, "this operator is not known")
            raise NotCompiled(_label(node), node.selection, why)
        absent = [name for name in node.selection if name not in frame]
        if absent:
            raise NotCompiled(operator.label, absent, "the column is not there")
        made = OPERATORS[operator.class_name](Call(node, frame, self._directory, self))
        if not operator.class_name.startswith("merlin.dag.ops.") and node.selection:
            self._operators[operator.label] += 1
        return made

    def _subgraph(self, node: Node, frame: Frame) -> Frame:
        inner = node.operator.subgraph
        if inner is None or node.operator.loops:
            raise NotCompiled(node.operator.label, node.selection, "it is repeated")
        made = self._executed(inner, frame)[inner.output_node.number]
        names = [column.name for column in inner.output_node.output]
        return {name: self._column(node, made, name) for name in names}

    # -- what operators ask for (operators.Emitter)

    def emit(
        self,
        call: Call,
        operation: str,
        reads: list[Value],
        made: list[Value],
        given: dict[str, Any],
        columns: tuple[str, ...],
    ) -> list[Value]:
        """A step; the columns that it makes, in registers of their own."""
        placed = [value.at(self._register()) for value in made]
        self._steps.append(
            Step(
                operation, tuple(value.register for value in reads),
                tuple(value.register for value in placed), given, call.node.operator.label, columns,
            )
        )  # fmt: skip
        return placed

    def table(self, table: Table) -> int:
        """The table's number; one that was asked for before has one already.

        NVTabular keeps files in a cache by their paths, for all operators (merlin.io.worker): those
        that read one file in two ways would change it for each other.
        """
        if any(table.path == other.path and table != other for other in self._tables):
            raise Unknown(f"{table.path.name} is read in two ways")
        if table not in self._tables:
            self._tables.append(table)
        return self._tables.index(table)

    def new_rows(self) -> int:
        """A number for rows that are not those of the request."""
        self._row_sets += 1
        return self._row_sets - 1

    def _register(self) -> int:
        self._registers += 1
        return self._registers - 1


def _label(node: Node) -> str:
    """Of the node's operator."""
    return _LABELS.get(node.operator.label, node.operator.label)


def _tensors(column: Column) -> tuple[str, ...]:
    return ragged_tensors(column.name) if column.is_ragged else (column.name,)
