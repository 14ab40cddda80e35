"""What steps do to columns, in small; NVTabular itself is asked in tests/workflows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.columns import Column, RequestError, offsets_of
from ensemble_tools.workflows.runtime.operations import OPERATIONS

NAN = float("nan")


def made(operation: str, given: dict[str, Any], *columns: Any) -> list[Column]:
    read = [one if isinstance(one, Column) else Column(np.asarray(one)) for one in columns]
    with np.errstate(all="ignore"):  # as Program.run has it
        return OPERATIONS[operation](given, [])(*read)


def lists(*rows: list[int]) -> Column:
    return Column(
        np.array([one for row in rows for one in row]),
        offsets_of(np.array([len(row) for row in rows])),
    )


def rows_of(column: Column) -> list[list[Any]]:
    return [
        column.values[start:end].tolist()
        for start, end in zip(column.offsets[:-1], column.offsets[1:], strict=True)
    ]


BOUNDS = (None, 0, 1, 3, 9, -1, -2, -9)


@pytest.mark.parametrize("start", BOUNDS[1:])
@pytest.mark.parametrize("end", BOUNDS[1:])
def test_slices_are_pythons(start: int, end: int) -> None:
    rows: list[list[int]] = [[], [1], [1, 2], [1, 2, 3, 4, 5]]
    given = {"start": start, "end": end, "length": None, "fill": 0}
    (found,) = made("list_slice", given, lists(*rows))
    assert rows_of(found) == [row[start:end] for row in rows]


def test_lists_are_filled_up() -> None:
    given = {"start": -2, "end": 9, "length": 2, "fill": 7}
    (found,) = made("list_slice", given, lists([1, 2, 3], [4], []))
    assert rows_of(found) == [[2, 3], [4, 7], [7, 7]]


@pytest.mark.parametrize(
    ("shift", "wanted"),
    [(1, [NAN, 2.0, NAN, 4.0]), (-1, [-2.0, NAN, -4.0, NAN]), (2, [NAN] * 4), (9, [NAN] * 4)],
)
def test_differences_stay_in_their_partition(shift: int, wanted: list[float]) -> None:
    (found,) = made("difference_lag", {"shift": shift}, [1, 3, 10, 14], [0, 0, 1, 1])
    np.testing.assert_array_equal(found.values, np.array(wanted, np.float32))


def test_normalize_keeps_the_precision_of_the_request() -> None:
    """float32 is calculated with in float32, and then cast."""
    given = {"mean": 0.1, "std": 0.3, "dtype": "float64", "column": "a"}
    (found,) = made("normalize", given, np.array([0.7], np.float32))
    wanted = (np.float32(0.7) - np.float32(0.1)) / np.float32(0.3)
    assert found.values.dtype == np.float64
    assert found.values[0] == np.float64(wanted)


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf])
def test_what_is_not_finite_becomes_no_whole_number(value: float) -> None:
    given = {"dtype": "int32", "column": "age"}
    with pytest.raises(RequestError, match="column 'age'"):
        made("cast", given, [1.0, value])


def test_a_filled_value_may_widen_the_column() -> None:
    """Only where it is put, and where float32 does not hold it."""
    values = np.array([1, NAN], np.float32)
    assert made("fill", {"value": 0.1}, values)[0].values.dtype == np.float64
    assert made("fill", {"value": 0.5}, values)[0].values.dtype == np.float32
    assert made("fill", {"value": 0.1}, values[:1])[0].values.dtype == np.float32


def test_clip() -> None:
    """First from below, then from above; NaN stays."""
    (found,) = made("clip", {"min": 5, "max": 1}, [0.0, 3.0, NAN])
    np.testing.assert_array_equal(found.values, [1.0, 1.0, NAN])


def test_dropna_that_leaves_no_row() -> None:
    with pytest.raises(RequestError, match="every row has a missing value"):
        made("drop_missing", {"watched": 1}, [NAN, NAN], [1, 2])


class Means:
    """A table of one category, whose mean is not a number: no row of it, and nothing to smooth."""

    def find(self, columns: list[Any]) -> tuple[Any, Any]:
        return columns[0] == 1, np.zeros(len(columns[0]), np.intp)

    def beside(self, _: str, places: Any) -> Any:
        return np.full(len(places), NAN)


def test_targets_of_what_has_no_mean() -> None:
    """The mean of all, for a category that was not seen and for one without rows."""
    given = {
        "table": 0, "means": [0.25], "folds": 1, "seed": 42, "dtypes": ["float32"], "keeps": False,
    }  # fmt: skip
    operation = OPERATIONS["target_encode"](given, [Means()])  # type: ignore[list-item]
    (found,) = operation(Column(np.array([1, 2])))
    assert found.values.tolist() == [0.25, 0.25]


def test_parameters_keep_their_numpy_type() -> None:
    """int16 less a float32 is a float32, and less a Python float a float64."""
    given = {
        "min": {"dtype": "f4", "value": -32768.0}, "max": {"dtype": "f4", "value": 32767.0},
        "dtype": "float64", "column": "x",
    }  # fmt: skip
    values = np.array([19202, -5], np.int16)
    (made,) = OPERATIONS["scale"](given, [])(Column(values))
    low, width = np.float32(-32768), np.float32(32767) - np.float32(-32768)
    assert made.values.tolist() == ((values - low) / width).astype(np.float64).tolist()
