"""Which value is not of its input's type."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from serve.invoke.wrong_data import find_wrong_value


def body(*inputs: tuple[str, Any]) -> bytes:
    given = [
        {"name": f"i{number}", "shape": [1], "datatype": data_type, "data": data}
        for number, (data_type, data) in enumerate(inputs)
    ]
    return json.dumps({"inputs": given}).encode()


@pytest.mark.parametrize(
    ("data_type", "wrong", "expected"),
    [
        ("INT64", "a", 'found "a" at data[1], expected whole numbers (INT64)'),
        ("INT8", 1.5, "found 1.5 at data[1], expected whole numbers (INT8)"),
        ("INT32", True, "found true at data[1], expected whole numbers (INT32)"),
        ("INT64", 1 << 63, "found 9223372036854775808 at data[1]"),
        ("UINT16", -1, "found -1 at data[1], expected whole numbers from 0 on (UINT16)"),
        ("FP32", None, "found null at data[1], expected numbers (FP32)"),
        ("FP64", "x" * 100, f'found "{"x" * 39}… at data[1], expected numbers (FP64)'),
        ("BOOL", 1, "found 1 at data[1], expected true or false (BOOL)"),
        ("BYTES", 3, "found 3 at data[1], expected strings (BYTES)"),
    ],
)
def test_the_first_wrong_value(data_type: str, wrong: object, expected: str) -> None:
    """With its input and its place; what comes before it is right."""
    right = {"BOOL": True, "BYTES": "s"}.get(data_type, 7)
    found = find_wrong_value(body(("FP32", [1, 2.5]), (data_type, [right, wrong, "later"])))
    assert found is not None
    assert found.said.startswith(f"the input 'i1': {expected}")
    assert found.logged.startswith("the input 'i1': found another value at data[1], expected ")


def test_lists_in_lists() -> None:
    found = find_wrong_value(body(("INT8", [[1], [[]], [2, None]])))
    assert found is not None
    assert "found null at data[2][1]," in found.said


def test_a_deep_one_takes_no_longer() -> None:
    """The work is that of the values, not of them times their depth; the place is cut."""
    data: Any = [*range(20_000), "x"]
    for _ in range(90):
        data = [data]
    began = time.thread_time()
    found = find_wrong_value(body(("INT64", data)))
    assert time.thread_time() - began < 0.2
    assert found is not None
    assert found.said == (
        "the input 'i0': found \"x\" at data[0][0][0][0]…, expected whole numbers (INT64)"
    )


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{", b'{"inputs": 3}', b'{"inputs": [3]}', b'{"inputs": [{}]}', b"[" * 100_000],
)
def test_what_is_no_request(text: bytes) -> None:
    """Others say what is wrong with it."""
    assert find_wrong_value(text) is None


def test_nothing_wrong() -> None:
    """Nor with types that are not known here."""
    fine = body(("INT64", [1]), ("FP32", [1, 2.5]), ("BOOL", [True]), ("FP16", ["?"]))
    assert find_wrong_value(fine) is None
