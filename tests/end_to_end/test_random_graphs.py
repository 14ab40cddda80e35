"""A sample of random Merlin graphs; `make fuzz-graphs` runs as many as asked (tests/graphs)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.graphs.compare import Verdict, compare_case, difference_of, judge_answer
from tests.graphs.fuzz import answered_cases
from tests.graphs.tensors import Answer, read_answers
from tests.support.container import Container, running

pytestmark = pytest.mark.thorough

SEED = 101
COUNT = 12
SEEDS = range(SEED, SEED + COUNT)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The cases by their seeds, exported by Merlin and answered by its own executor."""
    made = answered_cases(SEED, COUNT, tmp_path_factory.mktemp("random-graphs"))
    return {int(directory.name): directory for directory in made}


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """One for all cases."""
    directory = tmp_path_factory.mktemp("random-graphs-container")
    with running(directory, SERVE_MODEL_ROOT=str(tmp_path_factory.getbasetemp())) as container:
        yield container


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graph(seed: int, cases: dict[int, Path], container: Container) -> None:
    """The container's numbers are those of Merlin's executor, and it errs where that errs.

    Made again: python -m tests.graphs.fuzz --count 1 --seed SEED
    """
    result = compare_case(container, cases[seed])
    assert result.verdict.good, f"{result.verdict.value}: {result.detail}"


def test_sample_is_worth_its_time(cases: dict[int, Path]) -> None:
    """Most graphs of the sample are answered by the executor: two sides that err prove nothing."""
    answered = [read_answers(directory).served > 0 for directory in cases.values()]
    assert sum(answered) >= COUNT * 2 // 3


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Answer({"x": np.array([1.0, np.nan], "float32")}), Verdict.EQUAL),
        (Answer({"x": np.array([1.00001, np.nan], "float32")}), Verdict.WRONG),
        (Answer({"x": np.array([1.0, 2.0], "float32")}), Verdict.WRONG),
        (Answer({"x": np.array([1.0, np.nan], "float64")}), Verdict.WRONG),
        (Answer({"x": np.array([[1.0], [np.nan]], "float32")}), Verdict.WRONG),
        (Answer({}), Verdict.WRONG),
        (Answer(None, "400: no"), Verdict.LOST),
        (None, Verdict.HANG),
    ],
)
def test_differences_are_seen(found: Answer | None, verdict: Verdict) -> None:
    """Type, shape, value, presence: each difference between two answers has its verdict."""
    expected = Answer({"x": np.array([1.0, np.nan], "float32")})
    assert judge_answer(expected, found, {})[0] is verdict


def test_an_answer_to_what_the_executor_refuses_is_seen() -> None:
    """Leniency is a difference too."""
    found = Answer({"x": np.zeros(1)})
    assert judge_answer(Answer(None, "KeyError: 'x'"), found, {})[0] is Verdict.LENIENT


def test_random_tensors_are_compared_by_type_and_shape() -> None:
    """Sampled numbers differ each time; their type and shape do not."""
    one, other = {"x": np.array([1, 2])}, {"x": np.array([2, 1])}
    assert difference_of(one, other, {"x": "numbers"}) == ""
    assert difference_of(one, other, {}) != ""
    assert difference_of(one, {"x": np.array([2])}, {"x": "numbers"}) != ""
