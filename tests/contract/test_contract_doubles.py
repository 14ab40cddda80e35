"""FP64 arrive as they were written, whatever the size and the form of the request."""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Iterator, Sequence

import httpx
import numpy as np
import pytest

from tests.contract.conftest import Archive
from tests.json_requests.served import MODELS
from tests.support.container import Container
from tests.support.protocol import sized, values

#: Of doubles with 17 digits tritonserver's JSON parser reads every tenth wrongly, and of those of
#: any exponent every fourth.
_MANY = 3000
_NAME = "doubles"


@pytest.fixture
def model(container: Container, archive: Archive) -> Iterator[str]:
    """Answers each input as it came."""
    with container.loaded(_NAME, archive(_NAME, flat=MODELS["flat"])) as name:
        yield name


def _doubles(count: int, seed: int) -> list[float]:
    """Of all exponents, but for infinities and NaN."""
    drawn = random.Random(seed)
    bits = [drawn.getrandbits(64) & ~(1 << 62) | drawn.getrandbits(1) << 61 for _ in range(count)]
    return [struct.unpack("<d", struct.pack("<Q", each))[0] for each in bits]


def _request(doubles: Sequence[float], **more: object) -> dict[str, object]:
    given = {"name": "IN_FP64", "datatype": "FP64", "shape": [len(doubles)], "data": [*doubles]}
    return {"inputs": [given], "outputs": [{"name": "OUT_FP64"}], **more}


def _binary(datatype: str, count: int, size: int) -> dict[str, object]:
    described = {"name": f"IN_{datatype}", "datatype": datatype, "shape": [count]}
    return {**described, "parameters": {"binary_data_size": size}}


def _answered(answer: httpx.Response) -> list[object]:
    return values(answer, "OUT_FP64")


@pytest.mark.parametrize("count", [1, 3, 30, 300, _MANY])
def test_random_doubles_at_each_size(count: int, container: Container, model: str) -> None:
    """From 70 bytes to 70 KB they arrive as in a binary tensor, and answers have them, too."""
    for first in range(0, 600 if count < _MANY else 1, count):
        doubles = _doubles(count, first)
        assert _answered(container.invoke(model, _request(doubles))) == doubles
        raw = np.array(doubles, "<f8").tobytes()
        request = _request(doubles)
        request["inputs"] = [_binary("FP64", count, len(raw))]
        head = json.dumps(request).encode()
        answer = container.invoke(model, head + raw, Content_Type=sized(len(head)))
        assert _answered(answer) == doubles


def test_other_forms(container: Container, model: str) -> None:
    """Compressed, with a compressed answer, in short lists beside long ones, with binary ones."""
    doubles = _doubles(40, 1)
    body = json.dumps(_request(doubles)).encode()
    assert (
        _answered(container.invoke(model, gzip.compress(body), Content_Encoding="gzip")) == doubles
    )
    assert _answered(container.invoke(model, body, Accept_Encoding="gzip")) == doubles

    request = _request(doubles)
    longs = [*range(20_000)]
    request["inputs"] += [  # type: ignore[operator]
        {"name": "IN_INT64", "datatype": "INT64", "shape": [len(longs)], "data": longs}
    ]
    request["outputs"] += [{"name": "OUT_INT64"}]  # type: ignore[operator]
    answer = container.invoke(model, request)
    assert _answered(answer) == doubles
    assert values(answer, "OUT_INT64") == longs

    request["inputs"][1] = _binary("INT8", 3, 3)  # type: ignore[index]
    request["outputs"] = [{"name": "OUT_INT8", "parameters": {"binary_data": True}}]
    head = json.dumps(request).encode()
    answer = container.invoke(model, head + b"\1\2\3", Content_Type=sized(len(head)))
    assert answer.content.endswith(b"\1\2\3")


def test_not_a_number_beside_them(container: Container, model: str) -> None:
    """What JSON has not leaves the others as they are."""
    for words in (["NaN"], ["-Infinity", "Inf"], ["123456789012345678901234567890", "1e100", "0"]):
        doubles = _doubles(40, 2)
        body = json.dumps(_request([*doubles, *[0.5] * len(words)]))
        for word in words:
            body = body.replace(" 0.5", f" {word}", 1)
        assert _answered(container.invoke(model, body.encode()))[: len(doubles)] == doubles


def test_wrong_values_are_named(container: Container, model: str) -> None:
    """A string among doubles, and one among integers beside doubles, is shown with its place."""
    request = _request([0.1, 0.2])
    request["inputs"][0]["data"][1] = "x"  # type: ignore[index]
    answer = container.invoke(model, request)
    assert answer.status_code == 400
    assert "'IN_FP64': found \"x\" at data[1]" in answer.json()["error"]
    request = _request([0.1, 0.2])
    request["inputs"] += [  # type: ignore[operator]
        {"name": "IN_INT64", "datatype": "INT64", "shape": [2], "data": [1, 2.5]}
    ]
    answer = container.invoke(model, request)
    assert answer.status_code == 400
    assert "'IN_INT64': found 2.5 at data[1]" in answer.json()["error"]


def test_doubles_in_the_binary_answer(container: Container, model: str) -> None:
    """Asked for in binary, they are the same."""
    doubles = _doubles(40, 3)
    outputs = [{"name": "OUT_FP64", "parameters": {"binary_data": True}}]
    answer = container.invoke(model, {**_request(doubles), "outputs": outputs})
    raw = answer.content[int(answer.headers["content-type"].rpartition("=")[2]) :]
    assert raw == np.array(doubles, "<f8").tobytes()
