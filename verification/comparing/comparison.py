"""Two replies to one request: are they the same? No I/O.

The executor is right by definition. Where it refuses and the serving form answers, nobody has lost
anything: that is noted. The other way round is a failure, but for what a compiled workflow refuses
by design (docs/workflows.md): that is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ensemble_tools.answers.exchange import Refusal, Reply, TensorAnswer
from ensemble_tools.answers.tensors import STRINGS, Array, Tensor
from ensemble_tools.workflows.runtime.columns import RefusedByDesign

#: Names of the models that a refusal went through stand in front of it, in so many characters.
_LONGEST_WAY = 200


class Agreement(Enum):
    """The result of a request; the value stands in tables."""

    EQUAL = "equal"
    WITHIN_TOLERANCE = "within tolerance"
    SAME_DISTRIBUTION = "same distribution"
    BOTH_REFUSE = "both refuse"
    ONLY_SERVED = "the executor refuses, the serving form answers"
    DIFFERENT = "different"
    BY_DESIGN = "refused by design"
    ONLY_EXECUTOR = "the serving form refuses, the executor answers"
    UNDECIDED = "no verdict"
    NOT_ASKED = "not asked"

    @property
    def is_failure(self) -> bool:
        """Whether the serving form did not do what the executor does, or might not."""
        return self in _FAILURES

    @property
    def is_answered(self) -> bool:
        """Whether both answered, the same: only that proves something."""
        return self in _ANSWERED


_ANSWERED = {Agreement.EQUAL, Agreement.WITHIN_TOLERANCE, Agreement.SAME_DISTRIBUTION}
_FAILURES = {Agreement.DIFFERENT, Agreement.ONLY_EXECUTOR, Agreement.UNDECIDED, Agreement.NOT_ASKED}


@dataclass(frozen=True)
class Difference:
    """One output. The differences are 0 where the numbers are the same, NaN for strings."""

    output: str
    executor: str
    served: str
    equal: bool
    absolute: float = 0.0
    relative: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class Names:
    """The names in sentences of the form that is right, and of the one that is compared with it."""

    right: str = "the executor"
    form: str = "the serving form"


USUAL = Names()


@dataclass(frozen=True)
class Comparison:
    """All outputs of one request, in alphabetical order; details are sentences for people."""

    verdict: Agreement
    outputs: tuple[Difference, ...] = ()
    details: tuple[str, ...] = ()
    names: Names = USUAL

    @property
    def result(self) -> str:
        """The verdict in words."""
        text = self.verdict.value.replace(USUAL.right, self.names.right)
        return text.replace(USUAL.form, self.names.form)

    @property
    def absolute(self) -> float:
        """The largest absolute difference."""
        return max((difference.absolute for difference in self.outputs), default=0.0)

    @property
    def relative(self) -> float:
        """The largest difference in relation to the executor's number."""
        return max((difference.relative for difference in self.outputs), default=0.0)


def compare(
    executor: Reply,
    served: Reply,
    tolerance: float = 0.0,
    names: Names = USUAL,
    *,
    bit_for_bit: bool = False,
) -> Comparison:
    """tolerance: floats may differ by it, times the executor's number where that is above 1.

    bit_for_bit: 0 and -0 differ, too; NaN is equal to any NaN.
    """
    if isinstance(executor, TensorAnswer) and isinstance(served, TensorAnswer):
        return _compare_answers(executor, served, tolerance, names, bit_for_bit)
    details = tuple(
        f"{who}: {reply.message}"
        for who, reply in ((names.right, executor), (names.form, served))
        if isinstance(reply, Refusal)
    )
    return Comparison(_judge_refusals(executor, served), details=details, names=names)


def _judge_refusals(executor: Reply, served: Reply) -> Agreement:
    """Judge two replies that are not both answers."""
    if not all(reply.judged for reply in (executor, served) if isinstance(reply, Refusal)):
        return Agreement.UNDECIDED
    if isinstance(executor, TensorAnswer):
        is_by_design = isinstance(served, Refusal) and _is_by_design(served.message)
        return Agreement.BY_DESIGN if is_by_design else Agreement.ONLY_EXECUTOR
    return Agreement.ONLY_SERVED if isinstance(served, TensorAnswer) else Agreement.BOTH_REFUSE


def _is_by_design(message: str) -> bool:
    """Whether it begins so, behind models' names; words of a request come later, in quotes."""
    way, marker, _ = message.partition(RefusedByDesign.BEGINNING)
    return bool(marker) and len(way) <= _LONGEST_WAY and '"' not in way


def _compare_answers(
    executor: TensorAnswer, served: TensorAnswer, tolerance: float, names: Names, bit_for_bit: bool
) -> Comparison:
    outputs = sorted(executor.tensors.keys() | served.tensors.keys())
    differences = tuple(
        compare_tensors(
            name,
            executor.tensors.get(name),
            served.tensors.get(name),
            tolerance,
            names,
            bit_for_bit=bit_for_bit,
        )
        for name in outputs
    )
    details = list_details(differences)
    if not all(difference.equal for difference in differences):
        return Comparison(Agreement.DIFFERENT, differences, details, names)
    exact = all(difference.absolute == 0 for difference in differences)
    verdict = Agreement.EQUAL if exact else Agreement.WITHIN_TOLERANCE
    return Comparison(verdict, differences, details, names)


def list_details(differences: Sequence[Difference]) -> tuple[str, ...]:
    """A sentence on each output that differs."""
    return tuple(
        f"{difference.output}: {difference.detail}"
        for difference in differences
        if difference.detail
    )


def compare_tensors(
    name: str,
    executor: Tensor | None,
    served: Tensor | None,
    tolerance: float = 0.0,
    names: Names = USUAL,
    *,
    bit_for_bit: bool = False,
) -> Difference:
    """Data type, shape and every number; NaN is equal to NaN, and 0 to -0 unless bit_for_bit."""
    described = str(executor or "missing"), str(served or "missing")
    if executor is None or served is None or described[0] != described[1]:
        return Difference(
            name,
            *described,
            equal=False,
            absolute=np.inf,
            relative=np.inf,
            detail=f"{names.right} answers {described[0]}, {names.form} {described[1]}",
        )
    if not executor.is_float:
        return _compare_exactly(name, executor, served, names)
    return _compare_floats(name, executor, served, tolerance, names, bit_for_bit)


def _compare_floats(
    name: str, executor: Tensor, served: Tensor, tolerance: float, names: Names, bit_for_bit: bool
) -> Difference:
    first, second = (tensor.array.astype(np.float64) for tensor in (executor, served))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(all="ignore"):
        absolute = np.where(same, 0.0, np.abs(first - second))
        relative = np.where(same, 0.0, absolute / np.abs(first))
        allowed = tolerance * np.maximum(1.0, np.abs(first))
        # A NaN or an infinity on one side only: no tolerance covers that.
        absolute, relative = (np.where(np.isnan(x), np.inf, x) for x in (absolute, relative))
        bad = ~(same | (np.isfinite(first) & (absolute <= allowed)))
    if bit_for_bit:
        bad |= ~np.isnan(first) & (np.signbit(first) != np.signbit(second))
    return Difference(
        name,
        str(executor),
        str(served),
        equal=not bad.any(),
        absolute=float(absolute.max(initial=0.0)),
        relative=float(relative.max(initial=0.0)),
        detail="; ".join(_find_first_difference(executor, served, bad, names)),
    )


def _compare_exactly(name: str, executor: Tensor, served: Tensor, names: Names) -> Difference:
    bad = executor.array != served.array
    absolute = relative = 0.0
    if bad.any() and executor.data_type == STRINGS:
        absolute = relative = float("nan")
    elif bad.any():
        pairs = zip(executor.array[bad].tolist(), served.array[bad].tolist(), strict=True)
        distances = [(abs(int(first) - int(second)), abs(int(first))) for first, second in pairs]
        absolute = float(max(apart for apart, _ in distances))
        relative = max(apart / size if size else np.inf for apart, size in distances)
    return Difference(
        name,
        str(executor),
        str(served),
        not bad.any(),
        absolute,
        relative,
        "; ".join(_find_first_difference(executor, served, bad, names)),
    )


def _find_first_difference(
    executor: Tensor, served: Tensor, bad: Array, names: Names
) -> Iterator[str]:
    indices = np.argwhere(bad)
    if len(indices):
        position = tuple(int(index) for index in indices[0])
        first, second = (_format(tensor.array[position]) for tensor in (executor, served))
        yield (
            f"{len(indices)} of {bad.size} values differ, the first at "
            f"{list(position)}: {first} from {names.right}, {second} from {names.form}"
        )


def _format(value: Array) -> str:
    return repr(value)[:60] if isinstance(value, bytes) else str(value)
