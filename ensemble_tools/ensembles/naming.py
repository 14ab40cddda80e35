"""Reads and their order -> a name for each tensor of the ensemble. No I/O.

A tensor is called after what puts it out, `column.step`, or after whom it is made for,
`column.to.reader`. A name that is taken gets dots behind it, so that the order in which tensors
come to their names is a part of what is generated.
"""

from __future__ import annotations

from collections.abc import Iterator

from ensemble_tools.archive.tensor_names import name_produced
from ensemble_tools.ensembles.conversions import EnsembleTensor
from ensemble_tools.ensembles.ordering import Ordering, find_asked
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.producers import ANSWER, FromCall, FromRequest, FromStep
from ensemble_tools.ensembles.reads import Reads


def name_tensors(parts: Parts, reads: Reads, ordering: Ordering) -> dict[EnsembleTensor, str]:
    """The names in the ensemble, by which its steps and the model in front know their tensors.

    1. The request's tensors keep their names.
    2. So do the answer's, where no model stands in front.
    3. All others have one that is nobody else's.
    """
    taken = {*parts.executor.inputs, *parts.executor.outputs}
    answered = {} if reads.front else {tensor: name for name, tensor in reads.answer.items()}
    names: dict[EnsembleTensor, str] = {}
    for tensor in _walk(parts, reads, ordering):
        if tensor in names:
            continue
        if isinstance(tensor.producer, FromRequest):
            names[tensor] = tensor.name
        elif tensor in answered:
            names[tensor] = answered[tensor]
        else:
            names[tensor] = _choose_name(tensor, tensor.producer, taken)
            taken.add(names[tensor])
    return names


def _walk(parts: Parts, reads: Reads, ordering: Ordering) -> Iterator[EnsembleTensor]:
    """Every tensor that needs a name, in the order in which they come to them."""

    def walk_wait(step: str) -> Iterator[EnsembleTensor]:
        if step in ordering.waits:
            yield ordering.waits[step]

    for step in reads.inner:
        yield from (*reads.steps[step.name], *walk_wait(step.name), *reads.outputs[step.name])
    if reads.front:
        yield from (*reads.entering, *reads.leaving)
    tensors_asked = find_asked(reads, ordering)
    for key in parts.calls:
        yield from (*reads.calls[key].values(), *walk_wait(key), *tensors_asked[key])
    if reads.front:
        for step in (*reads.front.before, *reads.front.behind):
            for conversion in step.conversions:
                yield from conversion.reads
                producer = FromStep(step.name, conversion.reader)
                yield from (EnsembleTensor(producer, spec.name) for spec in conversion.writes)
    yield from reads.answer.values()


def _choose_name(tensor: EnsembleTensor, producer: FromCall | FromStep, taken: set[str]) -> str:
    owner = producer.step
    if isinstance(producer, FromStep):
        owner = f"to.{'answer' if producer.reader == ANSWER else producer.reader}"
    name = name_produced(owner, tensor.name)
    while name in taken:
        name += "."
    return name
