"""A repository, its graph and its plan as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node, SchemaColumn
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.explain.merlin_side import kind_of
from ensemble_tools.explain.picture import DrawnTensor, Picture
from ensemble_tools.explain.triton_side import tensors
from ensemble_tools.serving.opened_archive import Archive, describe_operators
from ensemble_tools.serving.plan import PublishedModel, ServingPlan


def text_lines(archive: Archive, picture: Picture) -> Iterator[str]:
    """Everything: what is there, Merlin's graph, what is served or why nothing is."""
    yield from explain_repository(archive.repository)
    if archive.graph is not None:
        yield ""
        yield from explain_graph(archive.graph)
    yield ""
    if archive.plan is None:
        yield from explain_refusal(picture.refusal or "")
        return
    yield from explain_plan(archive.plan)
    yield from explain_differences(picture)
    if archive.candidate is not None:
        yield from explain_candidate(archive.candidate)


def explain_repository(repository: ModelRepository) -> Iterator[str]:
    """Lines that say what the archive holds."""
    yield f"archive      {repository.path}"
    for name, model in sorted(repository.models.items()):
        entry = "  ← invoked" if model is repository.entry else ""
        versions = ", ".join(str(version) for version in model.versions) or "none"
        kind = "no config.pbtxt"
        if model.config is not None:
            kind = model.config.backend or model.config.platform or model.backend or "no backend"
        yield f"  {_clean(name)}  ({_clean(kind)}, version {versions}){entry}"


def explain_graph(graph: ExecutorGraph) -> Iterator[str]:
    """Lines that draw the operator graph: a node each, with its upstream and its columns."""
    yield "Merlin's graph"
    if graph.unread:
        yield f"  not read as data: {_clean(graph.unread)}"
    yield from _graph_lines(graph, "  ", set())


def explain_plan(plan: ServingPlan) -> Iterator[str]:
    """Lines that say what Triton is given, and the edges of an ensemble."""
    entry = plan.entry_model.config
    yield from _protocol_lines("request", tensors(entry, entry.input))
    yield from _protocol_lines("answer", tensors(entry, entry.output))
    yield f"served as    {plan.form.value}  (tensor ← what it is fed with, tensor → what it feeds)"
    for model in plan.models:
        entry_mark = "  ← invoked" if model.triton_name == plan.entry else ""
        called = "  ← called by name" if model.triton_name in plan.called else ""
        files = ", ".join(name for name, _ in model.files)
        generated = f", with {files} generated" if files else ""
        source = _clean(model.source_name)
        yield f"  {_clean(model.triton_name)}  (from {source}{generated}){entry_mark}{called}"
        if model.json_workflow_path:
            reads = "; NVTabular reads it from its commit 08e0633 on" if model.not_compiled else ""
            yield f"    workflow: graph.json, no pickle{reads}"
        if model.compiled is not None:
            program = model.compiled.program
            how = "compiled in part" if program.kept else "compiled"
            yield f"    {how}: numpy  ({_clean(describe_operators(program.operators))})"
            yield f"    recognised: {_clean(model.compiled.recognised)}"
            for kept in program.kept:
                yield f"    runs in pandas: {_clean(kept.reason)}"
        if model.not_compiled:
            yield f"    not compiled: {_clean(model.not_compiled)}"
        yield from _ensemble_lines(model)
    for reason in plan.reasons:
        yield f"because: {_clean(reason)}"
    for note in (*plan.notes, *plan.doubts):
        yield f"note: {_clean(note)}"


def explain_differences(picture: Picture) -> Iterator[str]:
    """Lines that say what an ensemble leaves out of what its steps put out."""
    titles = {node.id: node.title for side in picture.sides for node in side.nodes}
    for unread in picture.left_out:
        names = ", ".join(_clean(name) for name in unread.tensors)
        yield f"left out: {names} of {_clean(titles[unread.node])}: nobody reads it"


def explain_candidate(candidate: Archive) -> Iterator[str]:
    """Lines that say how its candidate is served, or why it is none."""
    if candidate.plan is None:
        yield f"candidate    refused: {_clean(str(candidate.refusal or ''))}"
        return
    yield f"candidate    served beside it, asked a sample: {candidate.plan.form.value}"
    for note in (*candidate.plan.reasons, *candidate.plan.notes, *candidate.plan.doubts):
        yield f"  {_clean(note)}"


def explain_refusal(reason: str) -> Iterator[str]:
    """Lines that say why the archive is not served."""
    yield "served as    nothing"
    yield f"refused: {_clean(reason)}"


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
    inline = " (Python in the executor)" if kind_of(node) == "inline" else ""
    columns = ", ".join(_column(column) for column in node.output)
    return _clean(f"#{node.number} {operator.label}{called}{inline}  ← {upstream}  → {columns}")


def _column(column: SchemaColumn) -> str:
    form = "[…]" if column.is_ragged else ""
    return f"{column.name}: {column.dtype or '?'}{form}"


def _protocol_lines(title: str, declared: Iterable[DrawnTensor]) -> Iterator[str]:
    """The tensors of a request or its answer, in the words of the v2 inference protocol.

    A ragged list column is two tensors: the values of all rows, and INT32 offsets, one more than
    rows, from 0 to the number of values.
    """
    yield title
    for tensor in declared:
        yield f"  {_clean(tensor.name)}  {tensor.dtype} {list(tensor.shape or ())}"


def _ensemble_lines(model: PublishedModel) -> Iterator[str]:
    for step in model.config.ensemble_scheduling.step:
        yield f"    {_clean(step.model_name)}"
        for inner, outer in sorted(step.input_map.items()):
            yield f"        {_clean(inner)} ← {_clean(outer)}"
        for inner, outer in sorted(step.output_map.items()):
            yield f"        {_clean(inner)} → {_clean(outer)}"


def _clean(text: str) -> str:
    """No control characters: a name in an archive must not write to the terminal what it likes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
