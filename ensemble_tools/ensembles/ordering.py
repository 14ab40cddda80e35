"""In which order steps can run, and what waits for what. No I/O.

Steps that may err at a request run one after the other. tritonserver up to 2.6x never releases an
ensemble's request when a step errs while another one runs: the models then say UNLOADING for ever,
and 2.51 has died of it (seen). So workflows and generated steps, which meet what callers send, wait
for each other by a tensor that they do not read: the signal of the step before.

The steps are gone through in an order in which each stands behind all that it reads. Of each:

1. it has no signal, as it does not err or others cannot wait for it: nothing is to be done;
2. it is the first with a signal, or stands behind the last one anyway: nothing is to be done;
3. it could run beside the last one with a signal: it waits for that signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from ensemble_tools.ensembles.conversions import EnsembleTensor
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.producers import FromCall, FromRequest, FromStep
from ensemble_tools.ensembles.reads import Reads


@dataclass(frozen=True)
class Ordering:
    """The order of calls and generated steps."""

    #: Keys of calls and names of generated steps, each after everything that it needs.
    order: tuple[str, ...]
    #: For each that waits, the tensor that it waits for and does not read.
    waits: Mapping[str, EnsembleTensor]


def order_steps(parts: Parts, reads: Reads, called: Set[str] = frozenset()) -> Ordering:
    """The steps inside the ensemble, so that no two that may err run side by side.

    called: models that python models call by name, whose inputs must stay what they are.
    """
    signals = _find_signals(parts, reads, called)
    needs = _find_needs(reads)
    order = _sort(needs, signals.keys())
    waits: dict[str, EnsembleTensor] = {}
    behind: dict[str, set[str]] = {}
    last: str | None = None
    for step in order:
        behind[step] = needs[step].union(*(behind[name] for name in needs[step]))
        # 1. Nobody can wait for it.
        if step not in signals:
            continue
        # 3. It could run beside the last one. In any other case, which is 2, nothing is to be done.
        if last is not None and last not in behind[step]:
            waits[step] = signals[last]
        last = step
    return Ordering(tuple(order), waits)


def find_asked(reads: Reads, ordering: Ordering) -> Mapping[str, list[EnsembleTensor]]:
    """A call or generated step -> those of its tensors that anybody wants, by name."""
    outputs: dict[str, list[EnsembleTensor]] = {step: [] for step in ordering.order}
    read = {*reads.leaving, *ordering.waits.values()}
    read.update(*(inputs.values() for inputs in reads.calls.values()))
    read.update(*(reads.steps[step.name] for step in reads.inner))
    for tensor in sorted(read, key=_make_sort_key):
        if not isinstance(tensor.producer, FromRequest) and tensor.producer.step in outputs:
            outputs[tensor.producer.step].append(tensor)
    return outputs


def _make_sort_key(tensor: EnsembleTensor) -> tuple[str, str]:
    return tensor.name, tensor.producer.reader if isinstance(tensor.producer, FromStep) else ""


def _find_needs(reads: Reads) -> dict[str, set[str]]:
    """Every step inside the ensemble, and those whose tensors it reads."""
    read = {
        **{key: tuple(inputs.values()) for key, inputs in reads.calls.items()},
        **{step.name: reads.steps[step.name] for step in reads.inner},
    }
    return {
        name: {
            tensor.producer.step
            for tensor in tensors
            if not isinstance(tensor.producer, FromRequest) and tensor.producer.step in read
        }
        for name, tensors in read.items()
    }


def _sort(needs: Mapping[str, Set[str]], signals: Set[str]) -> list[str]:
    """Every step behind those it needs; among the ready ones those with a signal come first."""
    ordered: dict[str, None] = {}
    waiting = [*needs]
    while waiting:
        ready = [name for name in waiting if needs[name] <= ordered.keys()]
        chosen = next((name for name in ready if name in signals), ready[0])
        ordered[chosen] = None
        waiting.remove(chosen)
    return [*ordered]


def _find_signals(parts: Parts, reads: Reads, called: Set[str]) -> dict[str, EnsembleTensor]:
    """For each step that may err, and can wait itself, a tensor that others can wait for."""
    candidates: dict[str, Sequence[EnsembleTensor]] = {
        key: [EnsembleTensor(FromCall(key), name) for name in parts.find_config(key).outputs]
        for key in parts.calls
        if _may_wait(parts, key, called)
    }
    candidates |= {step.name: reads.outputs[step.name] for step in reads.inner}
    signals = {step: _choose_signal(tensors, reads) for step, tensors in candidates.items()}
    return {step: signal for step, signal in signals.items() if signal is not None}


def _may_wait(parts: Parts, key: str, called: Set[str]) -> bool:
    """Whether the call is one that may err, and may be given one input more: an operator's step, or
    a workflow.

    Not one that others call as well, by name or in another step, who know nothing of that input;
    nor one with sparse_max, which declares lists of a length that it does not make.
    """
    call, config = parts.calls[key], parts.find_config(key)
    if call.work is not None:
        return True
    alone = sum(call.model_name == other.model_name for other in parts.calls.values()) == 1
    return (
        alone
        and call.model_name not in called
        and call.operator.startswith("TransformWorkflow")
        and config.backend == "python"
        and "sparse_max" not in config.message.parameters
    )


def _choose_signal(tensors: Sequence[EnsembleTensor], reads: Reads) -> EnsembleTensor | None:
    """A tensor of one number a row, whose shape is sure: others Triton never checked."""
    for tensor in tensors:
        spec = reads.specs[tensor]
        if len(spec.dims) == 1 and spec.data_type != "TYPE_STRING":
            return tensor
    return None
