"""overlap@k of two answers, against counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ensemble_tools.answers.overlaps import measure_overlaps
from tests.unit.verification.answers import answer


def floats(*values: float) -> object:
    return np.array(values, dtype=np.float32)


def test_scores() -> None:
    """Twelve candidates in reverse order: the first ten of both have eight in common."""
    scores: Any = np.arange(12, dtype=np.float32)
    new = answer(click=scores[::-1].copy())
    assert [*measure_overlaps(answer(click=scores), new)] == [(1, 0.0), (10, 0.8)]
    assert [*measure_overlaps(new, new)] == [(1, 1.0), (10, 1.0)]


def test_lists_of_a_catalogue() -> None:
    """Each row is a list; one of at most k items has no overlap@k; without floats nothing ranks."""
    old = answer(next=np.array([[3, 2, 1], [1, 2, 3]], dtype=np.float32))
    new = answer(next=np.array([[3, 1, 2], [3, 2, 1]], dtype=np.float32))
    assert [*measure_overlaps(old, new)] == [(1, 1.0), (1, 0.0)]
    classes = answer(group=np.array([1, 2], dtype=np.int64))
    assert [*measure_overlaps(classes, classes)] == []
    assert [*measure_overlaps(answer(click=floats(1)), answer(click=floats(2)))] == []


def test_many_lists() -> None:
    """Only the first of them are measured, of each output, so that it takes no time to speak of."""
    rows: Any = np.tile(np.arange(3, dtype=np.float32), (200_000, 1))
    old, new = answer(a=rows, b=rows), answer(a=rows, b=-rows)
    assert [*measure_overlaps(old, new)] == [(1, 1.0)] * 100 + [(1, 0.0)] * 100


def test_ids() -> None:
    """Ids rank by their places, unless they name the same candidates with scores that rise."""
    old = answer(ids=np.array([[7, 8, 9]]), scores=np.array([[3.0, 2.0, 1.0]]))
    new = answer(ids=np.array([[8, 7, 6]]), scores=np.array([[5.0, 4.0, 3.0]]))
    assert [*measure_overlaps(old, new)] == [(1, 0.0), (10, 2 / 3)]
    named = answer(ids=np.array([[7, 8, 9]]), scores=np.array([[1.0, 3.0, 2.0]]))
    assert [*measure_overlaps(old, named)] == [(1, 0.0)]


def test_unlike() -> None:
    """Without the output, or of another size: an error, not a number."""
    old = answer(click=floats(1, 2))
    for new, sentence in (
        (answer(other=floats(1, 2)), "NEW does not answer click"),
        (answer(click=floats(1, 2, 3)), "OLD scores 1 list of 2 items, NEW 1 list of 3 items"),
    ):
        with pytest.raises(ValueError, match=sentence):
            [*measure_overlaps(old, new)]
