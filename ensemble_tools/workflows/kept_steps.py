"""Finishes the steps of a program: kept nodes learn what the steps after them do. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from ensemble_tools.workflows.frames import Kind
from ensemble_tools.workflows.program import Step
from ensemble_tools.workflows.runtime.kept import ANSWERED_LISTS, NUMBER, KeptNode, TakeArray
from ensemble_tools.workflows.runtime.tensors import OutputColumn
from ensemble_tools.workflows.unnamed_columns import UnnamedColumns


def finish_steps(
    steps: Sequence[Step],
    outputs: Iterable[OutputColumn],
    unnamed: UnnamedColumns,
    of_one_kind: set[int],
) -> tuple[Step, ...]:
    """The steps as they run.

    1. Series of kept nodes that no compiled step reads are not made into arrays.
    2. Those that several nodes read are marked.
    3. So is what kept nodes may put out beside them.
    4. Arrays of numbers whose kind changes nothing may be of either.

    of_one_kind: arrays that must be of the kind that is foreseen.
    """
    read_steps = _drop_unread(steps, outputs)  # 1.
    shared = _mark_shared(read_steps)  # 2.
    named = _mark_unnamed(shared, unnamed)  # 3.
    return tuple(_loosen(step, of_one_kind) for step in named)  # 4.


def _drop_unread(steps: Sequence[Step], outputs: Iterable[OutputColumn]) -> tuple[Step, ...]:
    """Without arrays that nobody reads. Other steps stay: they may refuse a request."""
    read = {output.reads for output in outputs}
    read.update(register for step in steps for register in step.reads)
    return tuple(
        step
        for step in steps
        if not isinstance(step.operation, TakeArray) or read.intersection(step.writes)
    )


def _mark_shared(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Kept nodes know of which series others read the objects: NVTabular makes them for each.

    Columns of one node may hold the same objects.
    """
    maker = {
        number: index
        for index, step in enumerate(steps)
        if isinstance(step.operation, KeptNode)
        for number in step.writes
    }
    readers: Counter[int] = Counter()
    for step in filter(_reads_objects, steps):
        twice = len(step.reads) - len({*step.reads})
        readers.update({maker[number]: 1 + twice for number in step.reads if number in maker})
    shared = {number for number, index in maker.items() if readers[index] > 1}
    return tuple(
        _change(step, others_read=tuple(number in shared for number in step.reads))
        if isinstance(step.operation, KeptNode)
        else step
        for step in steps
    )


def _mark_unnamed(steps: tuple[Step, ...], unnamed: UnnamedColumns) -> tuple[Step, ...]:
    """Kept nodes know what they may put out beside the columns of their schemas."""
    makers = count()
    return tuple(
        _change(
            step,
            not_beside=unnamed.not_beside(maker := next(makers)),
            unchanged=unnamed.unchanged(maker),
        )
        if isinstance(step.operation, KeptNode)
        else step
        for step in steps
    )


def _loosen(step: Step, of_one_kind: set[int]) -> Step:
    """The step; numbers may be of either kind where that changes nothing."""
    operation = step.operation
    if (
        not isinstance(operation, TakeArray)
        or operation.family not in (Kind.INT.value, Kind.FLOAT.value)
        or not of_one_kind.isdisjoint(step.writes)
    ):
        return step
    return _change(step, family=NUMBER)


def _change(step: Step, **parameters: object) -> Step:
    """The step with other parameters of its operation."""
    operation: Any = step.operation
    return replace(step, operation=replace(operation, **parameters))


def _reads_objects(step: Step) -> bool:
    """Whether it reads what a kept node made when others have read it."""
    operation = step.operation
    return isinstance(operation, KeptNode) or (
        isinstance(operation, TakeArray) and operation.rows == ANSWERED_LISTS
    )
