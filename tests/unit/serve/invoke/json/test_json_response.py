"""tritonserver's answers with binary tensors as the JSON that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import CallerError, InvocationFailed
from serve.invoke.json.json_response import write_json_answer


def answered(
    outputs: Sequence[tuple[Mapping[str, Any], bytes | None]], **others: Any
) -> tuple[bytes, int | None]:
    """An answer as tritonserver sends it, and the length of its JSON part."""
    described = [
        {**output, "parameters": {**output.get("parameters", {}), "binary_data_size": len(raw)}}
        if raw is not None
        else output
        for output, raw in outputs
    ]
    head = json.dumps({"model_name": "m", **others, "outputs": described}).encode()
    tensors = b"".join(raw or b"" for _, raw in outputs)
    return head + tensors, len(head) if tensors else None


def written(
    body: bytes, head_size: int | None, in_json: frozenset[str] | None = None
) -> tuple[Any, int | None, bytes]:
    """What is made of it: the JSON part, its length, and what stands behind it."""
    steps = write_json_answer(body, head_size, in_json)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        pieces, size = end.value
    whole = b"".join(pieces)
    head = json.loads(whole[:size].decode("utf-8", "surrogateescape"))
    return head, size, b"" if size is None else whole[size:]


def output(name: str, datatype: str, *shape: int, **others: Any) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [*shape], **others}


_FLOATS = np.array([1.5, -0.0, 1e30], "<f4").tobytes()
_WORDS = b"\1\0\0\0a" + b"\0\0\0\0" + b"\2\0\0\0\xff\n"


def test_everything_in_json() -> None:
    """Data come in the place of the sizes; all else stays, in its order."""
    body, size = answered(
        [
            (output("f", "FP32", 3), _FLOATS),
            (output("s", "BYTES", 1, 3, parameters={"mine": 1}), _WORDS),
            (output("c", "BYTES", 1, data=["0.5:1"]), None),
            (output("b", "BOOL", 2), b"\1\0"),
        ],
        model_version="1",
        id="é",
        parameters={"a": [1, 0.5]},
    )
    head, found_size, rest = written(body, size)
    assert (found_size, rest) == (None, b"")
    assert list(head) == ["model_name", "model_version", "id", "parameters", "outputs"]
    assert head["parameters"] == {"a": [1, 0.5]}
    big = float(np.float32(1e30))
    assert head["outputs"] == [
        output("f", "FP32", 3, data=[1.5, -0.0, big]),
        output("s", "BYTES", 1, 3, parameters={"mine": 1}, data=["a", "", "\udcff\n"]),
        output("c", "BYTES", 1, data=["0.5:1"]),
        output("b", "BOOL", 2, data=[True, False]),
    ]


def test_some_in_json() -> None:
    """Outputs that were asked for as binary tensors stay that, in their order."""
    body, size = answered(
        [
            (output("a", "INT8", 2), b"\1\2"),
            (output("b", "INT8", 1), b"\3"),
            (output("c", "FP16", 1), b"\4\5"),
        ]
    )
    head, found_size, rest = written(body, size, frozenset({"b"}))
    assert found_size is not None
    assert rest == b"\1\2\4\5"
    assert head["outputs"] == [
        output("a", "INT8", 2, parameters={"binary_data_size": 2}),
        output("b", "INT8", 1, data=[3]),
        output("c", "FP16", 1, parameters={"binary_data_size": 2}),
    ]


def test_empty_tensors() -> None:
    """An empty output is an empty list; where all binary ones are empty, all of it is JSON."""
    body, size = answered([(output("a", "FP32", 0), b""), (output("b", "BYTES", 2, 0), b"")])
    assert size is None
    head, found_size, _ = written(body, size)
    assert found_size is None
    assert [each["data"] for each in head["outputs"]] == [[], []]
    head, found_size, _ = written(body, size, frozenset({"b"}))
    assert found_size is None
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 0}


def test_no_outputs() -> None:
    """An answer without outputs is one."""
    head, size, _ = written(*answered([]))
    assert head == {"model_name": "m", "outputs": []}
    assert size is None


def test_what_json_cannot_hold() -> None:
    """A data type that JSON cannot hold is the caller's to ask for in another way."""
    body, size = answered([(output("half", "FP16", 1), b"\0\0")])
    with pytest.raises(CallerError, match=r"half.*FP16.*binary_data"):
        written(body, size)
    assert written(body, size, frozenset())[2] == b"\0\0"


_WHOLE = answered([(output("a", "FP32", 2), b"\0" * 8)])


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (b"", None),
        (b"[]", None),
        (b"{}", None),
        (b'{"outputs":1}', None),
        (b'{"outputs":[1]}', None),
        (b'{"outputs":[{"parameters":{"binary_data_size":4}}]}', None),
        answered([(output("a", "FP32", 2), b"\0" * 7)]),
        answered([(output("a", "FP32", 2), b"\0" * 12)]),
        answered([(output("a", "BYTES", 1), b"\2\0\0\0a")]),
        (_WHOLE[0][:-1], _WHOLE[1]),
        (_WHOLE[0], 3),
    ],
)
def test_broken_answers(body: bytes, size: int | None) -> None:
    """An answer that cannot be what tritonserver sent is our side's failure, and said to be."""
    with pytest.raises(InvocationFailed, match="cannot be read"):
        written(body, size)


@given(
    tensors=st.lists(st.tuples(st.sampled_from(["INT8", "UINT8"]), st.binary(max_size=9))),
    wanted=st.sets(st.integers(0, 9)) | st.none(),
)
def test_any_outputs(tensors: list[tuple[str, bytes]], wanted: set[int] | None) -> None:
    """Each output has its own bytes, as JSON or binary, whichever was asked for."""
    outputs = [
        (output(f"{place}", kind, len(raw)), raw) for place, (kind, raw) in enumerate(tensors)
    ]
    in_json = None if wanted is None else frozenset(map(str, wanted))
    head, size, rest = written(*answered(outputs), in_json)
    for (described, raw), found in zip(outputs, head["outputs"], strict=True):
        if in_json is None or described["name"] in in_json:
            kind = "i1" if described["datatype"] == "INT8" else "u1"
            assert found["data"] == np.frombuffer(raw, kind).tolist()
        else:
            assert rest.startswith(raw)
            rest = rest[len(raw) :]
    assert rest == b""
    assert (size is None) == (
        not any(raw for d, raw in outputs if in_json is not None and d["name"] not in in_json)
    )
