"""Slices of lists."""

from __future__ import annotations

import pytest

from ensemble_tools.workflows.runtime.operations.lists import SliceLists
from tests.support.operations import done, lists, rows_of

BOUNDS = (0, 1, 3, 9, -1, -2, -9)


@pytest.mark.parametrize("start", BOUNDS)
@pytest.mark.parametrize("end", BOUNDS)
def test_slices_are_pythons(start: int, end: int) -> None:
    rows: list[list[int]] = [[], [1], [1, 2], [1, 2, 3, 4, 5]]
    (found,) = done(SliceLists(start, end, None, 0), lists(*rows))
    assert rows_of(found) == [row[start:end] for row in rows]


def test_lists_are_filled_up() -> None:
    (found,) = done(SliceLists(-2, 9, 2, 7), lists([1, 2, 3], [4], []))
    assert rows_of(found) == [[2, 3], [4, 7], [7, 7]]
