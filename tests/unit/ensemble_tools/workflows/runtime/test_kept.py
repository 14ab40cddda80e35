"""Series of pandas as columns."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.columns import LeftToNVTabular, RequestError
from ensemble_tools.workflows.runtime.kept import NUMBER, TakeArray

DATES = np.array([1, "NaT"], "datetime64[ns]")


def _series(values: Any, dtype: Any = None) -> Any:
    """What a step looks at of a series; the server has no pandas."""
    return types.SimpleNamespace(values=values, dtype=dtype or values.dtype)


class _Lists:
    """A series of lists, which makes one of their items."""

    def __init__(self, rows: list[Any]) -> None:
        of_lists = bool(rows) and not np.isscalar(rows[0])
        self.values = np.array([*rows, None], object)[:-1] if of_lists else np.array(rows)


def test_lists_and_arrays() -> None:
    """All items together have the type that pandas gives them."""
    rows = _Lists([[1, 2], np.array([2.5], "float32"), []])
    (column,) = TakeArray("tags", NUMBER, "lists").run(rows)
    assert column.values.tolist() == [1.0, 2.0, 2.5]
    assert column.offsets.tolist() == [0, 2, 3, 3]


@pytest.mark.parametrize(
    "rows",
    [[[True], [False]], [[1.5]], [(1, 2)], [np.array(1)], [[]], [["a"]], [[1], None]],
    ids=["booleans", "floats", "tuples", "no dimension", "no items", "texts", "missing"],
)
def test_other_lists_than_foreseen(rows: list[Any]) -> None:
    """NVTabular answers such a request whole."""
    with pytest.raises(LeftToNVTabular, match="made something else of it than int values"):
        TakeArray("tags", "int", "lists").run(_Lists(rows))


def test_dates() -> None:
    """They may be missing."""
    (column,) = TakeArray("ts", "date", "values").run(_series(DATES))
    assert column.values is DATES


@pytest.mark.parametrize(
    "series",
    [
        _series(DATES, "datetime64[ns, Europe/Berlin]"),
        _series(DATES.astype("datetime64[s]")),
        _series(np.zeros(2)),
    ],
    ids=["with a zone", "seconds", "numbers"],
)
def test_other_than_dates(series: Any) -> None:
    """The array of dates with a zone does not have it."""
    with pytest.raises(RequestError, match="made something else of it than date values"):
        TakeArray("ts", "date", "values").run(series)


def test_texts() -> None:
    """In UTF-8; those that are missing are the words that are answered for them."""
    (column,) = TakeArray("city", "text", "values").run(
        _series(np.array(["käse", None, "日本", float("nan"), ""], object))
    )
    assert column.values.tolist() == ["käse".encode(), b"None", "日本".encode(), b"nan", b""]
    assert column.missing.tolist() == [False, True, False, True, False]


def test_texts_of_which_none_is_missing() -> None:
    (column,) = TakeArray("city", "text", "values").run(_series(np.array(["a", "É"], object)))
    assert column.values.tolist() == [b"a", "É".encode()]
    assert column.missing is None


@pytest.mark.parametrize(
    "values",
    [["a\0"], ["\ud83d"], ["a", 1], [b"a"]],
    ids=["a zero", "half a letter", "a number", "bytes"],
)
def test_other_than_texts(values: list[Any]) -> None:
    """numpy's texts have no zeros at their ends, and half a letter has no bytes."""
    with pytest.raises(LeftToNVTabular, match="'city': not all of it is text"):
        TakeArray("city", "text", "values").run(_series(np.array(values, object)))


def test_texts_in_an_array_of_pandas_own() -> None:
    """A category is made of texts, too, and is hashed otherwise."""
    with pytest.raises(LeftToNVTabular, match="something else of it than text values"):
        TakeArray("city", "text", "values").run(_series(np.array(["a"], object), "category"))
