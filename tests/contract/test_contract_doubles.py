"""FP64 arrive as they were written, whatever the size and the form of the request."""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from tests.contract.conftest import Archive
from tests.json_requests.served import MODELS
from tests.support.container import Container
from tests.support.protocol import complaint, sized, values

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


def _request(doubles: Sequence[float], **more: object) -> dict[str, Any]:
    given = {"name": "IN_FP64", "datatype": "FP64", "shape": [len(doubles)], "data": [*doubles]}
    return {"inputs": [given], "outputs": [{"name": "OUT_FP64"}], **more}


def _binary(datatype: str, count: int, size: int) -> dict[str, object]:
    described = {"name": f"IN_{datatype}", "datatype": datatype, "shape": [count]}
    return {**described, "parameters": {"binary_data_size": size}}


def _answered(answer: httpx.Response) -> list[object]:
    return values(answer, "OUT_FP64")


def _sent_by_size(count: int) -> Callable[[Container], None]:
    """As JSON and as a binary tensor."""

    def send(container: Container) -> None:
        for first in range(0, 600 if count < _MANY else 1, count):
            doubles = _doubles(count, first)
            assert _answered(container.invoke(_NAME, _request(doubles))) == doubles
            raw = np.array(doubles, "<f8").tobytes()
            request = _request(doubles)
            request["inputs"] = [_binary("FP64", count, len(raw))]
            head = json.dumps(request).encode()
            answer = container.invoke(_NAME, head + raw, Content_Type=sized(len(head)))
            assert _answered(answer) == doubles

    return send


def _compressed(container: Container) -> None:
    """With a compressed answer, too."""
    doubles = _doubles(40, 1)
    body = json.dumps(_request(doubles)).encode()
    answer = container.invoke(_NAME, gzip.compress(body), Content_Encoding="gzip")
    assert _answered(answer) == doubles
    assert _answered(container.invoke(_NAME, body, Accept_Encoding="gzip")) == doubles


def _beside_others(container: Container) -> None:
    """In short lists beside long ones, and beside binary ones."""
    doubles, longs = _doubles(40, 1), [*range(20_000)]
    given = {"name": "IN_INT64", "datatype": "INT64", "shape": [len(longs)], "data": longs}
    request = _request(doubles)
    (of_doubles,) = request["inputs"]
    request["inputs"] = [of_doubles, given]
    request["outputs"] = [{"name": "OUT_FP64"}, {"name": "OUT_INT64"}]
    answer = container.invoke(_NAME, request)
    assert _answered(answer) == doubles
    assert values(answer, "OUT_INT64") == longs

    request["inputs"] = [of_doubles, _binary("INT8", 3, 3)]
    request["outputs"] = [{"name": "OUT_INT8", "parameters": {"binary_data": True}}]
    head = json.dumps(request).encode()
    answer = container.invoke(_NAME, head + b"\1\2\3", Content_Type=sized(len(head)))
    assert answer.content.endswith(b"\1\2\3")


def _beside_what_json_has_not(container: Container) -> None:
    for words in (["NaN"], ["-Infinity", "Inf"], ["123456789012345678901234567890", "1e100", "0"]):
        doubles = _doubles(40, 2)
        body = json.dumps(_request([*doubles, *[0.5] * len(words)]))
        for word in words:
            body = body.replace(" 0.5", f" {word}", 1)
        assert _answered(container.invoke(_NAME, body.encode()))[: len(doubles)] == doubles


def _beside_wrong_ones(container: Container) -> None:
    """A string among doubles, and one among integers beside doubles, is shown with its place."""
    for datatype, wrong, shown in (("FP64", "x", '"x"'), ("INT64", 2.5, "2.5")):
        name = f"IN_{datatype}"
        request = _request([0.1, 0.2])
        (of_doubles,) = request["inputs"]
        given = {"name": name, "datatype": datatype, "shape": [2], "data": [1, wrong]}
        request["inputs"] = [given] if name == "IN_FP64" else [of_doubles, given]
        answer = container.invoke(_NAME, request)
        assert answer.status_code == 400
        assert f"'{name}': found {shown} at data[1]" in complaint(answer)


def _answered_in_binary(container: Container) -> None:
    doubles = _doubles(40, 3)
    outputs = [{"name": "OUT_FP64", "parameters": {"binary_data": True}}]
    answer = container.invoke(_NAME, {**_request(doubles), "outputs": outputs})
    raw = answer.content[int(answer.headers["content-type"].rpartition("=")[2]) :]
    assert raw == np.array(doubles, "<f8").tobytes()


_FORMS: dict[str, Callable[[Container], None]] = {
    **{f"{count} at once": _sent_by_size(count) for count in (1, 3, 30, 300, _MANY)},
    "compressed": _compressed,
    "beside others": _beside_others,
    "beside what JSON has not": _beside_what_json_has_not,
    "beside wrong ones": _beside_wrong_ones,
    "answered in binary": _answered_in_binary,
}


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("form", _FORMS)
def test_random_doubles(form: str, container: Container) -> None:
    """From 70 bytes to 70 KB they arrive as in a binary tensor, and answers have them, too."""
    _FORMS[form](container)
