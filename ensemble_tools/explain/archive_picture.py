"""Makes the picture of an archive: Merlin's graph, what Triton serves, and why they differ."""

from __future__ import annotations

from collections.abc import Iterator

from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.archive.tensor_names import find_column, list_ragged_tensors
from ensemble_tools.explain.merlin_side import merlin_side, node_id_at
from ensemble_tools.explain.picture import Box, DrawnTensor, LeftOut, Picture, Reason, Side
from ensemble_tools.explain.triton_side import left_out, triton_side
from ensemble_tools.serving.opened_archive import Archive, describe_operators
from ensemble_tools.serving.plan import Form, ServingPlan

#: Triton's data types in Merlin's words, where they differ by more than upper case.
_MERLIN_TYPES = {"fp16": "float16", "fp32": "float32", "fp64": "float64"}
_NAMED = 4


def make_picture(archive: Archive, model_name: str) -> Picture:
    """Everything that is known about the archive, for one of the writers."""
    plan, entry = archive.plan, archive.repository.entry
    merlin = _merlin(archive)
    triton = triton_side(plan) if plan else None
    unread = left_out(triton) if triton else ()
    return Picture(
        archive=str(archive.repository.path),
        model_name=model_name,
        form=plan.form.value if plan else None,
        entry=plan.entry if plan else entry.name,
        merlin=merlin,
        triton=triton,
        correspondences=tuple(_correspondences(plan, merlin, triton)),
        reasons=(*_reasons(plan, merlin, triton, unread), *_compiled(triton)),
        left_out=unread,
        notes=(*plan.notes, *plan.doubts, *_not_compiled(plan)) if plan else (),
        refusal=str(archive.refusal) if archive.refusal else None,
        refused_at=tuple(_refused_at(archive, merlin)),
        request=triton.nodes[0].outputs if triton else (),
        answer=triton.nodes[-1].outputs if triton else (),
    )


def _merlin(archive: Archive) -> Side | None:
    if archive.graph is None or archive.graph.unread:
        return None
    entry = archive.repository.entry
    answered = [tensor.name for tensor in _columns(entry, "outputs")]
    return merlin_side(archive.graph, _columns(entry, "inputs"), answered)


def _refused_at(archive: Archive, merlin: Side | None) -> Iterator[str]:
    """Nodes with the label of the operator that the refusal names."""
    operator = getattr(archive.refusal, "operator", None)
    for node in merlin.nodes if merlin else ():
        label = node.title.partition(" ")[2] if node.title.startswith("#") else f"the {node.title}"
        if operator is not None and operator in (label, node.model):
            yield node.id


def _columns(model: SourceModel, which: str) -> tuple[DrawnTensor, ...]:
    """Declared tensors as Merlin's columns: a pair of values and offsets is one ragged column."""
    declared: dict[str, TensorSpec] = getattr(model.config, which) if model.config else {}
    columns: dict[str, DrawnTensor] = {}
    for spec in declared.values():
        column = find_column(spec.name)
        ragged = all(name in declared for name in list_ragged_tensors(column))
        name = column if ragged else spec.name
        kind = spec.data_type.removeprefix("TYPE_").lower()
        columns.setdefault(name, DrawnTensor(name, _MERLIN_TYPES.get(kind, kind), None, ragged))
    return tuple(columns.values())


def _correspondences(
    plan: ServingPlan | None, merlin: Side | None, triton: Side | None
) -> Iterator[tuple[str, str]]:
    """Boxes that are the same thing: request, answer, an operator and its model or its step."""
    if plan is None or merlin is None or triton is None:
        return
    yield merlin.nodes[0].id, triton.nodes[0].id
    by_model = {node.model: node.id for node in triton.nodes if node.kind != "generated"}
    by_title = {node.title: node.id for node in triton.nodes if node.kind == "generated"}
    steps = {
        node_id_at(it.node_path): by_title[it.triton_name] for it in plan.models if it.node_path
    }
    for node in merlin.nodes:
        if node.kind == "call" and node.model in by_model:
            yield node.id, by_model[node.model]
        elif node.id in steps:
            yield node.id, steps[node.id]
    yield merlin.nodes[-1].id, triton.nodes[-1].id


def _reasons(
    plan: ServingPlan | None, merlin: Side | None, triton: Side | None, unread: tuple[LeftOut, ...]
) -> Iterator[Reason]:
    if plan is None or merlin is None or triton is None:
        return
    counterparts = dict(_correspondences(plan, merlin, triton))
    for text in plan.reasons:
        about = tuple(node.id for node in merlin.nodes if _is_about(text, node))
        served = {counterparts[node] for node in about if node in counterparts}
        yield Reason(text, (*about, *_generated_beside(triton, served)))
    if plan.form is not Form.EXECUTOR:
        yield from _reasons_without_executor(plan, merlin, triton, unread)


def _reasons_without_executor(
    plan: ServingPlan, merlin: Side, triton: Side, unread: tuple[LeftOut, ...]
) -> Iterator[Reason]:
    """How an ensemble, or its only step, differs from the executor."""
    instead = (
        "its only step is served itself."
        if plan.form is Form.STEP_ALONE
        else "Triton itself runs the ensemble."
    )
    yield Reason(
        "Merlin's executor, a Python process that calls the models one by one, is not started: "
        + instead
    )
    selections = [node for node in merlin.nodes if node.kind == "selection"]
    if selections:
        names = list(dict.fromkeys(node.title.partition(" ")[2] for node in selections))
        more = ", …" if len(names) > _NAMED else ""
        yield Reason(
            f"Operators that only choose columns ({', '.join(names[:_NAMED])}{more}) need no "
            "model: edges do what they do.",
            tuple(node.id for node in selections),
        )
    renamed = _same_names(triton)
    if renamed:
        yield Reason(
            "In an ensemble one name is one tensor. Where a step puts out a column under the name "
            "that it came in with, the tensor between the steps gets the step's name behind it.",
            renamed,
        )
    if unread:
        yield Reason(
            "Nobody reads some of the tensors that are put out here; an ensemble may not hold "
            "them, so they are left out.",
            tuple(step.node for step in unread),
        )


def _compiled(triton: Side | None) -> Iterator[Reason]:
    """A line for all compiled workflows with the same operators."""
    alike: dict[tuple[tuple[tuple[str, int], ...], bool], list[str]] = {}
    for node in triton.nodes if triton else ():
        if node.workflow is not None and not node.workflow.not_compiled:
            key = node.workflow.operators, bool(node.workflow.kept)
            alike.setdefault(key, []).append(node.id)
    for (operators, in_part), nodes in alike.items():
        how = (
            "NVTabular runs a part of its workflow; the rest is compiled to numpy"
            if in_part
            else "NVTabular is not started: its workflow is compiled to a program that needs numpy "
            "alone"
        )
        numbers = f"and gives the same numbers ({describe_operators(dict(operators))})."
        yield Reason(f"{how} {numbers}", tuple(nodes))


def _not_compiled(plan: ServingPlan) -> Iterator[str]:
    for model in plan.models:
        if model.not_compiled:
            reads = " (one that reads graph.json)" if model.json_workflow_path else ""
            yield (
                f"{model.source_name} is not compiled, NVTabular{reads} runs it: "
                f"{model.not_compiled}"
            )
        for kept in model.compiled.program.kept if model.compiled else ():
            yield f"{model.source_name} is compiled in part, NVTabular runs the rest: {kept.reason}"


def _generated_beside(side: Side, served: set[str]) -> tuple[str, ...]:
    """The generated steps among them, else those next to them; all where none is."""
    generated = {node.id for node in side.nodes if node.kind == "generated"}
    if own := served & generated:
        return tuple(node.id for node in side.nodes if node.id in own)
    pairs = [(edge.source, edge.target) for edge in side.edges]
    feeding = {source for source, target in pairs if target in served} & generated
    fed = {target for source, target in pairs if source in served} & generated
    beside = feeding or fed or generated
    return tuple(node.id for node in side.nodes if node.id in beside)


def _same_names(side: Side) -> tuple[str, ...]:
    """Nodes that put out a tensor under a name that they take one in with."""
    taken: dict[str, set[str]] = {}
    for edge in side.edges:
        taken.setdefault(edge.target, set()).update(flow.target_name for flow in edge.flows)
    return tuple(
        node.id
        for node in side.nodes
        if node.kind in ("step", "generated")
        if any(tensor.name in taken.get(node.id, ()) for tensor in node.outputs)
    )


def _is_about(text: str, node: Box) -> bool:
    """Whether a sentence of the plan begins with what it calls the node."""
    label = node.title.partition(" ")[2] if node.title.startswith("#") else f"the {node.title}"
    names = [name for name in (label, node.model) if name]
    return text.startswith(tuple(name + end for name in names for end in (",", ":", " ")))
