"""Answers with chance in them: equal in distribution? No I/O.

Each form is asked the same request many times. Shapes and data types must be equal. Where chance
only changes the order of the executor's values, all of them must be the serving form's, each as
often. The numbers are compared by the two-sample Kolmogorov-Smirnov test: all of an output's
together, and those that come first in each row alone, since rankings are drawn in an order.
Numbers of one answer may depend on each other, so that each answer counts as one draw. Equal forms
fail a test at this level in one of a million runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ensemble_tools.answers.exchange import TensorAnswer
from ensemble_tools.answers.tensors import STRINGS, Array
from verification.comparing.comparison import (
    USUAL,
    Agreement,
    Comparison,
    Difference,
    Names,
    list_details,
)

#: Merlin's inline operators that draw random numbers (merlin/systems/dag/ops/softmax_sampling.py).
RANDOM_OPERATORS = frozenset({"SoftmaxSampling"})
#: How often each form is asked.
SAMPLES = 100
_LEVEL = 1e-6


def compare_distributions(
    executor: Sequence[TensorAnswer], served: Sequence[TensorAnswer], spoken: Names = USUAL
) -> Comparison:
    """Several answers of each to one request."""
    names = sorted({name for answer in (*executor, *served) for name in answer.tensors})
    outputs = tuple(_compare_output(name, executor, served, spoken) for name in names)
    same = all(difference.equal for difference in outputs)
    verdict = Agreement.SAME_DISTRIBUTION if same else Agreement.DIFFERENT
    return Comparison(verdict, outputs, list_details(outputs), spoken)


def _compare_output(
    name: str, executor: Sequence[TensorAnswer], served: Sequence[TensorAnswer], spoken: Names
) -> Difference:
    first, second = _describe(name, executor), _describe(name, served)
    if first != second:
        return Difference(
            name,
            first,
            second,
            equal=False,
            absolute=np.inf,
            relative=np.inf,
            detail=f"{spoken.right} answers {first}, {spoken.form} {second}",
        )
    fault = _find_fault(name, executor, served, spoken)
    if fault is not None:
        return Difference(
            name, first, second, equal=False, absolute=np.nan, relative=np.nan, detail=fault
        )
    how = "by multiset" if _is_shuffled(name, executor) else "in distribution"
    detail = f"random: {len(executor)} answers of each, compared by shape and {how}"
    return Difference(name, first, second, equal=True, detail=detail)


def _find_fault(
    name: str, executor: Sequence[TensorAnswer], served: Sequence[TensorAnswer], spoken: Names
) -> str | None:
    """How the numbers differ; None where they do not."""
    if _is_constant(name, executor) and _to_exact(name, executor) != _to_exact(name, served):
        return (
            f"not random: each answer of {spoken.right} is the same, and {spoken.form} "
            "answers another"
        )
    if _is_shuffled(name, executor) and _make_multisets(name, executor) != _make_multisets(
        name, served
    ):
        return f"random, in order only: {spoken.form} has other values than {spoken.right}"
    for kind, pick in (("all values", _take_all), ("first values", _take_first_of_rows)):
        apart = _measure_distance(
            *(_take_numbers(name, answers, pick) for answers in (executor, served))
        )
        limit = _compute_limit(len(executor), len(served))
        if apart > limit:
            return (
                f"random, in distribution: {kind} are {apart:.2f} apart, equal ones at most "
                f"{limit:.2f}"
            )
    return None


def _is_shuffled(name: str, answers: Sequence[TensorAnswer]) -> bool:
    """Whether each answer has the same values, in whatever order."""
    return len(_make_multisets(name, answers)) == 1


def _to_exact(name: str, answers: Sequence[TensorAnswer]) -> set[bytes]:
    """The different answers, each as its values in order."""
    return {repr(answer.tensors[name].array.tolist()).encode() for answer in answers}


def _is_constant(name: str, answers: Sequence[TensorAnswer]) -> bool:
    return len(_to_exact(name, answers)) == 1


def _describe(name: str, answers: Sequence[TensorAnswer]) -> str:
    described = {str(answer.tensors.get(name, "missing")) for answer in answers}
    return " or ".join(sorted(described))


def _make_multiset(name: str, answer: TensorAnswer) -> tuple[str, ...]:
    """The values of all rows in one order, as texts: so NaN is itself and strings sort too."""
    return tuple(sorted(map(repr, answer.tensors[name].array.reshape(-1).tolist())))


def _make_multisets(name: str, answers: Sequence[TensorAnswer]) -> set[tuple[str, ...]]:
    return {_make_multiset(name, answer) for answer in answers}


def _take_all(array: Array) -> Array:
    return array.reshape(-1)


def _take_first_of_rows(array: Array) -> Array:
    return array.reshape(array.shape[0], -1)[:, :1].reshape(-1) if array.size else array


def _take_numbers(name: str, answers: Sequence[TensorAnswer], pick: Array) -> Array:
    arrays = [pick(answer.tensors[name].array) for answer in answers]
    values = np.concatenate([array.reshape(-1) for array in arrays])
    if answers[0].tensors[name].data_type == STRINGS:
        return np.array([int.from_bytes(text[:6].ljust(6, b"\0"), "big") for text in values])
    return values


def _measure_distance(first: Array, second: Array) -> float:
    """The largest distance between the shares of both that are no larger than a number."""
    if not len(first) or not len(second):
        return 0.0
    first, second = np.sort(first), np.sort(second)  # NaN is sorted as the largest number
    ranks = np.concatenate([first, second])
    shares, others = (
        np.searchsorted(values, ranks, side="right") / len(values) for values in (first, second)
    )
    return float(np.abs(shares - others).max())


def _compute_limit(first: int, second: int) -> float:
    """The limit that as many draws from one distribution stay below."""
    return float(np.sqrt(-np.log(_LEVEL / 2) / 2 * (first + second) / (first * second)))
