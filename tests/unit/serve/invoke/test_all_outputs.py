"""A request for a part of the outputs asks for all, and says nothing else than before."""

from __future__ import annotations

import json

import pytest

from serve.invoke.all_outputs import ask_for_all, is_json

_ALL = ("a", "b", "c")
_INPUT = {"name": "x", "shape": [1], "datatype": "FP32", "data": [float("nan")]}


def text(*outputs: object) -> bytes:
    return json.dumps({"inputs": [_INPUT], "outputs": [*outputs], "id": "outputs"}).encode()


@pytest.mark.parametrize("front", [b"", b"\xef\xbb\xbf"])
def test_a_part(front: bytes) -> None:
    """In the order in which it was asked for, parameters kept; the rest behind it in binary."""
    body = front + text({"name": "c", "parameters": {"p": 1, "binary_data": False}}, {"name": "a"})
    whole = ask_for_all(body, _ALL)
    assert whole is not None
    written, triton_request = whole
    assert [output.name for output in triton_request] == ["c", "a"]
    request = json.loads(written.removeprefix(front))
    assert [(each["name"], each["parameters"]) for each in request.pop("outputs")] == [
        ("c", {"p": 1, "binary_data": True}),
        ("a", {"binary_data": True}),
        ("b", {"binary_data": True}),
    ]
    assert repr(request) == repr({"inputs": [_INPUT], "id": "outputs"})


def test_an_escaped_name() -> None:
    """A member may be written with escapes."""
    escaped = text({"name": "b"}).replace(b'"outputs": [', b'"outp\\u0075ts": [')
    assert ask_for_all(escaped, _ALL) is not None


@pytest.mark.parametrize("names", [[], ["a", "b", "c"], ["a", "d"], ["d"]])
def test_all_none_and_unknown_ones(names: list[str]) -> None:
    """They are asked for as they were: tritonserver answers, or says which it has not."""
    assert ask_for_all(text(*({"name": name} for name in names)), _ALL) is None


def test_what_stands_in_json() -> None:
    """What is not asked for in binary."""
    body = text({"name": "a"}, {"name": "b", "parameters": {"binary_data": True}})
    whole = ask_for_all(body, _ALL)
    assert whole is not None
    assert [is_json(output) for output in whole[1]] == [True, False]
