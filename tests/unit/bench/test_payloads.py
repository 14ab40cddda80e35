"""Requests, and which answers are right."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench import payloads
from bench.payloads import Payload, Tensor


def echoed(payload: Payload, change: Callable[[dict[str, Any]], None] | None = None) -> bytes:
    """What the identity model would answer in JSON: Triton flattens nested data."""
    (tensor,) = json.loads(payload.body)["inputs"]
    data = tensor["data"]
    flat = [value for row in data for value in row] if isinstance(data[0], list) else data
    output = {**tensor, "name": "OUT", "data": flat}
    if change:
        change(output)
    return json.dumps({"outputs": [output]}).encode()


KINDS = [
    payloads.make_small(),
    payloads.make_json("FP32", 50),
    payloads.make_json("FP64", 50),
    payloads.make_json("INT64", 50),
    payloads.make_json("BYTES", 50),
    payloads.make_json("BOOL", 50),
    payloads.make_json("FP32", 50, columns=5),
]


@pytest.mark.parametrize("payload", KINDS, ids=lambda it: it.outputs[0].datatype)
def test_the_same_values_are_right(payload: Payload) -> None:
    """And one other value, shape, data type or name is not."""
    assert payload.find_fault({}, echoed(payload)) is None

    def other_value(output: dict[str, Any]) -> None:
        output["data"][-1] = output["data"][-2]

    changed = payload.find_fault({}, echoed(payload, other_value))
    same = json.loads(echoed(payload))["outputs"][0]["data"]
    assert (changed is None) == (same[-1] == same[-2])
    others: tuple[dict[str, Any], ...] = ({"shape": [1]}, {"datatype": "INT8"}, {"name": "OTHER"})
    for other in others:
        assert payload.find_fault({}, echoed(payload, partial(_update, other)))


def _update(fields: dict[str, Any], output: dict[str, Any]) -> None:
    output.update(fields)


def test_last_bit_counts() -> None:
    """Values are compared bit for bit."""
    payload = payloads.make_json("FP64", 3)

    def nudge(output: dict[str, Any]) -> None:
        output["data"][0] = float(np.nextafter(output["data"][0], 2))

    assert payload.find_fault({}, echoed(payload, nudge))
    assert payload.find_fault({}, echoed(payload, nudge), exact=False) is None


def test_more_than_the_parser_is_off_by_is_wrong_everywhere() -> None:
    """tritonserver's parser is off by two units in the last place at most."""
    payload = payloads.make_json("FP64", 3)

    def push(output: dict[str, Any]) -> None:
        output["data"][0] += 3 * float(np.spacing(output["data"][0]))

    assert payload.find_fault({}, echoed(payload, push), exact=False)


@pytest.mark.parametrize(("datatype", "wrong"), [("BOOL", 1), ("INT64", 1.0)])
def test_numbers_of_another_kind_are_wrong(datatype: str, wrong: object) -> None:
    """1 is no boolean, and 1.0 no integer, though Python calls them equal."""
    dtype: type = np.bool_ if datatype == "BOOL" else np.int64
    values: NDArray[Any] = np.ones(2, dtype)
    payload = payloads.encode_array(datatype, values)
    assert payload.find_fault({}, echoed(payload)) is None
    assert payload.find_fault({}, echoed(payload, lambda out: out.update(data=[wrong, wrong])))


def test_binary_is_told_by_either_header() -> None:
    """SageMaker's media type and Triton's header mean the same; JSON instead is wrong."""
    payload = payloads.make_binary(40)
    assert payload.json_size is not None
    tail = payload.body[payload.json_size :]
    described = {"name": "OUT", "datatype": "FP32", "shape": [10]}
    head = json.dumps({"outputs": [described]}).encode()
    size = str(len(head))
    media = f"application/vnd.sagemaker-triton.binary+json;json-header-size={size}"
    assert payload.find_fault({"content-type": media}, head + tail) is None
    assert payload.find_fault({"inference-header-content-length": size}, head + tail) is None
    assert payload.find_fault({"inference-header-content-length": size}, head + tail[::-1])
    assert payload.find_fault({"content-type": "application/json"}, head)


def test_headers_are_the_contenders_own() -> None:
    """The size of the JSON part, in each one's words."""
    payload = payloads.make_binary(40)
    assert payload.headers(sagemaker=True)["Content-Type"].endswith(
        f";json-header-size={payload.json_size}"
    )
    assert payload.headers(sagemaker=False)["Inference-Header-Content-Length"] == str(
        payload.json_size
    )


@pytest.mark.parametrize(
    ("datatype", "count", "kilobytes"),
    [
        ("FP32", 10_000, 195),
        ("INT64", 18_500, 200),
        ("FP64", 10_300, 200),
        ("BYTES", 13_000, 200),
        ("BOOL", 36_000, 200),
    ],
)
def test_sizes_are_what_the_rows_say(datatype: str, count: int, kilobytes: int) -> None:
    """Within a tenth."""
    size = len(payloads.make_json(datatype, count).body) / 1e3
    assert size == pytest.approx(kilobytes, rel=0.1)


def tensor(name: str, values: list[Any], dtype: Any, datatype: str) -> Tensor:
    """One column."""
    return Tensor(name, datatype, np.array(values, dtype))


REQUEST = (
    tensor("id", [7, 8, 9], np.int64, "INT64"),
    tensor("name", ["a", "bc", ""], object, "BYTES"),
    tensor("tags__values", [1, 2, 3, 4], np.int64, "INT64"),
    tensor("tags__offsets", [0, 1, 1, 4], np.int32, "INT32"),
)


@pytest.mark.parametrize(
    ("count", "ids", "tags", "offsets"),
    [
        (1, [7], [1], [0, 1]),
        (2, [7, 8], [1], [0, 1, 1]),
        (5, [7, 8, 9, 7, 8], [1, 2, 3, 4, 1], [0, 1, 1, 4, 5, 5]),
    ],
)
def test_rows_are_taken_again_and_again(
    count: int, ids: list[int], tags: list[int], offsets: list[int]
) -> None:
    """Lists of any length come whole, an empty one among them."""
    made = {it.name: it for it in payloads.repeat_rows(REQUEST, count)}
    assert made["id"].values.tolist() == ids
    assert made["id"].shape == made["name"].shape == (count,)
    assert made["tags__values"].values.tolist() == tags
    assert made["tags__values"].shape == (len(tags),)
    assert made["tags__offsets"].values.tolist() == offsets
    assert made["tags__offsets"].values.dtype == np.int32
    assert list(made) == [it.name for it in REQUEST]


def test_groups_are_taken_whole() -> None:
    """As many as are wanted, each with a number that no other one has."""
    request = (
        tensor("session", [4, 2, 4], np.int64, "INT64"),
        tensor("item", [40, 20, 41], np.int64, "INT64"),
    )
    session, item = payloads.repeat_rows(request, 3, "session")
    assert session.values.tolist() == [1, 2, 2, 3]
    assert item.values.tolist() == [20, 40, 41, 20]
    assert session.shape == item.shape == (4,)


def test_binary_request_is_laid_out_as_triton_reads_it() -> None:
    """One part after the other, texts with their lengths before them; answers are wanted so too."""
    payload = payloads.encode_binary(REQUEST[:2])
    assert payload.json_size is not None
    head = json.loads(payload.body[: payload.json_size])
    sizes = [it["parameters"]["binary_data_size"] for it in head["inputs"]]
    assert sizes == [24, 4 + 1 + 4 + 2 + 4]
    assert head["parameters"] == {"binary_data_output": True}
    assert payload.body[payload.json_size + 24 :] == b"\1\0\0\0a\2\0\0\0bc\0\0\0\0"


def _binary_answer(labels: list[int], scores: list[float]) -> tuple[dict[str, str], bytes]:
    parts = [np.array(labels, np.int64).tobytes(), np.array(scores, np.float32).tobytes()]
    outputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": [2],
            "parameters": {"binary_data_size": len(part)},
        }
        for name, datatype, part in zip(("label", "score"), ("INT64", "FP32"), parts, strict=True)
    ]
    head = json.dumps({"outputs": outputs}).encode()
    media = f"application/vnd.sagemaker-triton.binary+json;json-header-size={len(head)}"
    return {"content-type": media}, head + b"".join(parts)


def test_an_answer_may_be_what_is_right() -> None:
    """Floats within the tolerance, whole numbers exactly, however large they are."""
    right = _binary_answer([1_000_000, 2], [0.5, 0.25])
    payload = payloads.encode_binary(REQUEST).with_answer(*right, tolerance=1e-6)
    assert payload.find_fault(*right) is None
    assert payload.find_fault(*_binary_answer([1_000_000, 2], [0.5000001, 0.25])) is None
    assert payload.find_fault(*_binary_answer([1_000_000, 2], [0.51, 0.25]))
    assert payload.find_fault(*_binary_answer([1_000_001, 2], [0.5, 0.25]))


def test_request_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Each tensor with its data type."""
    inputs = [
        {"name": "id", "datatype": "INT32", "shape": [2, 1], "data": [1, 2]},
        {"name": "name", "datatype": "BYTES", "shape": [1], "data": ["x"]},
    ]
    (tmp_path / "request.json").write_text(json.dumps({"inputs": inputs}))
    number, name = payloads.read_request(tmp_path / "request.json")
    assert (number.shape, number.values.dtype) == ((2, 1), np.int32)
    assert number.values.tolist() == [[1], [2]]
    assert name.values.tolist() == ["x"]
