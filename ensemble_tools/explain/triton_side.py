"""A plan -> the right side of the picture: the models that Triton is given, and their edges."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.model_config import name_data_type
from ensemble_tools.explain.picture import (
    ANSWER,
    REQUEST,
    Box,
    CarriedTensor,
    DrawnTensor,
    Edge,
    LeftOut,
    Side,
    Workflow,
)
from ensemble_tools.serving.plan import Form, PublishedModel, ServingPlan

_REQUEST, _ANSWER = "triton.request", "triton.answer"


def triton_side(plan: ServingPlan) -> Side:
    """The entry model's graph when it is an ensemble, else that model alone; and what they call.

    A generated model in front of an ensemble is drawn twice: above the ensemble's steps, where it
    takes the request, and below them, where it gives the answer.
    """
    models = {model.triton_name: model for model in plan.models}
    configs = {model.triton_name: model.config for model in plan.models}
    entry = configs[plan.entry]
    request = Box(_REQUEST, REQUEST, "request", outputs=tensors(entry, entry.input))
    answer = Box(_ANSWER, ANSWER, "answer", outputs=tensors(entry, entry.output))
    drawn: set[str] = set()
    behind = [name for name in plan.called if configs[name].ensemble_scheduling.step]
    if entry.ensemble_scheduling.step:
        boxes = _ensemble_boxes(entry, models, configs)
        edges = _ensemble_edges(entry, configs, _REQUEST, _ANSWER)
    elif models[plan.entry].files and len(behind) == 1:
        boxes, edges = _front(plan, models, configs, configs[behind[0]])
        drawn.add(behind[0])
    else:
        boxes = [_box(model_id(plan.entry), models[plan.entry], entry, _entry_kind(plan))]
        called = [_box(model_id(name), models[name], configs[name], "step") for name in plan.called]
        edges = _single_edges(model_id(plan.entry), entry)
        edges += [Edge(boxes[0].id, box.id, calls=True) for box in called]
        boxes += called
    drawn.update(box.title for box in boxes)
    beside = [
        _box(model_id(name), models[name], configs[name], _step_kind(models[name], configs[name]))
        for name in reversed(plan.called)
        if name not in drawn
    ]
    edges += _calls(boxes, beside, models)
    boxes += beside
    return Side("What Triton serves", (request, *boxes, answer), tuple(edges))


def _front(
    plan: ServingPlan,
    models: Mapping[str, PublishedModel],
    configs: Mapping[str, pb.ModelConfig],
    inner: pb.ModelConfig,
) -> tuple[list[Box], list[Edge]]:
    entry = configs[plan.entry]
    before = _box(model_id(plan.entry), models[plan.entry], entry, "generated")
    before = replace(before, detail="takes the request", outputs=tensors(inner, inner.input))
    after = Box(
        f"triton.after.{plan.entry}",
        "generated",
        plan.entry,
        "gives the answer",
        outputs=tensors(entry, entry.output),
    )
    request_edge, answer_edge = _single_edges(before.id, entry)
    edges = [
        request_edge,
        *_ensemble_edges(inner, configs, before.id, after.id),
        replace(answer_edge, source=after.id),
    ]
    return [before, *_ensemble_boxes(inner, models, configs), after], edges


def _calls(
    boxes: Iterable[Box], called: Iterable[Box], models: Mapping[str, PublishedModel]
) -> list[Edge]:
    """From each box whose generated file names a called model; callers come before the called."""
    callers = [(box, _strings(models[box.title])) for box in boxes]
    edges = []
    for box in called:
        edges += [
            Edge(caller.id, box.id, calls=True) for caller, names in callers if box.title in names
        ]
        callers.append((box, _strings(models[box.title])))
    return edges


def _strings(model: PublishedModel) -> set[str]:
    nodes = (node for _, text in model.files for node in ast.walk(ast.parse(text)))
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def left_out(side: Side) -> tuple[LeftOut, ...]:
    """Outputs of steps that no edge carries: an ensemble may not hold what nobody reads.

    What a called model puts out, its caller reads.
    """
    called = {edge.target for edge in side.edges if edge.calls}
    carried: dict[str, set[str]] = {}
    for edge in side.edges:
        carried.setdefault(edge.source, set()).update(flow.source_name for flow in edge.flows)
    return tuple(
        LeftOut(node.id, unread)
        for node in side.nodes
        if node.kind in ("step", "generated", "ensemble") and node.id not in called
        if (unread := tuple(t.name for t in node.outputs if t.name not in carried.get(node.id, ())))
    )


def model_id(triton_name: str) -> str:
    """The id of a model's box."""
    return f"triton.model.{triton_name}"


def step_id(triton_name: str, number: int) -> str:
    """The id of a step's box; the number tells apart two steps with one model."""
    return f"triton.step.{number}.{triton_name}"


def tensors(
    config: pb.ModelConfig, declared: Iterable[pb.ModelInput | pb.ModelOutput]
) -> tuple[DrawnTensor, ...]:
    """Declared tensors in the words of the v2 inference protocol, with the batch dimension."""
    batch = (-1,) if config.max_batch_size > 0 else ()
    return tuple(
        DrawnTensor(tensor.name, _protocol_type(tensor.data_type), (*batch, *tensor.dims))
        for tensor in declared
    )


def _protocol_type(number: int) -> str:
    return name_data_type(number).removeprefix("TYPE_").replace("STRING", "BYTES")


def _box(box_id: str, model: PublishedModel, config: pb.ModelConfig, kind: str) -> Box:
    detail = config.backend or config.platform or "no backend named"
    if kind == "generated":
        detail = f"generated, {detail}"
    return Box(
        box_id,
        kind,
        model.triton_name,
        detail,
        model.source_name,
        tensors(config, config.output),
        workflow=_workflow(model),
    )


def _workflow(model: PublishedModel) -> Workflow | None:
    pickled = not model.json_workflow_path
    if model.compiled is not None:
        program = model.compiled.program
        reasons = tuple(part.reason for part in program.kept)
        operators = tuple(program.operators.items())
        recognised = model.compiled.recognised
        return Workflow(operators, kept=reasons, recognised=recognised, pickled=pickled)
    if model.not_compiled:
        return Workflow(not_compiled=model.not_compiled, pickled=pickled)
    return None


def _entry_kind(plan: ServingPlan) -> str:
    if plan.form is Form.EXECUTOR:
        return "executor"
    return "generated" if plan.form is Form.STEPPED_ENSEMBLE else "model"


def _step_kind(model: PublishedModel, config: pb.ModelConfig) -> str:
    if model.files:
        return "generated"
    return "ensemble" if config.ensemble_scheduling.step else "step"


def _ensemble_boxes(
    entry: pb.ModelConfig,
    models: Mapping[str, PublishedModel],
    configs: Mapping[str, pb.ModelConfig],
) -> list[Box]:
    return [
        _box(
            step_id(step.model_name, number),
            models[step.model_name],
            configs[step.model_name],
            _step_kind(models[step.model_name], configs[step.model_name]),
        )
        for number, step in enumerate(entry.ensemble_scheduling.step)
    ]


def _ensemble_edges(
    entry: pb.ModelConfig, configs: Mapping[str, pb.ModelConfig], top: str, bottom: str
) -> list[Edge]:
    """Each ensemble tensor, from who puts it out to each reader; top and bottom are its ends."""
    makers: dict[str, tuple[str, str, str | None]] = {}
    for tensor in tensors(entry, entry.input):
        makers[tensor.name] = (top, tensor.name, tensor.dtype)
    steps = entry.ensemble_scheduling.step
    for number, step in enumerate(steps):
        config = configs[step.model_name]
        types = {tensor.name: tensor.dtype for tensor in tensors(config, config.output)}
        for inner, outer in sorted(step.output_map.items()):
            makers[outer] = (step_id(step.model_name, number), inner, types.get(inner))
    flows: dict[tuple[str, str], list[CarriedTensor]] = {}
    for number, step in enumerate(steps):
        config = configs[step.model_name]
        types = {tensor.name: tensor.dtype for tensor in tensors(config, config.input)}
        for inner, outer in sorted(step.input_map.items()):
            if outer in makers:
                source, name, dtype = makers[outer]
                flow = CarriedTensor(name, inner, dtype, types.get(inner))
                flows.setdefault((source, step_id(step.model_name, number)), []).append(flow)
    for tensor in tensors(entry, entry.output):
        if tensor.name in makers:
            source, name, dtype = makers[tensor.name]
            flow = CarriedTensor(name, tensor.name, dtype, tensor.dtype)
            flows.setdefault((source, bottom), []).append(flow)
    return [Edge(source, target, tuple(carried)) for (source, target), carried in flows.items()]


def _single_edges(box_id: str, entry: pb.ModelConfig) -> list[Edge]:
    requested = tuple(
        CarriedTensor(t.name, t.name, t.dtype, t.dtype) for t in tensors(entry, entry.input)
    )
    answered = tuple(
        CarriedTensor(t.name, t.name, t.dtype, t.dtype) for t in tensors(entry, entry.output)
    )
    return [Edge(_REQUEST, box_id, requested), Edge(box_id, _ANSWER, answered)]
