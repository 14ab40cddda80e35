"""What an invocation may look like on the wire, and how its answer goes back.

What tritonserver is sent of it is in tests/unit/container/assembled/test_payloads.py.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import httpx
import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import BINARY, binary, binary_values, infer, sized, values

_NUMBERS = [1.0, 2.0]
_JSON = json.dumps(infer(_NUMBERS)).encode()
_BODY, _SIZE = binary(_NUMBERS)
_MANY = [float(number) for number in range(800_000)]
_FORM = "application/x-www-form-urlencoded"


class Payload(NamedTuple):
    """A request of these numbers, and what reads the answer."""

    body: bytes
    content_type: str
    read: Callable[[httpx.Response], list[object] | list[float]] = values
    headers: Mapping[str, str] = {}
    numbers: list[float] = _NUMBERS


def _asking_for(body: bytes, binary_data: bool) -> bytes:
    outputs = [{"name": "OUT", "parameters": {"binary_data": binary_data}}]
    return json.dumps({**json.loads(body), "outputs": outputs}).encode()


def _large() -> Payload:
    """Some megabytes each way."""
    body, size = binary(_MANY)
    return Payload(body, sized(size), binary_values, numbers=_MANY)


def _accepting(encoding: str) -> Payload:
    return Payload(_JSON, "application/json", headers={"Accept_Encoding": encoding})


_IN_JSON = _asking_for(_BODY[:_SIZE], False)
#: A content encoding that the answer may have, by what its caller accepts.
_ACCEPTED = {"gzip": "gzip", "deflate": "deflate", "identity": None, "br": None, "gzip;q=0": None}

PAYLOADS: Mapping[str, Callable[[], Payload]] = {
    "JSON": lambda: Payload(_JSON, "application/json"),
    "JSON as a form of 5 MB": lambda: Payload(
        json.dumps(infer(_MANY)).encode(), _FORM, numbers=_MANY
    ),
    "binary both ways": lambda: Payload(_BODY, sized(_SIZE), binary_values),
    "binary, spelled otherwise": lambda: Payload(
        _BODY, f'{BINARY.upper()};charset=x; JSON-Header-Size="000{_SIZE}"', binary_values
    ),
    "binary of some megabytes": _large,
    "JSON in, binary out": lambda: Payload(
        _asking_for(_JSON, True), "application/json", binary_values
    ),
    "binary in, JSON out": lambda: Payload(_IN_JSON + _BODY[_SIZE:], sized(len(_IN_JSON))),
    "the whole body is the one tensor": lambda: Payload(_BODY[_SIZE:], sized(0), binary_values),
    "JSON in gzip": lambda: Payload(
        gzip.compress(_JSON), "application/json", headers={"Content_Encoding": "gzip"}
    ),
    "JSON in deflate": lambda: Payload(
        zlib.compress(_JSON), "application/json", headers={"Content_Encoding": "deflate"}
    ),
    "binary in gzip": lambda: Payload(
        gzip.compress(_BODY), sized(_SIZE), binary_values, {"Content_Encoding": "gzip"}
    ),
    "binary in deflate": lambda: Payload(
        zlib.compress(_BODY), sized(_SIZE), binary_values, {"Content_Encoding": "deflate"}
    ),
    **{f"an answer in {accepted}": partial(_accepting, accepted) for accepted in _ACCEPTED},
}


@pytest.mark.parametrize("form", PAYLOADS)
def test_payloads(form: str, container: Container) -> None:
    """The same numbers come back, in the form that the request asks for."""
    payload = PAYLOADS[form]()
    answer = container.invoke(
        WITNESS, payload.body, Content_Type=payload.content_type, **payload.headers
    )
    assert payload.read(answer) == [number + 3 for number in payload.numbers]
    assert "inference-header-content-length" not in answer.headers
    if payload.read is values:
        assert answer.headers["content-type"] == "application/json"
    accepted = payload.headers.get("Accept_Encoding")
    if accepted is not None:
        assert answer.headers.get("content-encoding") == _ACCEPTED[accepted]


def test_headers_that_reach_the_model(container: Container, archive: Archive) -> None:
    """The caller's own and SageMaker's; not the connection's, nor those that it names."""
    own = {
        "x-amzn-sagemaker-custom-attributes": 'trace=1,"two" and %7B%7D',
        "x-amzn-sagemaker-target-model": "a/b.tar.gz",
        "x-own": "mine",
    }
    hop = {
        "connection": "keep-alive, X-Private",
        "x-private": "1",
        "keep-alive": "timeout=5",
        "te": "trailers",
        "proxy-authorization": "Basic c2VjcmV0",
        "inference-header-content-length": "3",
    }
    with container.loaded("m1", archive(m=models.parameters)):
        (seen,) = values(container.invoke("m1", infer([1]), **own, **hop), "SEEN")
    reached = {name.lower(): value for name, value in json.loads(str(seen)).items()}
    assert {name: reached.get(name) for name in own} == own
    assert not hop.keys() & reached.keys()
