"""What an invocation may look like on the wire, and how its answer goes back."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import (
    BINARY,
    binary,
    binary_values,
    infer,
    sized,
    values,
)

_JSON = json.dumps(infer([1, 2])).encode()
_BODY, _SIZE = binary([1, 2])

Compress = Callable[[bytes], bytes]
COMPRESSIONS = pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)


#: What an invocation passes through does not depend on which tritonserver is behind it.
pytestmark = pytest.mark.parametrize("triton", ["2.51"], indirect=True)


def _pieces(body: bytes, length: int = 7) -> Iterator[bytes]:
    yield from (body[start : start + length] for start in range(0, len(body), length))


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/octet-stream", "text/csv", "application/x-nonsense;;=", ""],
)
def test_json_whatever_the_type(content_type: str, container: Container) -> None:
    """A JSON request is one whatever its Content-Type says, and the answer is JSON."""
    answer = container.invoke(WITNESS, _JSON, Content_Type=content_type)
    assert values(answer) == [4.0, 5.0]
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_large_body_of_a_form_is_json(content_type: str, container: Container) -> None:
    """What `curl -d` sends is JSON at any size; as a form it would kill tritonserver (seen)."""
    numbers, body = _large()
    assert len(body) > 5_000_000
    answer = container.invoke(WITNESS, body, Content_Type=content_type)
    assert values(answer) == [number + 3 for number in numbers]


@cache
def _large() -> tuple[list[float], bytes]:
    """Numbers, and the request that has them."""
    numbers = [float(number) for number in range(800_000)]
    return numbers, json.dumps(infer(numbers)).encode()


def test_json_without_a_type(container: Container) -> None:
    """A request without a Content-Type is taken for JSON."""
    request = container.http.build_request("POST", f"/models/{WITNESS}/invoke", content=_JSON)
    assert "content-type" not in request.headers
    assert values(container.http.send(request)) == [4.0, 5.0]


@pytest.mark.parametrize(
    "content_type",
    [
        sized(_SIZE),
        f"{BINARY}; json-header-size={_SIZE}",
        f'{BINARY.upper()};charset=x; JSON-Header-Size="{_SIZE}"',
        sized(f"000{_SIZE}"),
    ],
)
def test_binary_both_ways(content_type: str, container: Container) -> None:
    """Binary tensors come and go under SageMaker's media type with the size of the JSON part."""
    answer = container.invoke(WITNESS, _BODY, Content_Type=content_type)
    assert binary_values(answer) == [4.0, 5.0]
    assert "inference-header-content-length" not in answer.headers


def test_json_in_binary_out(container: Container) -> None:
    """An answer is binary when the request asks for that, whatever the request itself was."""
    body = {**infer([1, 2]), "outputs": [{"name": "OUT", "parameters": {"binary_data": True}}]}
    assert binary_values(container.invoke(WITNESS, body)) == [4.0, 5.0]


def test_binary_in_json_out(container: Container) -> None:
    """A binary request may ask for a JSON answer."""
    head = json.loads(_BODY[:_SIZE])
    head["outputs"] = [{"name": "OUT", "parameters": {"binary_data": False}}]
    text = json.dumps(head).encode()
    answer = container.invoke(WITNESS, text + _BODY[_SIZE:], Content_Type=sized(len(text)))
    assert values(answer) == [4.0, 5.0]


def test_raw_binary(container: Container) -> None:
    """A size of 0 is Triton's raw binary request: the whole body is the one input."""
    answer = container.invoke(WITNESS, _BODY[_SIZE:], Content_Type=sized(0))
    assert binary_values(answer) == [4.0, 5.0]


@COMPRESSIONS
def test_compressed_json(encoding: str, compress: Compress, container: Container) -> None:
    """gzip and deflate bodies are taken as Triton takes them."""
    answer = container.invoke(
        WITNESS, compress(_JSON), Content_Type="application/json", Content_Encoding=encoding
    )
    assert values(answer) == [4.0, 5.0]


@COMPRESSIONS
def test_compressed_binary(encoding: str, compress: Compress, container: Container) -> None:
    """The size of the JSON part counts the bytes of the body before it was compressed."""
    answer = container.invoke(
        WITNESS, compress(_BODY), Content_Type=sized(_SIZE), Content_Encoding=encoding
    )
    assert binary_values(answer) == [4.0, 5.0]


@pytest.mark.parametrize(
    ("body", "content_type"), [(_JSON, "application/json"), (_BODY, sized(_SIZE))]
)
def test_chunked(body: bytes, content_type: str, container: Container) -> None:
    """A body in chunks, without a Content-Length, is the same body."""
    answer = container.invoke(WITNESS, _pieces(body), Content_Type=content_type)
    assert answer.request.headers["transfer-encoding"] == "chunked"
    numbers = values(answer) if content_type == "application/json" else binary_values(answer)
    assert numbers == [4.0, 5.0]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "br", "gzip;q=0", "*"])
def test_accept_encoding(encoding: str, container: Container) -> None:
    """An answer is compressed only in a way that the caller accepts."""
    answer = container.invoke(WITNESS, _JSON, Accept_Encoding=encoding)
    used = answer.headers.get("content-encoding", "identity")
    assert used == (encoding if encoding in ("gzip", "deflate") else used)
    assert used in ("identity", "gzip", "deflate")
    assert values(answer) == [4.0, 5.0]


def test_large_tensors(container: Container, archive: Archive) -> None:
    """Tensors of some megabytes pass through whole, both ways."""
    numbers = [float(number) for number in range(2_000_000)]
    body, size = binary(numbers)
    with container.loaded("m1", archive(m=models.identity)):
        assert binary_values(container.invoke("m1", body, Content_Type=sized(size))) == numbers


def test_headers_that_are_passed_on(container: Container, archive: Archive) -> None:
    """The caller's own headers reach the model, SageMaker's custom attributes among them."""
    seen = _seen_headers(
        container,
        archive,
        {
            "X-Amzn-SageMaker-Custom-Attributes": 'trace=1,"two" and %7B%7D',
            "X-Amzn-SageMaker-Target-Model": "a/b.tar.gz",
            "X-Own": "mine",
        },
    )
    assert seen["x-amzn-sagemaker-custom-attributes"] == 'trace=1,"two" and %7B%7D'
    assert seen["x-amzn-sagemaker-target-model"] == "a/b.tar.gz"
    assert seen["x-own"] == "mine"


def test_headers_of_one_hop(container: Container, archive: Archive) -> None:
    """Headers of the connection, and those that it names, stay on it."""
    hop = {
        "Connection": "keep-alive, X-Private",
        "X-Private": "1",
        "Keep-Alive": "timeout=5",
        "TE": "trailers",
        "Proxy-Authorization": "Basic c2VjcmV0",
        "Inference-Header-Content-Length": "3",
        "X-Public": "1",
    }
    seen = _seen_headers(container, archive, hop)
    assert seen["x-public"] == "1"
    hidden = {name.lower() for name in hop} - {"x-public"}
    assert not hidden & seen.keys()


def _seen_headers(
    container: Container, archive: Archive, headers: dict[str, str]
) -> dict[str, object]:
    with container.loaded("m1", archive(m=models.parameters)):
        answer = container.invoke("m1", infer([1]), **headers)
        (seen,) = values(answer, "SEEN")
    return {name.lower(): value for name, value in json.loads(str(seen)).items()}
