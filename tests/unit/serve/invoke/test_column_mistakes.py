"""What is found wrong in a request at which a model of Merlin's failed, and what is not."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from serve.invoke.column_mistakes import find_mistake


def given(
    name: str, shape: list[int], datatype: str = "INT64", **data: object
) -> dict[str, object]:
    return {"name": name, "shape": shape, "datatype": datatype, **data}


def found(*inputs: dict[str, object]) -> str | None:
    """The mistake, which is the same whether the data are JSON or binary tensors."""
    mistake = find_mistake([json.dumps({"inputs": [*inputs]}).encode()])
    assert find_mistake(*in_binary(*inputs)) == mistake
    return mistake


def in_binary(*inputs: dict[str, Any], padding: bytes = b"") -> tuple[list[bytes], int]:
    """The request in one piece, and how long its JSON is."""
    head, tensors = [], []
    for given in inputs:
        data = np.ravel(given.get("data", np.zeros(given["shape"])))
        if given["datatype"] == "BYTES":
            texts = [str(text).encode() for text in data]
            tensors.append(b"".join(struct.pack("<I", len(text)) + text for text in texts))
        else:
            tensors.append(data.astype(given["datatype"].lower()).tobytes())
        kept = {field: given[field] for field in ("name", "shape", "datatype")}
        head.append({**kept, "parameters": {"binary_data_size": len(tensors[-1])}})
    text = json.dumps({"inputs": head}).encode() + padding
    return [text + b"".join(tensors)], len(text)


_VALUES = given("c__values", [7], data=[1] * 7)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        (
            [given("a", [4]), given("b", [5, 2])],
            "column 'b' has 5 rows, and column 'a' has 4; a request's columns are of one length",
        ),
        (
            [given("a", [3]), _VALUES, given("c__offsets", [3], data=[0, 3, 7])],
            "column 'c' has 2 rows, and column 'a' has 3",
        ),
        ([given("a", [0]), given("b", [0])], "the request has no rows"),
        (
            [given("c__values", [0]), given("c__offsets", [1], data=[0])],
            "the request has no rows",
        ),
        (
            [_VALUES, given("c__offsets", [3], data=[0, 3, 9])],
            "column 'c': the last offset is 9, and there are 7 values",
        ),
        (
            [given("a", [2]), _VALUES, given("c__offsets", [0], data=[])],
            "column 'c': the last offset is missing, and there are 7 values",
        ),
        (
            [_VALUES, given("c__offsets", [4], "INT32", data=[0, 5, 3, 7])],
            "column 'c': the offset 3 comes after 5",
        ),
        ([given("s", [2], "BYTES", data=["a", "\u00e9"])], "column 's': a string is not ASCII"),
        (
            [
                given("t__values", [2], "BYTES", data=["a" * 200, "\u00e9"]),
                given("t__offsets", [2], data=[0, 2]),
            ],
            "column 't': a string is not ASCII",
        ),
    ],
)
def test_mistakes(inputs: list[dict[str, object]], says: str) -> None:
    """Each is named with its column, in the words of compiled workflows."""
    assert (found(*inputs) or "nothing").startswith(says)


def test_no_mistakes() -> None:
    """Columns of one length, lists beside them, text in ASCII; nor what is no request."""
    assert (
        found(
            given("a", [2]),
            _VALUES,
            given("c__offsets", [3], data=[[0], [3], [7]]),
            given("s", [2, 1], "BYTES", data=[["a" * 200], ["b"]]),
            given("d__values", [2, 1]),
            given("e__values", [9]),
            given("e__nnzs", [2, 1]),
        )
        is None
    )
    for body in (b"", b"[]", b"{", b'{"inputs": [3]}', b'{"inputs": []}', b" " * 70_000):
        assert find_mistake([body]) is None
    assert find_mistake([]) is None
    assert find_mistake([b"\0" * 8], 0) is None
    nested = b'{"inputs": [{"name": "s", "shape": [1], "datatype": "BYTES", "data": %b}]}'
    assert find_mistake([nested % (b"[" * 50_000 + b"]" * 50_000)]) is None


def test_large_requests() -> None:
    """Of one that is longer than what is read again the shapes tell, wherever its data are."""
    rows = 300_000
    columns = given("a", [rows], data=[1] * rows), given("b", [rows - 1], data=[1] * (rows - 1))
    assert "column 'b' has 299999 rows" in (found(*columns) or "nothing")
    head = json.dumps({"inputs": [given("a", [2]), given("b", [3])]}).encode()
    assert "column 'b' has 3 rows" in (find_mistake([head, b"1" * 2_000_000], len(head)) or "")


def test_little_is_read_again() -> None:
    """Of many columns, too: nobody is served meanwhile."""
    texts = [given(f"s{n}", [1], "BYTES", data=["a" * 50_000]) for n in range(4)]
    assert "column 's0'" in (found(given("s0", [1], "BYTES", data=["\u00e9"]), *texts[1:]) or "")
    assert found(*texts[:3], given("s3", [1], "BYTES", data=["\u00e9" * 50_000])) is None


def test_where_tensors_begin() -> None:
    """Behind the JSON with its padding, which may look like a tensor's first bytes."""
    offsets = given("c__offsets", [3], data=[0, 3, 9])
    said, size = in_binary(_VALUES, offsets, padding=b" \n ")
    assert "the last offset is 9" in (find_mistake(said, size) or "nothing")
    whole = said[0]
    pieces = [whole[:size], whole[size : size + 5], whole[size + 5 :]]
    assert find_mistake(pieces, size) == find_mistake(said, size)
