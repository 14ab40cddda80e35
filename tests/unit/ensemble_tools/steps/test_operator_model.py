"""The generated steps in the place of Merlin's operators, without tritonserver."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ensemble_tools.steps.sources import render_operator
from tests.graphs import fake_backend


@pytest.fixture(autouse=True)
def backend() -> Iterator[None]:
    """What a model imports."""
    before = sys.modules.get(fake_backend.MODULE)
    fake_backend.install()
    yield
    if before is not None:
        sys.modules[fake_backend.MODULE] = before


def ask(source: str, **tensors: Any) -> dict[str, np.ndarray] | str:
    """What it answers, or the words of its error."""
    module: dict[str, Any] = {}
    exec(source, module)
    model = module["TritonPythonModel"]()
    given = [fake_backend.Tensor(name, array) for name, array in tensors.items()]
    wanted = list(module["WRITES"])
    (response,) = model.execute([fake_backend.InferenceRequest("", 0, given, wanted)])
    if response.has_error():
        assert response.error().code() == fake_backend.TritonError.INVALID_ARG
        return str(response.error().message())
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


UNROLL = render_operator(
    "UnrollFeatures",
    "unroll",
    {"item": ["item"], "age": ["age"], "seen": ["seen__values", "seen__offsets"]},
    {"u_age": "age", "u_seen": "seen"},
    {},
)
ITEMS = np.arange(3)


def test_rows_are_repeated_for_each_item() -> None:
    """Each as often as there are items; a list's rows, too, which are then of one length."""
    answer = ask(
        UNROLL,
        item=ITEMS,
        age=np.array([[1.5, 2.5]], np.float32),
        seen__values=np.array([7, 8], np.int32),
        seen__offsets=np.array([0, 2], np.int32),
    )
    assert isinstance(answer, dict)
    assert answer["u_age"].tolist() == [[1.5, 2.5]] * 3
    assert answer["u_seen"].tolist() == [[7, 8]] * 3
    assert [answer[name].dtype.name for name in ("u_age", "u_seen")] == ["float32", "int32"]


def test_several_rows_stay_in_their_order() -> None:
    """As numpy repeats them, which Merlin's operator asks it to."""
    answer = ask(
        UNROLL,
        item=ITEMS,
        age=np.array([1.0, 2.0]),
        seen__values=np.array([7, 8]),
        seen__offsets=np.array([0, 1, 2]),
    )
    assert isinstance(answer, dict)
    assert answer["u_age"].tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert answer["u_seen"].tolist() == [[7]] * 3 + [[8]] * 3


def test_rows_that_grow_with_the_square_of_a_request() -> None:
    """A small request could take all memory, also with one wide row."""
    seen = {"seen__values": np.zeros(0), "seen__offsets": np.zeros(1, np.int32)}
    for age in (np.zeros(5000), np.zeros((1, 5000))):
        assert ask(UNROLL, item=np.zeros(10_000), age=age, **seen) == (
            "UnrollFeatures: 400000000 bytes would be made of the columns age, seen for 10000 "
            "items; 268435456 are made: ask for fewer users or items at a time"
        )
    answer = ask(UNROLL, item=np.zeros(2_000_000), age=np.zeros(1), **seen)
    assert isinstance(answer, dict)
    assert len(answer["u_age"]) == 2_000_000


@pytest.mark.parametrize("offsets", [[0, 3, 1], [-1, 0], [0, 4], [], [3, 0, 3]])
def test_offsets_of_other_values_are_refused(offsets: list[int]) -> None:
    """Merlin's columns must have them ascending to the number of their values."""
    found = ask(
        UNROLL,
        item=ITEMS,
        age=np.zeros(2),
        seen__values=np.zeros(3),
        seen__offsets=np.array(offsets, np.int32),
    )
    assert found == (
        "UnrollFeatures: the offsets of column 'seen' are not those of its 3 values; they are "
        "expected to ascend to 3"
    )


@pytest.mark.parametrize("offsets", [[0, 1, 3], [1, 2, 3]])
def test_lists_of_several_lengths_are_refused(offsets: list[int]) -> None:
    """Merlin's executor cannot make one array of them either."""
    found = ask(
        UNROLL,
        item=ITEMS,
        age=np.zeros(2),
        seen__values=np.zeros(3),
        seen__offsets=np.array(offsets),
    )
    assert isinstance(found, str)
    assert found.startswith("UnrollFeatures: the lists of column 'seen' have ")


def test_no_items_and_no_rows() -> None:
    none = {"seen__values": np.zeros(0), "seen__offsets": np.zeros(1, np.int32)}
    assert isinstance(ask(UNROLL, item=ITEMS[:0], age=np.zeros(0), **none), dict)


def sampling(temperature: float = 20.0, topk: int = 2) -> str:
    settings = {"temperature": temperature, "topk": topk}
    reads = {"ids": ["ids"], "scores": ["scores"]}
    writes = {"ordered_ids": "ids", "ordered_scores": "scores"}
    return render_operator("SoftmaxSampling", "sample", reads, writes, settings)


def test_ids_are_drawn_with_their_scores() -> None:
    """One row, each id once, each with its own score."""
    ids: Any = np.arange(10, 15, dtype=np.int32)
    scores = np.linspace(0.1, 0.5, 5, dtype=np.float32)
    answer = ask(sampling(), ids=ids.reshape(-1, 1), scores=scores)
    assert isinstance(answer, dict)
    drawn = answer["ordered_ids"]
    assert (drawn.shape, drawn.dtype.name) == ((1, 2), "int32")
    assert len({*drawn[0]}) == 2
    assert answer["ordered_scores"][0].tolist() == scores[drawn[0] - 10].tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
def test_the_first_is_drawn_by_the_softmax(temperature: float) -> None:
    """10,000 draws; each share is within five standard deviations of the softmax's."""
    scores, draws = np.array([0.1, 0.4, 1.0]), 10_000
    module: dict[str, Any] = {}
    exec(sampling(temperature, 1), module)
    columns = {"ids": [np.arange(3)], "scores": [scores]}
    found = Counter(int(module["sample"](columns)["ordered_ids"][0, 0]) for _ in range(draws))
    weights = np.exp(temperature * scores)
    for number, share in enumerate(weights / weights.sum()):
        deviation = np.sqrt(share * (1 - share) / draws)
        assert abs(found[number] / draws - share) < 5 * deviation


def test_as_many_scores_as_ids() -> None:
    found = ask(sampling(), ids=np.arange(3), scores=np.zeros(2))
    assert found == "SoftmaxSampling: it has 3 ids and 2 scores; one score an id is expected"
    empty = ask(sampling(), ids=np.arange(0), scores=np.zeros(0))
    assert isinstance(empty, dict)
    assert empty["ordered_ids"].shape == (1, 0)


def test_ids_without_others() -> None:
    """In their order, of their type."""
    reads, writes = {"ids": ["ids"], "seen": ["seen"]}, {"filtered_ids": "ids"}
    source = render_operator("FilterCandidates", "filter", reads, writes, {"without": "seen"})
    ids = np.array([[4], [9], [2], [4]], np.int32)
    answer = ask(source, ids=ids, seen=np.array([9, 5]))
    assert isinstance(answer, dict)
    assert answer["filtered_ids"].tolist() == [4, 2, 4]
    assert answer["filtered_ids"].dtype.name == "int32"
