"""FP64 in JSON become binary tensors, and all else of a request stays as it came."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from serve.invoke.json.exact_doubles import read_exact_doubles
from serve.invoke.json.tensor_json import NotTaken
from serve.invoke.request_checks import check_request

_DOUBLES = [0.8444218515250481, -1.7976931348623157e308, 5e-324, 3.0]


def moved(text: bytes, *tensors: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON and the tensors behind it."""
    checked = check_request(text, sum(map(len, tensors)))
    if checked.written:
        head, *rest = checked.written
        return json.loads(head), b"".join(rest)
    steps = read_exact_doubles(text, checked.with_doubles, tensors)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        head, *rest = end.value
        return json.loads(head), b"".join(rest)


def given(name: str, datatype: str, data: object, *shape: int, **more: object) -> dict[str, object]:
    return {"name": name, "datatype": datatype, "shape": [*shape], "data": data, **more}


def test_doubles_lie_behind_the_json() -> None:
    """Bit for bit as Python reads them; the other inputs keep their text, NaN included."""
    request = {
        "id": "\ufeffNaN 7",
        "inputs": [
            given("a", "FP32", [float("nan"), 1], 2),
            given("b", "FP64", [_DOUBLES[:2], _DOUBLES[2:]], 2, 2, parameters={"x": 0.1, "y": "z"}),
            given("c", "BYTES", ["[1.5]", "\u00e9"], 2),
            given("d", "FP64", [], 0),
            given("e", "FP64", [7], 1),
        ],
        "outputs": [{"name": "o", "parameters": {"binary_data": True}}],
        "parameters": {"priority": 12345678901234567, "w": 1e-7},
    }
    for text in (json.dumps(request), json.dumps(request, ensure_ascii=False, indent=3)):
        for front in ("", "\ufeff"):
            head, tensors = moved((front + text).encode())
            expected = json.loads(text)
            for place, size in ((1, 32), (4, 8)):
                each = expected["inputs"][place]
                del each["data"]
                each["parameters"] = {**each.get("parameters", {}), "binary_data_size": size}
            assert repr(head) == repr(expected)  # NaN is not equal to itself
            assert tensors == np.array([*_DOUBLES, 7.0], "<f8").tobytes()


@pytest.mark.parametrize("padding", [0, 70_000], ids=["short", "long"])
@pytest.mark.parametrize(
    "doubles",
    [
        "0.1, 1e-400, -0, -0.0, 9007199254740993, 123456789012345678901234567890",
        "2.2250738585072011e-308, 1.7976931348623158e308, 0e-400",
        "7",
    ],
)
def test_plain_requests_are_the_same_at_each_size(doubles: str, padding: int) -> None:
    """What is short and plain is written at once; other inputs keep their values."""
    words = doubles.split(", ")
    values = [0.0 if word == "-0" else float(word) for word in words]
    double: dict[str, Any] = given("d", "FP64", 0, len(values))
    request = {
        "inputs": [
            given("i", "INT64", [-(2**63), 2**64, 7], 3),
            double,
            given("s", "BYTES", ["\u00e9", ""], 2),
            given("f", "FP32", [0.1, 16777217.0, 3], 3),
        ],
        "outputs": [{"name": "o"}],
        "id": "x",
    }
    text = json.dumps(request).replace('"data": 0', f'"data": [{doubles}]') + " " * padding
    assert bool(check_request(text.encode()).written) == (not padding and "0e" not in doubles)
    head, tensors = moved(text.encode())
    assert tensors == np.array(values, "<f8").tobytes()
    del double["data"]
    double["parameters"] = {"binary_data_size": len(tensors)}
    assert head == request


def test_binary_tensors_keep_their_place() -> None:
    """Those that were behind the JSON stand before and behind, in whatever pieces they come."""
    binary = {"name": "b", "datatype": "INT8", "shape": [3], "parameters": {"binary_data_size": 3}}
    text = json.dumps(
        {"inputs": [binary, given("x", "FP64", [0.1], 1), {**binary, "name": "c"}]}
    ).encode()
    for pieces in ([b"abcdef"], [b"a", b"bcd", b"ef"], [b"abc", b"def"]):
        _, tensors = moved(text, *pieces)
        assert tensors == b"abc" + struct.pack("<d", 0.1) + b"def"


@pytest.mark.parametrize(
    "data",
    [
        "[1, null]",
        '[1, "2"]',
        "[true, false]",
        "[1, {}]",
        "[1e999, 2]",
        "[0e309, 2]",
        "[0E+309, 2]",
        f"[1{'0' * 309}, 2]",
    ],
)
def test_what_is_no_number_is_left(data: str) -> None:
    """tritonserver says what is wrong with it."""
    text = json.dumps({"inputs": [given("x", "FP64", 0, 2)]}).replace(
        '"data": 0', f'"data": {data}'
    )
    with pytest.raises(NotTaken):
        moved(text.encode())
