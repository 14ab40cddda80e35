"""Archives and executor graphs made by hand, as small as a case needs, and what they compute.

A step is a python model whose outputs are numpy formulas of its inputs: tritonserver runs them in
the model, and `offline` runs the same formulas through the graph as Merlin's executor would.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node, Operator, SchemaColumn
from ensemble_tools.archive.tensor_names import list_ragged_tensors

Tensors = dict[str, Any]

TRITON_TYPES = {
    "int8": "TYPE_INT8",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
}
MERLIN_OPS = "merlin.dag.ops"
WORKFLOW = "merlin.systems.dag.runtimes.triton.ops.workflow.TransformWorkflowTriton"
FOREST = "merlin.systems.dag.runtimes.triton.ops.fil.PredictForestTriton"
PREDICTOR = "merlin.systems.dag.runtimes.triton.ops.pytorch.PredictPyTorchTriton"

MERLINS_MODEL_PY = (
    Path(__file__).parents[2] / "examples/merlin/dense/repository/executor_model/1/model.py"
)
MODEL_PY = """
import numpy as np
import triton_python_backend_utils as pb_utils

INPUTS = {inputs!r}
FORMULAS = {formulas!r}


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {{name: pb_utils.get_input_tensor_by_name(request, name) for name in INPUTS}}
        given = {{name: t.as_numpy() for name, t in tensors.items() if t is not None}}
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor(name, np.asarray(eval(formula, {{"np": np}}, given)).astype(dtype))
                for name, (formula, dtype) in FORMULAS.items()
            ]
        )
"""


def column(name: str, dtype: str = "int64", *, ragged: bool = False) -> SchemaColumn:
    """A column as a schema has it."""
    return SchemaColumn(name, dtype, ragged)


@dataclass(frozen=True)
class Step:
    """A child model. formulas: output tensor -> numpy expression of the input tensors.

    dims and types override what is declared for a tensor; extra is more text for the config.
    """

    name: str
    columns_in: tuple[SchemaColumn, ...]
    columns_out: tuple[SchemaColumn, ...]
    formulas: Mapping[str, str] = field(default_factory=dict)
    class_name: str = WORKFLOW
    dims: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    extra: str = ""

    def computed(self) -> dict[str, tuple[str, str]]:
        """Output tensor -> formula and numpy type; without a formula, the input of that name."""
        return {
            tensor: (self.formulas.get(tensor, tensor), "int32" if offsets else str(spec.dtype))
            for spec in self.columns_out
            for tensor, offsets in tensors_of(spec)
        }


def tensors_of(spec: SchemaColumn) -> list[tuple[str, bool]]:
    """The column's tensors, and whether each holds offsets."""
    if not spec.is_ragged:
        return [(spec.name, False)]
    values, offsets = list_ragged_tensors(spec.name)
    return [(values, False), (offsets, True)]


def tensor_fields(
    kind: str,
    columns: Iterable[SchemaColumn],
    step: Step | None = None,
    shapes: Mapping[str, str] | None = None,
) -> str:
    """The `input` or `output` fields of a config, one line a tensor; shapes override [-1]."""
    lines = []
    for spec in columns:
        for tensor, offsets in tensors_of(spec):
            data_type = "TYPE_INT32" if offsets else TRITON_TYPES[str(spec.dtype)]
            dims = (shapes or {}).get(tensor, "-1")
            if step is not None:
                data_type, dims = step.types.get(tensor, data_type), step.dims.get(tensor, dims)
            lines.append(f'{kind} {{ name: "{tensor}" data_type: {data_type} dims: [ {dims} ] }}')
    return "\n".join(lines)


def write_step(root: Path, step: Step, version: int = 1) -> None:
    """The model directory of a step."""
    directory = root / step.name
    (directory / str(version)).mkdir(parents=True)
    (directory / "config.pbtxt").write_text(
        f'name: "{step.name}"\nbackend: "python"\n'
        f"{tensor_fields('input', step.columns_in, step)}\n"
        f"{tensor_fields('output', step.columns_out, step)}\n{step.extra}"
    )
    inputs = [tensor for spec in step.columns_in for tensor, _ in tensors_of(spec)]
    source = MODEL_PY.format(inputs=inputs, formulas=step.computed())
    (directory / str(version) / "model.py").write_text(source)


def write_executor(
    root: Path,
    inputs: Iterable[SchemaColumn],
    outputs: Iterable[SchemaColumn],
    *,
    name: str = "executor_model",
    version: int = 1,
    extra: str = "",
    shapes: Mapping[str, str] | None = None,
) -> None:
    """The executor's directory; its pickle is empty, since graphs here are made as plain data."""
    directory = root / name
    (directory / str(version) / "ensemble").mkdir(parents=True)
    (directory / str(version) / "ensemble" / "ensemble.pkl").touch()
    (directory / str(version) / "model.py").write_bytes(MERLINS_MODEL_PY.read_bytes())
    (directory / "config.pbtxt").write_text(
        f'name: "{name}"\nplatform: "merlin_executor"\nbackend: "python"\n'
        f"{tensor_fields('input', inputs, None, shapes)}\n"
        f"{tensor_fields('output', outputs, None, shapes)}\n{extra}"
    )


@dataclass
class Graph:
    """An executor graph in the making; each method adds a node, with the schemas Merlin gives."""

    nodes: list[Node] = field(default_factory=list)

    def select(self, *columns: SchemaColumn) -> Node:
        """Columns of the request."""
        names = [spec.name for spec in columns]
        return self._add(_op("selection.SelectionOp", selector=names), (), names, names, columns)

    def call(self, step: Step, *parents: Node) -> Node:
        """A call of a Triton model; the forest operator's own columns are what reaches it."""
        columns = step.columns_in
        if step.class_name == FOREST:
            columns = tuple(spec for parent in parents for spec in parent.output)
        operator = Operator(
            step.class_name,
            step.class_name.rpartition(".")[2],
            step.name,
            columns,
            step.columns_out,
        )
        names = [spec.name for spec in columns]
        return self._add(operator, parents, names, names, step.columns_out)

    def concat(self, first: Node, *others: Node) -> Node:
        """`first + other + ...`: the others are dependencies; of equal names the last one stays."""
        columns = {spec.name: spec for node in (first, *others) for spec in node.output}
        added = [spec.name for node in others for spec in node.output]
        return self._add(
            _op("concat_columns.ConcatColumns"),
            (first, *others),
            list(columns),
            list(columns),
            columns.values(),
            added,
        )

    def keep(self, node: Node, *names: str) -> Node:
        """`node[names]`."""
        kept = [spec for spec in node.output if spec.name in names]
        inputs = [spec.name for spec in node.output]
        return self._add(_op("subset_columns.SubsetColumns"), (node,), inputs, list(names), kept)

    def subgraph(self, inner: Graph, *parents: Node, loops: bool = False) -> Node:
        """A Subgraph operator around another graph."""
        last = inner.nodes[-1]
        names = list(dict.fromkeys(name for node in inner.nodes for name in _from_request(node)))
        operator = Operator(
            f"{MERLIN_OPS}.subgraph.Subgraph", "Subgraph", subgraph=inner.done(), loops=loops
        )
        return self._add(operator, parents, names, names, last.output)

    def inline(self, class_name: str, node: Node, output: Sequence[SchemaColumn] = ()) -> Node:
        """An operator that runs inside Merlin's executor."""
        names = [spec.name for spec in node.output]
        operator = Operator(class_name, class_name.rpartition(".")[2])
        return self._add(operator, (node,), names, names, output or node.output)

    def operator(
        self,
        class_name: str,
        state: Mapping[str, Any],
        output: Sequence[SchemaColumn],
        first: Node,
        *others: Node,
    ) -> Node:
        """An operator with attributes; the others are dependencies."""
        names = [spec.name for spec in first.output]
        added = [spec.name for node in others for spec in node.output]
        operator = Operator(class_name, class_name.rpartition(".")[2], state=state)
        return self._add(operator, (first, *others), [*names, *added], names, output, added)

    def done(self) -> ExecutorGraph:
        """The graph; its last node is the output node."""
        return ExecutorGraph(tuple(self.nodes))

    def _add(
        self,
        operator: Operator,
        upstream: Iterable[Node],
        inputs: Iterable[str],
        selection: Iterable[str],
        output: Iterable[SchemaColumn],
        dependency_columns: Iterable[str] = (),
    ) -> Node:
        node = Node(
            len(self.nodes),
            operator,
            tuple(other.number for other in upstream),
            tuple(selection),
            tuple(inputs),
            tuple(dependency_columns),
            tuple(output),
        )
        self.nodes.append(node)
        return node


def _op(name: str, selector: Iterable[str] | None = None) -> Operator:
    return Operator(
        f"{MERLIN_OPS}.{name}",
        name.rpartition(".")[2],
        selector=None if selector is None else tuple(selector),
    )


def _from_request(node: Node) -> tuple[str, ...]:
    return () if node.upstream else node.inputs


def offline(
    graph: ExecutorGraph,
    steps: Mapping[str, Step],
    request: Tensors,
    shapes: Mapping[str, str] | None = None,
) -> Tensors:
    """What Merlin's executor answers: every node in turn, on numbers.

    Columns are brought into the form and type of each call's schema, and of the answer's. shapes:
    whole shapes of the answer's dense tensors, where they are not [-1].
    """
    last = graph.output_node
    answer = _evaluated(graph, steps, request)
    return _aligned(answer, last.output, shapes or {})


def _evaluated(graph: ExecutorGraph, steps: Mapping[str, Step], request: Tensors) -> Tensors:
    outputs: dict[int, Tensors] = {}
    for node in graph.nodes:
        arrived: Tensors = {}
        for number in node.upstream:
            arrived.update(outputs[number])
        wanted = {*node.inputs, *node.dependency_columns}
        missing = wanted - {name for name in node.inputs if _has(arrived, name)}
        for name in missing:
            arrived.update(_of_column(request, name))
        outputs[node.number] = _transformed(node, steps, arrived)
    last = graph.output_node
    return _chosen(outputs[last.number], [spec.name for spec in last.output])


def _transformed(node: Node, steps: Mapping[str, Step], arrived: Tensors) -> Tensors:
    operator = node.operator
    if operator.subgraph is not None:
        return _evaluated(operator.subgraph, steps, arrived)
    if operator.model_name is None:
        return _chosen(arrived, node.selection)
    step = steps[operator.model_name]
    if step.class_name == FOREST:
        given = {"input__0": np.array([*arrived.values()]).astype("float32").T}
    else:
        given = _aligned(arrived, operator.columns_in, step.dims)
    return {
        name: np.asarray(eval(formula, {"np": np}, given)).astype(dtype)
        for name, (formula, dtype) in step.computed().items()
    }


def _aligned(
    tensors: Tensors, columns: Iterable[SchemaColumn], shapes: Mapping[str, str]
) -> Tensors:
    """merlin-systems' match_representations."""
    aligned: Tensors = {}
    for spec in columns:
        values, offsets = list_ragged_tensors(spec.name)
        if spec.is_ragged and values in tensors:
            aligned[values], aligned[offsets] = tensors[values], tensors[offsets]
        elif spec.is_ragged:
            dense = tensors[spec.name]
            aligned[values] = dense.reshape(-1)
            lengths = [dense.shape[1]] * dense.shape[0]
            aligned[offsets] = np.array([0, *np.cumsum(lengths)], dtype="int32")
        elif values in tensors:
            row = [int(size) for size in shapes.get(spec.name, "-1").split(",")[1:]]
            aligned[spec.name] = tensors[values].reshape([-1, *row])
        else:
            aligned[spec.name] = tensors[spec.name]
        name = values if spec.is_ragged else spec.name
        if spec.dtype is not None:
            with np.errstate(all="ignore"):
                aligned[name] = aligned[name].astype(spec.dtype)
    return aligned


def _chosen(tensors: Tensors, columns: Iterable[str]) -> Tensors:
    return {name: value for one in columns for name, value in _of_column(tensors, one).items()}


def _of_column(tensors: Tensors, name: str) -> Tensors:
    return {n: value for n, value in tensors.items() if n in (name, *list_ragged_tensors(name))}


def _has(tensors: Tensors, name: str) -> bool:
    return bool(_of_column(tensors, name))
