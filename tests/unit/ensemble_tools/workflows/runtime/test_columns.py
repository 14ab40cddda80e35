"""Columns with lists, and rows that are taken from them."""

from __future__ import annotations

import numpy as np

from ensemble_tools.workflows.runtime.columns import Column, offsets_of, ranges, take_rows


def test_ranges() -> None:
    assert ranges(np.array([5, 0, 2]), np.array([2, 0, 3])).tolist() == [5, 6, 2, 3, 4]
    assert ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []


def test_taken() -> None:
    """Rows of lists, by number and by mask; some are empty."""
    lists = Column(np.arange(6), offsets_of(np.array([2, 0, 3, 1])))
    chosen = take_rows(lists, np.array([2, 1, 0]))
    assert (chosen.values.tolist(), chosen.offsets.tolist()) == ([2, 3, 4, 0, 1], [0, 3, 3, 5])
    chosen = take_rows(lists, np.array([False, True, False, True]))
    assert (chosen.values.tolist(), chosen.offsets.tolist()) == ([5], [0, 0, 1])
    assert take_rows(Column(np.array([7, 8])), np.array([True, False])).values.tolist() == [7]
