"""A shield for Tritons that nobody patches any more: what callers may send and it never sees."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import struct
import zlib
from collections.abc import Iterator

import pytest

from tests.support import models
from tests.support.protocol import BINARY, complaint, infer, sized
from tests.unit.container.assembled.container_on_fake import ContainerOnFake

ANSWER_S = 60.0
GOOD = json.dumps(infer([1])).encode()


@pytest.fixture(scope="module")
def shielded(endpoint: ContainerOnFake) -> Iterator[ContainerOnFake]:
    """The endpoint with the model `shielded`."""
    directory = models.write_archive(endpoint.model_root / "m/model", {"m": models.identity})
    with endpoint.loaded("shielded", directory):
        yield endpoint


@pytest.fixture
def unhurt(shielded: ContainerOnFake) -> Iterator[ContainerOnFake]:
    """That endpoint, of which tritonserver is asked nothing."""
    before = len(shielded.asked("infer"))
    yield shielded
    assert len(shielded.asked("infer")) == before


def ask(container: ContainerOnFake, request: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to raw bytes; (0, b"") when the connection is just closed."""
    address = ("127.0.0.1", container.port)
    with socket.create_connection(address, timeout=ANSWER_S) as connection:
        with contextlib.suppress(ConnectionError):  # it may be refused before it is whole
            connection.sendall(request)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" not in answer and (piece := connection.recv(65536)):
                answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if head else (0, b"")


def head(path: str, *lines: str) -> bytes:
    """The head of a POST."""
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: c", *lines, "", "")).encode("latin-1")


@functools.cache
def bomb(kind: str) -> bytes:
    """A good request and 300 MB of blanks behind it, in a thousandth of that."""
    packed = zlib.compressobj(1, wbits=31 if kind == "gzip" else 15)
    blanks = b" " * 1_000_000
    pieces = [packed.compress(GOOD), *(packed.compress(blanks) for _ in range(300))]
    return b"".join((*pieces, packed.flush()))


def with_input(**changes: object) -> dict[str, object]:
    """A request whose one input is not what it should be."""
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [1.0], **changes}
    return {"inputs": [tensor]}


def with_outputs(outputs: list[dict[str, object]]) -> dict[str, object]:
    """A good request that asks for these outputs."""
    return {**infer([1]), "outputs": outputs}


def refused(container: ContainerOnFake, request: dict[str, object] | bytes) -> str:
    """The complaint about a request that must be the caller's fault."""
    answer = container.invoke("shielded", request)
    assert answer.status_code in (400, 413), answer.text
    return complaint(answer)


@pytest.mark.parametrize("length", [2**40, 2**63 - 1, 2**63, 2**64, 10**30, -1])
def test_absurd_lengths(unhurt: ContainerOnFake, length: int) -> None:
    """A body that is announced to be larger than any is refused before it comes."""
    request = head("/models/shielded/invoke", f"Content-Length: {length}", "Connection: close")
    status, _ = ask(unhurt, request + GOOD)
    assert status in (400, 413)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gzip", "deflate"])
def test_a_small_body_that_inflates_to_a_large_one(unhurt: ContainerOnFake, kind: str) -> None:
    """It is inflated here, and not beyond what a body may have."""
    body = bomb(kind)
    answer = unhurt.invoke("shielded", body, Content_Encoding=kind)
    assert answer.status_code in (400, 413), answer.text


@pytest.mark.parametrize("size", ["-1", str(2**31), str(2**63), "1" + "0" * 30, "x", "1;1", ""])
def test_sizes_of_the_json_part(unhurt: ContainerOnFake, size: str) -> None:
    """tritonserver is told a size only that lies within the body."""
    answer = unhurt.invoke("shielded", GOOD, Content_Type=sized(size))
    assert answer.status_code == 400
    assert complaint(answer)


@pytest.mark.parametrize("size", [2**29, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, 2**64])
@pytest.mark.parametrize("datatype", ["FP32", "BYTES"])
def test_shapes_that_the_data_do_not_have(
    unhurt: ContainerOnFake, size: int, datatype: str
) -> None:
    """The element count is held against the data before tritonserver allocates anything."""
    refused(unhurt, with_input(shape=[size], datatype=datatype))
    refused(unhurt, with_input(shape=[size, 4], datatype=datatype))


@pytest.mark.parametrize("shape", [[0], [-1], [2, 0], [1.5], ["1"], [True], None])
def test_odd_shapes(unhurt: ContainerOnFake, shape: object) -> None:
    """No shape divides by nothing or counts backwards; one that fits nothing may be answered."""
    answer = unhurt.invoke("shielded", with_input(shape=shape))
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("size", [-1, 2**31, 2**63, 2**64 - 1, 2**70, "4", 1.5, None])
def test_binary_sizes(unhurt: ContainerOnFake, size: object) -> None:
    """The size of a binary tensor is that of its shape and lies in the body."""
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1]}
    request = {"inputs": [{**tensor, "parameters": {"binary_data_size": size}}]}
    text = json.dumps(request).encode()
    body = text + struct.pack("<f", 1.0)
    answer = unhurt.invoke("shielded", body, Content_Type=f"{BINARY};json-header-size={len(text)}")
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("place", ["data", "body", "parameters", "objects"])
def test_nesting(unhurt: ContainerOnFake, place: str) -> None:
    """JSON of any depth costs its sender the request and nobody a stack."""
    deep = b"[" * 500_000 + b"1" + b"]" * 500_000
    bodies = {
        "data": GOOD.replace(b"[1]", deep),
        "body": deep,
        "parameters": b'{"parameters":{"a":' + deep + b"}," + GOOD[1:],
        "objects": b'{"a":' * 500_000 + b"1" + b"}" * 500_000,
    }
    refused(unhurt, bodies[place])


@pytest.mark.parametrize(
    "outputs",
    [
        [{"name": f"OUT{number}"} for number in range(5000)],
        [{"name": "OUT"}] * 2,
        [{"name": "OUT"}] * 200_000,
    ],
    ids=["many", "twice", "the same 200,000 times"],
)
def test_outputs(unhurt: ContainerOnFake, outputs: list[dict[str, object]]) -> None:
    """Outputs are few, and each is asked for once."""
    refused(unhurt, with_outputs(outputs))


@pytest.mark.parametrize("count", [-1, 1, 2**31, 2**63, 2**64, 1.5, "2"])
def test_classification(unhurt: ContainerOnFake, count: object) -> None:
    """Is refused altogether: of strings it makes some versions divide by zero."""
    output: dict[str, object] = {"name": "OUT", "parameters": {"classification": count}}
    assert "classification" in refused(unhurt, with_outputs([output]))


@pytest.mark.parametrize("where", ["inputs", "outputs"])
@pytest.mark.parametrize("kind", ["region", "byte_size", "offset"])
def test_shared_memory_is_not_for_callers(unhurt: ContainerOnFake, where: str, kind: str) -> None:
    """No request names a region, nor an offset into one."""
    asked: dict[str, object] = {
        "inputs": with_input()["inputs"],
        "outputs": [{"name": "OUT"}],
    }
    tensors = asked[where]
    assert isinstance(tensors, list)
    tensors[0]["parameters"] = {f"shared_memory_{kind}": "x" if kind == "region" else 4}
    assert "shared_memory" in refused(unhurt, asked)


#: Each would lead elsewhere in tritonserver, were it a part of the path there.
ESCAPES = (
    "../repository/index",
    "..%2frepository%2findex",
    "%2e%2e/repository/index",
    "x/config",
    "shielded/config?",
    "shielded/config#",
    "shielded%3f",
    "shielded%23",
    "shielded%00",
    "shielded%0d%0aContent-Length:%200",
    "shielded/versions/1",
    "%2e%2e",
    "..",
    ".",
    "%2f",
    "shielded/../../logging",
    "shielded%2f..%2f..%2flogging",
    "shielded;x",
    "shielded%20",
    "shielded::m",
    "//shielded",
    "shielded%5c..%5c",
)


@pytest.mark.parametrize("name", ESCAPES)
def test_paths_that_try_to_escape(unhurt: ContainerOnFake, name: str) -> None:
    """The path in tritonserver is made of a loaded model's name alone: anything else is a 404."""
    request = head(f"/models/{name}/invoke", f"Content-Length: {len(GOOD)}", "Connection: close")
    status, body = ask(unhurt, request + GOOD)
    assert status in (400, 404), body
    assert b"triton" not in body.lower()


@pytest.mark.parametrize(
    "path",
    ["/v2", "/v2/logging", "/v2/repository/index", "/v2/models/shielded/infer", "/metrics/"],
)
def test_tritons_own_paths_are_not_ours(unhurt: ContainerOnFake, path: str) -> None:
    """No path of tritonserver's is passed on; /metrics is the container's own page."""
    assert unhurt.http.get(path).status_code == 404
    assert unhurt.http.post(path, content=GOOD).status_code == 404
