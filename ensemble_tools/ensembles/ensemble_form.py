"""Wiring + configs -> the ensemble in the executor's place, with generated steps. No I/O.

Each stage makes a frozen result of those before it:

    wiring      which column goes where                              wiring.py
    plans       how each tensor of each reader is fed                edges.py, conversions.py
    placement   which generated steps carry out what that needs      placement.py
    reads       who reads what                                       reads.py
    ordering    what waits for what                                  ordering.py
    names       what tensors are called in the ensemble              naming.py
    models      the protobufs and the generated sources              render.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.ensembles.conversions import EnsembleTensor
from ensemble_tools.ensembles.edges import plan_inputs
from ensemble_tools.ensembles.operators import NUMPY
from ensemble_tools.ensembles.ordering import order_steps
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.placement import drop_idle_calls, put_into_steps
from ensemble_tools.ensembles.producers import ANSWER, REQUEST, FromCall
from ensemble_tools.ensembles.reads import FrontModel, Reads, find_reads
from ensemble_tools.ensembles.render import EnsembleForm, render_models
from ensemble_tools.ensembles.wiring import Wiring
from ensemble_tools.errors import GraphNotExpressible, GraphNotServable
from ensemble_tools.setting_names import EXECUTOR_REMEDY


def form_ensemble(
    wiring: Wiring,
    executor: SourceModel,
    steps: Mapping[str, SourceModel],
    triton_name: Callable[[str], str],
    called: frozenset[str] = frozenset(),
) -> EnsembleForm:
    """The models in the executor's place.

    steps: the children by their names in the archive. triton_name: what such a name, a child's or a
    generated model's, becomes in Triton. called: models that python models call by name, whose
    inputs must stay what they are. Raises GraphNotServable where the executor fails as well,
    GraphNotExpressible where no ensemble does.
    """
    path = executor.graph_path or executor.directory
    parts = _gather_parts(wiring, executor, steps, path)
    reads = find_reads(parts)
    step_alone = _find_step_alone(parts, reads)
    if step_alone is not None:
        reasons = reads.front.reasons if reads.front else ()
        return EnsembleForm((), (step_alone,), step_alone, reasons=reasons, notes=wiring.notes)
    if reads.front:
        _check_behind_front(parts, reads, reads.front, path)
    ordering = order_steps(parts, reads, called)
    reasons = (*_list_reasons(parts), *(reads.front.reasons if reads.front else ()))
    children = (call.model_name for call in parts.calls.values() if call.work is None)
    return replace(
        render_models(parts, reads, ordering, triton_name),
        children=tuple(dict.fromkeys(children)),
        reasons=tuple(dict.fromkeys(reasons)),
        notes=tuple(dict.fromkeys((*wiring.notes, *_list_libraries(parts)))),
    )


def _gather_parts(
    wiring: Wiring, executor: SourceModel, steps: Mapping[str, SourceModel], path: Path
) -> Parts:
    assert executor.config is not None
    configs = {name: step.config for name, step in steps.items() if step.config is not None}
    _check_batching(wiring, executor, executor.config, configs)
    plans = plan_inputs(wiring, executor.config, configs, path)
    wiring = drop_idle_calls(wiring, plans)
    used = {ANSWER, *(call.key for call in wiring.calls)}
    plans = {key: plan for key, plan in plans.items() if key in used}
    placement = put_into_steps(wiring, plans, frozenset(steps), path)
    return Parts(wiring, executor.config, configs, plans, placement)


def _check_batching(
    wiring: Wiring, executor: SourceModel, config: ModelConfig, steps: Mapping[str, ModelConfig]
) -> None:
    """Raise GraphNotServable where Merlin's own python models would have to batch."""
    batching = [("the executor", executor.name, config)] + [
        (call.operator, call.model_name, steps[call.model_name])
        for call in wiring.calls
        if call.operator.startswith("TransformWorkflow")
    ]
    for operator, name, size in batching:
        if size.max_batch_size > 0:
            raise GraphNotServable(
                executor.graph_path or executor.directory,
                operator,
                (),
                f"max_batch_size of {name} is {size.max_batch_size}, which puts a dimension in "
                "front of whole shapes; Merlin sends whole shapes, so its executor fails as well",
                "export with max_batch_size unset",
            )


def _find_step_alone(parts: Parts, reads: Reads) -> str | None:
    """The only call's model, when it has exactly the executor's inputs and outputs."""
    if len(parts.calls) != 1 or parts.placement.steps or not reads.front:
        return None
    key, call = next(iter(parts.calls.items()))
    if call.work is not None:
        return None
    config, executor = parts.find_config(key), parts.executor
    inputs = {name: EnsembleTensor(REQUEST, name) for name in executor.inputs}
    outputs = {name: EnsembleTensor(FromCall(key), name) for name in executor.outputs}
    has_the_executors_tensors = (
        parts.plans[key].tensors == inputs
        and reads.answer == outputs
        and config.inputs.keys() == executor.inputs.keys()
        and config.outputs.keys() == executor.outputs.keys()
    )
    if has_the_executors_tensors and config.backend == "python" and config.max_batch_size == 0:
        return call.model_name
    return None


def _check_behind_front(parts: Parts, reads: Reads, front: FrontModel, path: Path) -> None:
    """Raise GraphNotExpressible where it would take two processes beside the children."""
    if any(step.readers for step in reads.inner):
        inline = next(iter(parts.wiring.inlines.values()))
        raise GraphNotExpressible(
            path,
            inline.operator,
            inline.columns,
            "this inline operator needs a process "
            f"with Merlin, and the ensemble another model in front ({front.reasons[0]}); the "
            "executor is one process",
            EXECUTOR_REMEDY,
        )


def _list_libraries(parts: Parts) -> tuple[str, ...]:
    """A sentence for each operator whose step needs more than numpy."""
    return tuple(
        f"{call.operator}: its step needs {call.work.library} in the Python that runs models"
        for call in parts.calls.values()
        if call.work is not None and call.work.library != NUMPY
    )


def _list_reasons(parts: Parts) -> list[str]:
    """Why the children alone do not do: a sentence for each conversion, forest and operator."""
    reasons = []
    for key, plan in parts.plans.items():
        who = "the answer" if key == ANSWER else parts.calls[key].model_name
        reasons += [
            f"{who}, column {', '.join(map(repr, conversion.columns[:10]))}: {conversion.why}"
            for conversion in plan.conversions
        ]
    reasons += [
        f"{call.model_name}: it takes one matrix in the place of {len(call.stacked)} columns"
        for call in parts.calls.values()
        if call.stacked
    ]
    reasons += [
        f"{call.operator}: a step of its own does with {call.work.library} what it does inside "
        "Merlin's executor"
        for call in parts.calls.values()
        if call.work is not None
    ]
    reasons += [
        f"{inline.operator}: it runs Python inside Merlin's executor and has no model directory"
        for inline in parts.wiring.inlines.values()
    ]
    return reasons
