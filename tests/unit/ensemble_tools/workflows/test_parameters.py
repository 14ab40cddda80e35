"""What fitted operators carry: what is taken, and what is not guessed."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ensemble_tools.archive.inert_pickle import read_pickle
from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.runtime.records import NumpyNumber


def inert(value: Any) -> Any:
    return read_pickle(pickle.dumps(value))


class Node:
    """Of the user's."""


@pytest.mark.parametrize("value", [0, -7, 1.5, 2**63 - 1, np.float32(0.1), np.int8(-3)])
def test_numbers(value: Any) -> None:
    found = read.number(inert(value), "x")
    assert read.plain(found) == value
    if isinstance(value, np.generic):
        assert found == NumpyNumber(value.dtype.str[1:], value.item())


@pytest.mark.parametrize(
    "value",
    [
        None,
        "1",
        b"1",
        True,
        [1],
        {},
        2**63,
        -(2**63) - 1,
        float("nan"),
        float("inf"),
        np.float64("nan"),
        np.bool_(True),
        np.datetime64(1, "s"),
        np.zeros(1),
        1j,
        Node(),
        Node,
    ],
)
def test_no_numbers(value: Any) -> None:
    with pytest.raises(Unknown, match=r"^x is "):
        read.number(inert(value), "x")


def test_a_number_that_is_cut_off() -> None:
    """The pickle may say anything about how many bytes there are."""
    value = inert(np.float64(1.5))
    value.args = (value.args[0], b"\0\0\0")
    with pytest.raises(Unknown, match="x is cut off"):
        read.number(value, "x")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "int64"),
        (np.float32, "float32"),
        ("int32", "int32"),
        (int, "int64"),
        (float, "float64"),
        ("float", "float64"),
        (np.dtype("uint8"), "uint8"),
    ],
)
def test_types(value: Any, name: str) -> None:
    assert read.dtype(inert(value), "dtype", "int64") == name


@pytest.mark.parametrize(
    "value", ["str", "object", "complex64", np.dtype("O"), np.dtype("M8[s]"), str, Node, 3, [1], ""]
)
def test_no_types(value: Any) -> None:
    with pytest.raises(Unknown, match=r"^dtype is .*not a numeric type"):
        read.dtype(inert(value), "dtype", "int64")


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (read.mapping, [1]),
        (read.mapping, {1: 2}),
        (read.mapping, None),
        (read.mapping, Node()),
        (read.names, "ab"),
        (read.names, [1]),
        (read.names, {"a"}),
        (read.names, Node()),
        (read.whole, 1.0),
        (read.whole, True),
        (read.whole, "1"),
        (read.whole, None),
        (read.flag, 1),
        (read.flag, None),
        (read.flag, "yes"),
        (read.flag, Node()),
        (read.node_columns, None),
        (read.node_columns, ["a"]),
        (read.node_columns, Node()),
    ],
)
def test_what_is_of_another_kind(reader: Callable[[Any, str], Any], value: Any) -> None:
    with pytest.raises(Unknown, match=r"^x is "):
        reader(inert(value), "x")


def test_what_is_of_the_kind() -> None:
    assert read.mapping(inert({"a": 1}), "x") == {"a": 1}
    assert read.names(inert(["a", "b"]), "x") == ("a", "b")
    assert read.whole(inert(3), "x") == 3
    assert read.flag(inert(False), "x") is False


def test_a_function_of_the_users_is_not_looked_into() -> None:
    """Only what a function of NVTabular's closes over is taken from it."""
    value = inert(functools.partial(int, base=2))
    with pytest.raises(Unknown, match="a function of the user's"):
        read.closed_over(value, "nvtabular.ops.bucketize", "Bucketize.__init__.<locals>.<lambda>")
    with pytest.raises(Unknown, match="a function of the user's"):
        read.closed_over(print, "builtins", "print")


@pytest.mark.parametrize(
    ("like", "value", "holds"),
    [
        (5, 10**30, True),
        (np.int8(1), 127, True),
        (np.int8(1), 128, False),
        (np.uint8(1), 255, True),
        (np.uint8(1), 256, False),
        (np.float32(1), 10**30, True),
    ],
)
def test_whether_a_type_holds_a_number(like: Any, value: float, holds: bool) -> None:
    assert read.holds(read.number(inert(like), "x"), value) is holds
