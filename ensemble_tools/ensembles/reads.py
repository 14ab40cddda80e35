"""Who reads what, and whether a model must stand in front of the ensemble. No I/O.

Ensembles have one name space for tensors, and every input must be read by a step. Where the answer
has a column under the name of a request's column, or leaves a column of the request unread, a
generated model stands in front: it has the names that callers know, and the ensemble behind it has
names of its own. It carries out the conversions at both ends of the graph as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass

from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.ensembles.conversions import EnsembleTensor
from ensemble_tools.ensembles.edges import find_whole_spec, shape_forest_output
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.placement import GeneratedStep
from ensemble_tools.ensembles.producers import ANSWER, REQUEST, FromCall, FromRequest, FromStep


@dataclass(frozen=True)
class FrontModel:
    """A model in front of the ensemble."""

    #: Why there must be one, a sentence each.
    reasons: tuple[str, ...]
    #: The steps that it carries out itself at the start of the graph.
    before: tuple[GeneratedStep, ...]
    #: The steps that it carries out itself at the end of the graph.
    behind: tuple[GeneratedStep, ...]


@dataclass(frozen=True)
class Reads:
    """Who reads and who puts out which tensors.

    Tensors get their names in the order in which they stand here.
    """

    #: Each call's inputs, by its key, and the tensors that they are fed with.
    calls: Mapping[str, Mapping[str, EnsembleTensor]]
    #: The tensors that each generated step reads, those of the front as well.
    steps: Mapping[str, tuple[EnsembleTensor, ...]]
    #: The tensors that each generated step puts out, those of the front as well.
    outputs: Mapping[str, tuple[EnsembleTensor, ...]]
    #: The executor's outputs.
    answer: Mapping[str, EnsembleTensor]
    #: Every tensor with its whole shape.
    specs: Mapping[EnsembleTensor, TensorSpec]
    #: The generated steps inside the ensemble.
    inner: tuple[GeneratedStep, ...]
    front: FrontModel | None
    #: The ensemble's own inputs.
    entering: tuple[EnsembleTensor, ...]
    #: The ensemble's own outputs.
    leaving: tuple[EnsembleTensor, ...]


#: (reader, its name of a tensor) -> the tensor: what comes unchanged first, then what is made.
_Sources = Mapping[tuple[str, str], EnsembleTensor]


def find_reads(parts: Parts) -> Reads:
    """The tensors of the ensemble in the executor's place, and who reads them."""
    sources = _find_sources(parts)
    steps = {step.name: _find_step_reads(parts, step) for step in parts.placement.steps}
    by_calls = _drop_repeats(tensor for (reader, _), tensor in sources.items() if reader != ANSWER)
    answer = {name: sources[ANSWER, name] for name in parts.executor.outputs}
    front = _find_front(parts, answer, {*by_calls}.union(*steps.values()))
    at_ends = (*front.before, *front.behind) if front else ()
    inner = tuple(step for step in parts.placement.steps if step not in at_ends)

    inside = {*parts.calls, *(step.name for step in inner)}
    read = _drop_repeats([*by_calls, *(tensor for step in inner for tensor in steps[step.name])])
    tensors = _drop_repeats([*answer.values(), *(t for step in at_ends for t in steps[step.name])])
    return Reads(
        _group_inputs(parts, sources),
        steps,
        _group_outputs(parts, sources),
        answer,
        _find_specs(parts, sources),
        inner,
        front,
        entering=tuple(tensor for tensor in read if not _is_made_by(tensor, inside)),
        leaving=tuple(tensor for tensor in tensors if _is_made_by(tensor, inside)),
    )


def _find_sources(parts: Parts) -> _Sources:
    sources = {
        (reader, name): tensor
        for reader, plan in parts.plans.items()
        for name, tensor in plan.tensors.items()
    }
    for step in parts.placement.steps:
        for conversion in step.conversions:
            producer = FromStep(step.name, conversion.reader)
            for spec in conversion.writes:
                sources[conversion.reader, spec.name] = EnsembleTensor(producer, spec.name)
        for reader in step.readers:
            for spec in parts.plans[reader].specs:
                sources[reader, spec.name] = EnsembleTensor(FromStep(step.name, reader), spec.name)
    return sources


def _find_step_reads(parts: Parts, step: GeneratedStep) -> tuple[EnsembleTensor, ...]:
    """The tensors that conversions read; or, where Merlin's code runs, all there are by then."""
    if not step.readers:
        return _drop_repeats(
            tensor for conversion in step.conversions for tensor in conversion.reads
        )
    request = [EnsembleTensor(REQUEST, name) for name in parts.executor.inputs]
    answered = [
        EnsembleTensor(FromCall(call.key), name)
        for call in parts.list_calls_up_to(step.level)
        for name in parts.find_config(call.key).outputs
    ]
    return (*request, *answered)


def _find_front(
    parts: Parts, answer: Mapping[str, EnsembleTensor], read: Set[EnsembleTensor]
) -> FrontModel | None:
    """None where an ensemble can have the executor's inputs and outputs under their names."""
    request = parts.executor.inputs
    clashing = [
        f"the answer, column {name!r}: it has the name of a column of the request, and in an "
        "ensemble a name is one tensor"
        for name, tensor in answer.items()
        if name in request and tensor != EnsembleTensor(REQUEST, name)
    ]
    unread = [
        f"the request, column {name!r}: no step reads it, and Triton's ensembles do not allow that"
        for name in request
        if EnsembleTensor(REQUEST, name) not in read
    ]
    if not clashing and not unread:
        return None
    deepest = parts.placement.deepest
    plain = [step for step in parts.placement.steps if not step.readers]
    return FrontModel(
        (*clashing, *unread),
        before=tuple(step for step in plain if step.level == 0),
        behind=tuple(step for step in plain if step.level == deepest != 0),
    )


def _find_specs(parts: Parts, sources: _Sources) -> Mapping[EnsembleTensor, TensorSpec]:
    """The tensors of the request, of each call's answer, and of what is made for each reader."""
    executor = parts.executor
    specs = {
        EnsembleTensor(REQUEST, name): find_whole_spec(executor, spec)
        for name, spec in executor.inputs.items()
    }
    for key, call in parts.calls.items():
        config = parts.find_config(key)
        find_spec = shape_forest_output if call.stacked else find_whole_spec
        for name, spec in config.outputs.items():
            specs[EnsembleTensor(FromCall(key), name)] = find_spec(config, spec)
    written = {
        (reader, spec.name): spec
        for reader, plan in parts.plans.items()
        for spec in (
            *plan.specs,
            *(s for conversion in plan.conversions for s in conversion.writes),
        )
    }
    for read, tensor in sources.items():
        if isinstance(tensor.producer, FromStep):
            specs[tensor] = written[read]
    return specs


def _group_inputs(parts: Parts, sources: _Sources) -> dict[str, dict[str, EnsembleTensor]]:
    inputs: dict[str, dict[str, EnsembleTensor]] = {key: {} for key in parts.calls}
    for (reader, name), tensor in sources.items():
        if reader != ANSWER:
            inputs[reader][name] = tensor
    return inputs


def _group_outputs(parts: Parts, sources: _Sources) -> dict[str, tuple[EnsembleTensor, ...]]:
    outputs: dict[str, list[EnsembleTensor]] = {step.name: [] for step in parts.placement.steps}
    for tensor in _drop_repeats(sources.values()):
        if isinstance(tensor.producer, FromStep):
            outputs[tensor.producer.step].append(tensor)
    return {step: tuple(tensors) for step, tensors in outputs.items()}


def _drop_repeats(tensors: Iterable[EnsembleTensor]) -> tuple[EnsembleTensor, ...]:
    return tuple(dict.fromkeys(tensors))


def _is_made_by(tensor: EnsembleTensor, steps: Collection[str]) -> bool:
    """Whether one of these, calls' keys or names of generated steps, puts it out."""
    return not isinstance(tensor.producer, FromRequest) and tensor.producer.step in steps
