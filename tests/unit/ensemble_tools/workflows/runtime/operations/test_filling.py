"""What becomes of missing values."""

from __future__ import annotations

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.columns import Column, LeftToNVTabular, RequestError
from ensemble_tools.workflows.runtime.operations.filling import (
    DropMissing,
    Fill,
    IsMissing,
    NoneLeft,
)
from tests.support.operations import done, lists

NAN = float("nan")


def test_a_filled_value_may_widen_the_column() -> None:
    """Only where it is put, and where float32 does not hold it."""
    values = np.array([1, NAN], np.float32)
    assert done(Fill(0.1), values)[0].values.dtype == np.float64
    assert done(Fill(0.5), values)[0].values.dtype == np.float32
    assert done(Fill(0.1), values[:1])[0].values.dtype == np.float32


def test_dropna_that_leaves_no_row() -> None:
    with pytest.raises(RequestError, match="every row has a missing value"):
        done(DropMissing(1), [NAN, NAN], [1, 2])


def test_dropna_looks_at_the_watched_columns() -> None:
    """All columns lose the same rows."""
    found = done(DropMissing(1), [1.0, NAN, 3.0], [NAN, 5.0, 6.0])
    np.testing.assert_array_equal(found[0].values, [1.0, 3.0])
    np.testing.assert_array_equal(found[1].values, [NAN, 6.0])


def test_lists_miss_nothing() -> None:
    """One flag a row."""
    assert done(IsMissing(), lists([1], [], [2, 3]))[0].values.tolist() == [False] * 3
    assert done(IsMissing(), [1.0, NAN])[0].values.tolist() == [False, True]


def test_missing_texts_for_an_operator_that_takes_none() -> None:
    """Texts that are all there go on to it."""
    check = NoneLeft("city").prepare([])
    (column,) = check(Column(np.array([b"a"]), None, np.array([False])))
    assert column.missing is None
    with pytest.raises(LeftToNVTabular, match="column 'city': an operator"):
        check(Column(np.array([b"nan"]), None, np.array([True])))
