"""What is found wrong in a request at which a model of Merlin's failed, and what is not."""

from __future__ import annotations

import json

import pytest

from serve.invoke.mistakes import find_mistake, refused_by_step


def given(
    name: str, shape: list[int], datatype: str = "INT64", **data: object
) -> dict[str, object]:
    return {"name": name, "shape": shape, "datatype": datatype, **data}


def found(*inputs: dict[str, object]) -> str | None:
    return find_mistake([json.dumps({"inputs": [*inputs]}).encode(), b"\xff\0"])


_VALUES = given("c__values", [7], data=[1] * 7)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([given("a", [4]), given("b", [5, 2])], "found 4 rows of 'a' and 5 of 'b'"),
        (
            [given("a", [3]), _VALUES, given("c__offsets", [3], data=[0, 3, 7])],
            "found 3 rows of 'a' and 2 of 'c'",
        ),
        ([given("a", [0]), given("b", [0])], "found no rows"),
        ([given("c__values", [0]), given("c__offsets", [1], data=[0])], "found no rows"),
        ([_VALUES, given("c__offsets", [3], data=[0, 3, 9])], "offsets from 0 to 9"),
        ([_VALUES, given("c__offsets", [4], data=[0, 5, 3, 7])], "to ascend from 0 to 7"),
        ([given("s", [2], "BYTES", data=["a", "\u00e9"])], "'s': found text that is not ASCII"),
        ([given("s", [2], "BYTES", data=["a", "\u00e9"])], "at data[1]"),
    ],
)
def test_mistakes(inputs: list[dict[str, object]], says: str) -> None:
    """Each is named with its column."""
    assert says in (found(*inputs) or "nothing")


def test_no_mistakes() -> None:
    """Columns of one length, lists beside them, text in ASCII; nor what is no request, or long."""
    assert (
        found(
            given("a", [2]),
            _VALUES,
            given("c__offsets", [3], data=[0, 3, 7]),
            given("s", [2, 1], "BYTES", data=[["a"], ["b"]]),
            given("d__values", [2, 1]),
        )
        is None
    )
    for body in (b"", b"[]", b"{", b'{"inputs": [3]}', b'{"inputs": []}', b" " * 70_000):
        assert find_mistake([body]) is None
    assert find_mistake([]) is None


@pytest.mark.parametrize(
    ("cause", "is_ours"),
    [
        ("RuntimeError: column 'x': NaN or infinity cannot become int64", True),
        ("refused by design: column 'x' has 5 rows, and column 'y' has 4", True),
        ("RuntimeError: the request has no rows: Categorify of 'x' needs one", True),
        ("QueryFeast: column 'x' is empty; at least one id is expected", True),
        ("KeyError: 'column'", False),
        ("RuntimeError: Failed to categorical encode column x", False),
    ],
)
def test_words_of_our_steps(cause: str, is_ours: bool) -> None:
    """They are the request's mistake, whoever passes them on; what Merlin says may be another's."""
    expected = cause.removeprefix("RuntimeError: ") if is_ours else None
    assert refused_by_step(cause) == expected
