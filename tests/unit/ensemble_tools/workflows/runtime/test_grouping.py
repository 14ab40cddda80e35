"""Groupby: orders, groups, and what is made of a group's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.columns import Column, RequestError
from ensemble_tools.workflows.runtime.grouping import aggregate, group_keys, group_rows, sort_rows
from ensemble_tools.workflows.runtime.tensors import OutputColumn

NAN = float("nan")


def groups_of(*keys: Any, order: Any = None) -> Any:
    rows = np.arange(len(keys[0])) if order is None else np.array(order)
    return group_rows([Column(np.asarray(key)) for key in keys], rows)


def aggregated(name: str, keys: Any, values: Any) -> list[Any]:
    """One value a group, or one list."""
    with np.errstate(all="ignore"):  # as Program.run has it
        column = aggregate(name, Column(np.asarray(values)), groups_of(keys))
    if column.offsets is None:
        return list(column.values.tolist())
    return [
        column.values[start:end].tolist()
        for start, end in zip(column.offsets[:-1], column.offsets[1:], strict=True)
    ]


def test_groups_are_in_the_order_of_their_keys() -> None:
    groups = groups_of([3, 1, 3, 2])
    assert groups.order.tolist() == [1, 3, 0, 2]
    assert groups.starts.tolist() == [0, 1, 2]
    assert groups.lengths.tolist() == [1, 1, 2]


def test_two_keys() -> None:
    """The first key decides, then the second; texts by their bytes."""
    groups = groups_of([1, 1, 0, 1], np.array([b"b", b"a", b"z", b"b"]))
    assert groups.order.tolist() == [2, 1, 0, 3]
    assert groups.lengths.tolist() == [1, 1, 2]


def test_rows_with_a_missing_key_are_left_out() -> None:
    groups = groups_of([1, 2, 1, 2], [NAN, 0.5, 0.5, NAN])
    assert groups.order.tolist() == [2, 1]


def test_no_row_has_a_key() -> None:
    with pytest.raises(RequestError, match="every row has a missing key"):
        groups_of([NAN, NAN])


def test_the_first_zero_names_all_groups_with_zero() -> None:
    """0.0 and -0.0 are one key; of two keys each is looked at over all rows, as pandas does it."""
    first, second = [0.0, -0.0, 1.0], [2.0, 1.0, 1.0]
    groups = groups_of(first, second)
    keys = group_keys(Column(np.array(first)), np.arange(3), groups)
    assert np.signbit(keys).tolist() == [False, False, False]
    groups = groups_of(first, second, order=[1, 0, 2])
    keys = group_keys(Column(np.array(first)), np.array([1, 0, 2]), groups)
    assert np.signbit(keys).tolist() == [True, True, False]


def test_orders() -> None:
    """Missing values last, upwards and downwards."""
    column = Column(np.array([2.0, NAN, 1.0, 3.0]))
    assert sort_rows([column], True).tolist() == [2, 0, 3, 1]
    assert sort_rows([column], False).tolist() == [3, 0, 2, 1]


def test_orders_by_two_columns_are_stable() -> None:
    one, other = Column(np.array([1, 0, 1, 0])), Column(np.array([5, 5, 5, 5]))
    assert sort_rows([one, other], True).tolist() == [1, 3, 0, 2]
    assert sort_rows([one, other], False).tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("list", [1, 2, 3, 4], [[1, 3], [2, 4]]),
        ("list", [1.5, NAN, 3.0, 4.0], [[1.5, 3.0], [NAN, 4.0]]),
        ("first", [1, 2, 3, 4], [1, 2]),
        ("last", [1, 2, 3, 4], [3, 4]),
        ("count", [1.0, NAN, 2.0, NAN], [2, 0]),
        ("nunique", [1.0, NAN, 1.0, NAN], [1, 0]),
        ("nunique", [1, 2, 2, 2], [2, 1]),
        ("min", [5.0, NAN, 2.0, 3.0], [2.0, 3.0]),
        ("max", [5, 1, 2, 3], [5, 3]),
        ("sum", [1, 2, 3, 4], [4, 6]),
        ("sum", [1.0, NAN, 2.0, NAN], [3.0, 0.0]),
        ("mean", [1, 2, 4, 4], [2.5, 3.0]),
        ("mean", [1.0, NAN, 2.0, NAN], [1.5, NAN]),
        ("var", [1.0, 5.0, 2.0, NAN], [0.5, NAN]),
        ("std", [1, 5, 3, 5], [2**0.5, 0.0]),
        ("median", [1.0, NAN, 4.0, 7.0], [2.5, 7.0]),
    ],
)
def test_aggregations(name: str, values: list[Any], wanted: list[Any]) -> None:
    """Rows 0 and 2 are one group, 1 and 3 the other."""
    found = aggregated(name, [0, 1, 0, 1], values)
    np.testing.assert_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("first", [5, None]),
        ("last", [3, None]),
        ("min", [3, None]),
        ("max", [5, None]),
        ("count", [2, 0]),
        ("nunique", [2, 0]),
    ],
)
def test_aggregations_of_dates(name: str, wanted: list[Any]) -> None:
    """A missing one counts for nothing, unless it is the first, the last, or there is no other."""
    dates = np.array([5, "NaT", 3, "NaT"], "datetime64[ns]")
    assert aggregated(name, [0, 1, 0, 1], dates) == wanted
    assert aggregated("first", [0, 1, 0, 1], dates[::-1]) == [None, 3]


def test_lists_of_texts() -> None:
    found = aggregated("list", [0, 1, 0], np.array([b"a", b"b", b""]))
    assert found == [[b"a", b""], [b"b"]]


@pytest.mark.parametrize("rows", [3, 64, 65, 500])
def test_sums_are_compensated(rows: int) -> None:
    """Kahan's sum, in float32 too, in short groups and in long ones."""
    values: Any = np.full(rows, 0.1, np.float32)
    (found,) = aggregated("sum", np.zeros(rows, np.int64), values)
    assert found == np.float32(np.float32(0.1).astype(np.float64) * rows)


def test_sums_of_whole_numbers_wrap() -> None:
    assert aggregated("sum", [0, 0], [2**62, 2**62]) == [-(2**63)]


@pytest.mark.parametrize("name", ["first", "last", "list", "sum"])
def test_unsigned_numbers_beyond_int64(name: str) -> None:
    """A function's hashes, for example. Others come out of Python's lists as int64."""
    keys, many = groups_of([1, 2]), np.array([2**63 + 1, 5], np.uint64)
    assert aggregate(name, Column(many), keys).values.tolist() == [2**63 + 1, 5]
    few = aggregate(name, Column(many[1:]), groups_of([1])).values
    assert few.dtype == (np.uint64 if name == "sum" else np.int64)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [([-0.0, 0.0], -0.0), ([0.0, -0.0], 0.0), ([-0.0, 0.0, -0.0], 0.0), ([-0.0, 1.0, 0.0], -0.0)],
)
def test_medians_of_zeros(values: list[float], wanted: float) -> None:
    """As pandas 1.5 answers them, whose selection moves equal values."""
    (found,) = aggregated("median", [0] * len(values), values)
    assert str(found) == str(wanted)


def test_of_equal_extremes_the_first_is_kept() -> None:
    (found,) = aggregated("min", [0, 0], [0.0, -0.0])
    assert not np.signbit(found)
    (found,) = aggregated("max", [0, 0], [-0.0, 0.0])
    assert np.signbit(found)


#: pandas has no text in the second and the third row.
CITIES = Column(np.array([b"b", b"nan", b"None", b"a"]), None, np.array([False, True, True, False]))


@pytest.mark.parametrize(
    ("name", "values", "missing"),
    [
        ("first", [b"b", b"None"], [False, True]),
        ("last", [b"nan", b"a"], [True, False]),
        ("count", [1, 1], None),
        ("nunique", [1, 1], None),
    ],
)
def test_missing_texts(name: str, values: list[Any], missing: list[bool] | None) -> None:
    """The first and the last may be one; they are not counted."""
    column = aggregate(name, CITIES, groups_of([1, 1, 2, 2]))
    assert column.values.tolist() == values
    assert (None if column.missing is None else column.missing.tolist()) == missing


@pytest.mark.parametrize(
    ("texts", "kind"), [(["nan", "nan"], "f"), (["None", "nan"], "f"), (["None", "None"], "S")]
)
def test_texts_of_which_all_first_are_missing(texts: list[str], kind: str) -> None:
    """pandas takes them for floats, whose hash is another one, unless each is None."""
    cities = Column(np.array([*texts, "a"], "S"), None, np.array([True, True, False]))
    column = aggregate("first", cities, groups_of([1, 2, 2]))
    assert column.values.dtype.kind == kind
    (written,) = OutputColumn("city", ("city",), 0, False, "", ()).write(column).values()
    assert written.tolist() == [b"None" if kind == "S" else b"nan"] * 2


def test_rows_with_a_missing_text_as_key_are_left_out() -> None:
    """Whatever word is answered for it."""
    groups = group_rows([CITIES], np.arange(4))
    assert groups.order.tolist() == [3, 0]


def test_missing_texts_come_last_in_an_order() -> None:
    """Upwards and downwards; those that are missing stay in their order."""
    same = Column(np.zeros(4))
    assert sort_rows([same, CITIES], ascending=True).tolist() == [3, 0, 1, 2]
    assert sort_rows([same, CITIES], ascending=False).tolist() == [0, 3, 1, 2]
