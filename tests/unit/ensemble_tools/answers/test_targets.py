"""Outputs that rank are recognised by their types and shapes, or by name; nobody guesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ensemble_tools.answers.targets import Target, find_targets, has_lists, split_lists
from ensemble_tools.errors import NothingRanked
from tests.unit.verification.answers import answer


def scores(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def ids(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


@pytest.mark.parametrize(
    ("shape", "lists"),
    [
        ((5,), (1, 5)),
        ((5, 1), (1, 5)),
        ((1, 5), (1, 5)),
        ((3, 5), (3, 5)),
        ((2, 3, 5), (6, 5)),
        ((2, 3, 1), (2, 3)),
        ((1, 1), (1, 1)),
        ((0,), (1, 0)),
        ((0, 15), (0, 15)),
        ((3, 0), (3, 0)),
        ((), (1, 1)),
    ],
)
def test_lists_of_a_shape(shape: tuple[int, ...], lists: tuple[int, int]) -> None:
    """The last axis is the list, once axes of size 1 behind it are gone."""
    assert split_lists(np.zeros(shape)).shape == lists


def test_scores_alone() -> None:
    """Each output of floats is a target of its own; whole numbers of another shape are none."""
    found = find_targets(answer(like=scores(5), click=scores(5, 1), group=ids(2)))
    assert found == (Target("click"), Target("like"))


def test_ids_with_scores() -> None:
    """Ids are in the shape of scores, but for axes of size 1."""
    assert find_targets(answer(ordered_ids=ids(10, 1), ordered_scores=scores(10))) == (
        Target("ordered_scores", "ordered_ids"),
    )


def test_values_that_repeat_are_no_ids() -> None:
    """Classes of rows, say."""
    classes = np.array([1, 0, 1, 1], dtype=np.int32)
    assert find_targets(answer(label=classes, p=scores(4))) == (Target("p"),)


def test_one_row_alone() -> None:
    """Nothing tells ids from classes there: no ids are seen, unless they are named."""
    row = answer(label=ids(1), p=scores(1))
    assert not has_lists(row)
    assert find_targets(row) == (Target("p"),)
    assert find_targets(row, ids="label") == (Target("p", "label"),)


def test_strings_are_ids() -> None:
    """As in a catalogue of article numbers."""
    names = np.array([b"a", b"b"], dtype=np.object_)
    assert find_targets(answer(sku=names, p=scores(2))) == (Target("p", "sku"),)


def test_named_outputs() -> None:
    """--scores alone ranks rows; --ids alone takes the scores of its shape; both are a pair."""
    both = answer(a=ids(4), b=ids(4), p=scores(4), q=scores(7))
    assert find_targets(both, ("q",)) == (Target("q"),)
    assert find_targets(both, ids="a") == (Target("p", "a"),)
    assert find_targets(both, ("p",), "b") == (Target("p", "b"),)
    assert find_targets(answer(a=ids(4)), ids="a") == (Target(None, "a"),)
    assert find_targets(answer(a=ids(4)), ("a",)) == (Target("a"),)


@pytest.mark.parametrize(
    ("outputs", "options", "sentence"),
    [
        (
            {"a": ids(4), "b": ids(4), "p": scores(4)},
            {},
            "any of the outputs a, b may have the ids",
        ),
        ({"a": ids(4)}, {}, "no output has scores"),
        ({}, {}, "the outputs are none"),
        ({"p": scores(4)}, {"scores": ("q",)}, "no output is called 'q', as --scores says"),
        ({"p": scores(4)}, {"ids": "q"}, r"'q', as --ids says; the outputs are p FP32 \[4\]"),
        (
            {"s": np.array([b"x"], dtype=np.object_)},
            {"scores": ("s",)},
            "the output 's' has strings, which are no scores",
        ),
    ],
)
def test_nothing_to_rank(outputs: dict[str, Any], options: dict[str, Any], sentence: str) -> None:
    """The sentence names the outputs that there are, and the option that names one."""
    with pytest.raises(NothingRanked, match=sentence):
        find_targets(answer(**outputs), **options)
