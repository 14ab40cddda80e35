"""A repository and its plan as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.errors import ArchiveError
from ensemble_tools.executor_graph import Column, ExecutorGraph, Node
from ensemble_tools.model_config import data_type_name
from ensemble_tools.plan import ServingPlan
from ensemble_tools.repository import ModelRepository


def explain_repository(repository: ModelRepository) -> Iterator[str]:
    """Lines that say what the archive holds."""
    yield f"archive      {repository.path}"
    for name, model in sorted(repository.models.items()):
        entry = "  ← invoked" if model is repository.entry else ""
        versions = ", ".join(str(version) for version in model.versions) or "none"
        kind = model.config.backend or model.config.platform if model.config else "no config.pbtxt"
        yield f"  {name}  ({kind}, version {versions}){entry}"


def explain_graph(graph: ExecutorGraph) -> Iterator[str]:
    """Lines that draw the operator graph: a node each, with its upstream and its columns."""
    yield "Merlin's graph"
    yield from _graph_lines(graph, "  ", set())


def explain_plan(plan: ServingPlan) -> Iterator[str]:
    """Lines that say what Triton is given, and the edges of a pure ensemble."""
    entry_text = next(model.config_text for model in plan.models if model.triton_name == plan.entry)
    yield from _protocol_lines(entry_text)
    yield f"served as    {plan.form.value}  (tensor ← what it is fed with, tensor → what it feeds)"
    for model in plan.models:
        entry = "  ← invoked" if model.triton_name == plan.entry else ""
        yield f"  {model.triton_name}  (from {model.source_name}){entry}"
        yield from _ensemble_lines(model.config_text)
    for note in (*plan.notes, *plan.doubts):
        yield f"note: {note}"


def explain_refusal(error: ArchiveError) -> Iterator[str]:
    """Lines that say why the archive is not served."""
    yield "served as    nothing"
    yield f"refused: {error}"


def _graph_lines(graph: ExecutorGraph, indent: str, drawn: set[int]) -> Iterator[str]:
    """A graph that several Subgraphs share is drawn once: drawing each could go on for ever."""
    drawn.add(id(graph))
    for node in graph.nodes:
        yield indent + _node_line(node)
        inner = node.operator.subgraph
        if inner is None:
            continue
        if id(inner) in drawn:
            yield f"{indent}    (the same graph as above)"
        else:
            yield from _graph_lines(inner, indent + "    ", drawn)


def _node_line(node: Node) -> str:
    upstream = " ".join(f"#{number}" for number in node.upstream) or "request"
    operator = node.operator
    called = f" calls {operator.model_name}" if operator.model_name else ""
    columns = ", ".join(_column(column) for column in node.output)
    return f"#{node.number} {operator.label}{called}  ← {upstream}  → {columns}"


def _column(column: Column) -> str:
    form = "[…]" if column.is_ragged else ""
    return f"{column.name}: {column.dtype or '?'}{form}"


def _protocol_lines(config_text: str | None) -> Iterator[str]:
    """What a request and its answer hold, in the words of the v2 inference protocol.

    A ragged list column is two tensors: the values of all rows, and INT32 offsets, one more than
    rows, from 0 to the number of values.
    """
    message = text_format.Parse(config_text or "", pb.ModelConfig(), allow_unknown_field=True)
    batch = [-1] if message.max_batch_size > 0 else []
    for title, tensors in (("request", message.input), ("answer", message.output)):
        yield title
        for tensor in tensors:
            kind = data_type_name(tensor.data_type).removeprefix("TYPE_")
            yield f"  {tensor.name}  {kind.replace('STRING', 'BYTES')} {batch + list(tensor.dims)}"


def _ensemble_lines(config_text: str | None) -> Iterator[str]:
    message = text_format.Parse(config_text or "", pb.ModelConfig(), allow_unknown_field=True)
    for step in message.ensemble_scheduling.step:
        yield f"    {step.model_name}"
        for inner, outer in sorted(step.input_map.items()):
            yield f"        {inner} ← {outer}"
        for inner, outer in sorted(step.output_map.items()):
            yield f"        {inner} → {outer}"
