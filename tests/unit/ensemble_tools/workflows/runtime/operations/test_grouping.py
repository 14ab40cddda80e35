"""Differences to other rows; groups themselves are tested in ../test_grouping.py."""

from __future__ import annotations

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.operations.grouping import DifferenceLag, Group
from tests.support.operations import done, rows_of

NAN = float("nan")


@pytest.mark.parametrize(
    ("shift", "wanted"),
    [(1, [NAN, 2.0, NAN, 4.0]), (-1, [-2.0, NAN, -4.0, NAN]), (2, [NAN] * 4), (9, [NAN] * 4)],
)
def test_differences_stay_in_their_partition(shift: int, wanted: list[float]) -> None:
    (found,) = done(DifferenceLag(shift), [1, 3, 10, 14], [0, 0, 1, 1])
    np.testing.assert_array_equal(found.values, np.array(wanted, np.float32))


def test_groups_in_an_order() -> None:
    """The key, then what is made of the column, cast where that is asked for."""
    names = ("user", "age_list", "age_sum")
    operation = Group(1, 1, False, ((0, "list"), (0, "sum")), (None, None, "float32"), names)
    keys, ages, sums = done(operation, [7, 5, 7], [1, 2, 3], [10.0, 20.0, 30.0])
    assert keys.values.tolist() == [5, 7]
    assert rows_of(ages) == [[20.0], [30.0, 10.0]]
    assert (sums.values.dtype, sums.values.tolist()) == (np.float32, [20.0, 40.0])


@pytest.mark.parametrize(
    ("given", "made"),
    [("uint8", "uint64"), ("uint32", "uint64"), ("int8", "int64"), ("float32", "float64")],
)
def test_keys_have_the_types_of_an_index(given: str, made: str) -> None:
    """pandas makes an index of them, which has no narrower types: a function behind sees that."""
    operation = Group(1, 0, True, ((0, "count"),), (None, None), ("user", "age_count"))
    keys, _ = done(operation, np.array([7, 5, 7], given), [1.0, 2.0, 3.0])
    assert keys.values.dtype == made
