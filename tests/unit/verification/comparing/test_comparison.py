"""Two answers are equal when every name, data type, shape and number is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_tools.answers.exchange import Refusal, TensorAnswer
from ensemble_tools.answers.tensors import Tensor, encode_strings
from tests.support.examples import examples
from tests.unit.verification.answers import answer
from verification.comparing.comparison import Agreement, Names, compare
from verification.comparing.distribution import compare_distributions

NAN = math.nan
FLOATS = st.lists(st.floats(width=32), min_size=1, max_size=6)


def floats(*numbers: float) -> TensorAnswer:
    return answer(out=np.array(numbers, dtype=np.float32))


@given(FLOATS)
def test_equal_to_itself(numbers: list[float]) -> None:
    """Whatever the numbers, NaN and infinities included."""
    found = compare(floats(*numbers), floats(*numbers))
    assert found.verdict is Agreement.EQUAL
    assert (found.absolute, found.relative) == (0, 0)


@given(FLOATS, st.floats(width=32), st.data())
def test_any_other_number_is_seen(numbers: list[float], other: float, data: Any) -> None:
    """One number that is another one makes the answer different."""
    place = data.draw(st.integers(0, len(numbers) - 1))
    changed = [*numbers]
    changed[place] = other
    same = numbers[place] == other or (math.isnan(numbers[place]) and math.isnan(other))
    found = compare(floats(*numbers), floats(*changed))
    assert (found.verdict is Agreement.EQUAL) == same
    assert found.verdict.is_failure != same


@pytest.mark.parametrize(
    ("first", "second", "tolerance", "verdict"),
    [
        (1.0, 1.0 + 2**-23, 0.0, Agreement.DIFFERENT),
        (1.0, 1.0 + 2**-23, 1e-6, Agreement.WITHIN_TOLERANCE),
        (1000.0, 1000.5, 1e-3, Agreement.WITHIN_TOLERANCE),
        (1000.0, 1002.0, 1e-3, Agreement.DIFFERENT),
        (0.0, -0.0, 0.0, Agreement.EQUAL),
        (0.0, 1e-7, 1e-6, Agreement.WITHIN_TOLERANCE),
        (NAN, NAN, 0.0, Agreement.EQUAL),
        (NAN, 0.0, 1.0, Agreement.DIFFERENT),
        (0.0, NAN, 1.0, Agreement.DIFFERENT),
        (math.inf, math.inf, 0.0, Agreement.EQUAL),
        (math.inf, -math.inf, 1.0, Agreement.DIFFERENT),
        (math.inf, 1.0, 1.0, Agreement.DIFFERENT),
        (1.0, math.inf, 1.0, Agreement.DIFFERENT),
    ],
)
def test_tolerance(first: float, second: float, tolerance: float, verdict: Agreement) -> None:
    """It covers finite numbers only, in relation to the executor's where that is above 1."""
    assert compare(floats(first), floats(second), tolerance).verdict is verdict


def test_differences_are_told() -> None:
    """The largest ones, and the first place with both numbers."""
    found = compare(floats(1, 2, 4), floats(1, 3, 5))
    assert (found.absolute, found.relative) == (1.0, 0.5)
    assert found.details == (
        "out: 2 of 3 values differ, the first at [1]: 2.0 from the executor, 3.0 from the serving "
        "form",
    )


def test_large_integers_are_exact() -> None:
    """Integers that are one float64 are still two numbers."""
    big = 2**62
    one, other = (answer(out=np.array([big + add], dtype=np.int64)) for add in (0, 1))
    assert compare(one, other, tolerance=1.0).verdict is Agreement.DIFFERENT
    assert compare(one, other).absolute == 1.0


def test_data_type_and_shape_count() -> None:
    """Equal numbers of another data type or in another shape are different."""
    one = answer(out=np.zeros(2, dtype=np.float32))
    others: list[Any] = [np.zeros(2, dtype=np.float64), np.zeros((2, 1), dtype=np.float32)]
    for other in others:
        found = compare(one, answer(out=other))
        assert found.verdict is Agreement.DIFFERENT
        assert "the executor answers FP32 [2], the serving form" in found.details[0]


def test_names_count() -> None:
    """An output that only one of them has is a difference."""
    one = answer(a=np.zeros(1, dtype=np.float32))
    two = answer(a=np.zeros(1, dtype=np.float32), b=np.zeros(1, dtype=np.float32))
    for first, second in ((one, two), (two, one)):
        assert compare(first, second).verdict is Agreement.DIFFERENT


def test_strings() -> None:
    """They are compared byte by byte."""
    one, other = (
        TensorAnswer({"a": Tensor("BYTES", encode_strings([text]))}) for text in (b"x", b"y")
    )
    assert compare(one, one).verdict is Agreement.EQUAL
    found = compare(one, other)
    assert found.verdict is Agreement.DIFFERENT
    assert "b'x' from the executor" in found.details[0]


def test_no_rows() -> None:
    """Answers without any number are equal if they say so in one shape."""
    assert compare(floats(), floats()).verdict is Agreement.EQUAL


@pytest.mark.parametrize(
    ("executor", "served", "verdict", "failure"),
    [
        (Refusal("a"), Refusal("b"), Agreement.BOTH_REFUSE, False),
        (Refusal("a"), floats(1), Agreement.ONLY_SERVED, False),
        (floats(1), Refusal("b"), Agreement.ONLY_EXECUTOR, True),
        (floats(1), Refusal("m: refused by design: no rows"), Agreement.BY_DESIGN, False),
        (floats(1), Refusal('no text "refused by design: x"'), Agreement.ONLY_EXECUTOR, True),
        (Refusal("a"), Refusal("refused by design: no rows"), Agreement.BOTH_REFUSE, False),
        (Refusal("died", judged=False), floats(1), Agreement.UNDECIDED, True),
        (Refusal("a"), Refusal("died", judged=False), Agreement.UNDECIDED, True),
    ],
)
def test_refusals(
    executor: TensorAnswer | Refusal,
    served: TensorAnswer | Refusal,
    verdict: Agreement,
    failure: bool,
) -> None:
    """What the executor does not answer, the serving form may; an accident proves nothing."""
    found = compare(executor, served)
    assert found.verdict is verdict
    assert found.verdict.is_failure == failure
    assert len(found.details) == sum(isinstance(one, Refusal) for one in (executor, served))


def rankings(seed: int, weights: list[float], times: int = 100) -> list[TensorAnswer]:
    """Places of ten items, drawn by weight without replacement, the first five of them."""
    random = np.random.default_rng(seed)
    share = np.array(weights) / sum(weights)
    drawn = [random.choice(len(weights), 5, replace=False, p=share) for _ in range(times)]
    return [answer(ids=one.reshape(1, -1).astype(np.int64)) for one in drawn]


RISING = [float(2**place) for place in range(10)]


@settings(max_examples=examples(20))
@given(st.integers(0, 1000), st.integers(1001, 2000))
def test_one_distribution(first: int, second: int) -> None:
    """Draws from one distribution are taken for that."""
    found = compare_distributions(rankings(first, RISING), rankings(second, RISING))
    assert found.verdict is Agreement.SAME_DISTRIBUTION


@settings(max_examples=examples(20))
@given(st.integers(0, 1000))
def test_another_distribution(seed: int) -> None:
    """The opposite weights are seen, at whatever seed."""
    found = compare_distributions(rankings(seed, RISING), rankings(seed, RISING[::-1]))
    assert found.verdict is Agreement.DIFFERENT


def orders(*numbers: int) -> list[TensorAnswer]:
    """The numbers, each time another one first."""
    return [answer(ids=np.roll(np.array([numbers]), turn)) for turn in range(100)]


def test_another_order() -> None:
    """Where only the order is drawn, every value must be there as often as with the executor."""
    assert (
        compare_distributions(orders(1, 2, 3), orders(3, 2, 1)).verdict is not Agreement.DIFFERENT
    )
    found = compare_distributions(orders(1, 2, 2), orders(1, 1, 2))
    assert found.verdict is Agreement.DIFFERENT
    assert "other values" in found.details[0]


def test_always_the_opposite_order() -> None:
    """The best first is not the worst first, though all values are the same."""
    up, down = ([answer(ids=np.array([one]))] * 100 for one in ([1, 2, 3], [3, 2, 1]))
    assert compare_distributions(up, down).verdict is Agreement.DIFFERENT


def test_random_answers_of_other_shapes() -> None:
    """Chance changes no shape and no data type."""
    one = [answer(ids=np.zeros((1, 5), dtype=np.int64))]
    other = [answer(ids=np.zeros((1, 4), dtype=np.int64))]
    assert compare_distributions(one, other).verdict is Agreement.DIFFERENT


@given(FLOATS)
def test_bit_for_bit(numbers: list[float]) -> None:
    """0 and -0 are two numbers then, and everything else is judged as before."""
    one, other = floats(*numbers), floats(*[-0.0 if n == 0 else n for n in numbers])
    assert compare(one, other).verdict is Agreement.EQUAL
    assert compare(one, one, bit_for_bit=True).verdict is Agreement.EQUAL
    same = all(math.copysign(1, number) < 0 for number in numbers if number == 0)
    found = compare(one, other, bit_for_bit=True)
    assert (found.verdict is Agreement.EQUAL) == same


def test_any_nan_is_that() -> None:
    """Which NaN an operation makes is the processor's affair, and so is its sign."""
    found = compare(floats(NAN), floats(-NAN), bit_for_bit=True)
    assert found.verdict is Agreement.EQUAL


def test_sentences_name_who_is_compared() -> None:
    """Of a workflow alone nothing is said of an executor."""
    names = Names("NVTabular", "the compiled workflow")
    found = compare(floats(1, 2), floats(1, 3), names=names)
    assert "2.0 from NVTabular, 3.0 from the compiled workflow" in found.details[0]
    found = compare(floats(1), answer(out=np.array([1])), names=names)
    assert "NVTabular answers FP32 [1], the compiled workflow INT64 [1]" in found.details[0]
    found = compare(floats(1), Refusal("no"), names=names)
    assert found.result == "the compiled workflow refuses, NVTabular answers"
    assert found.details == ("the compiled workflow: no",)
    assert compare(Refusal("no"), floats(1)).result == Agreement.ONLY_SERVED.value
