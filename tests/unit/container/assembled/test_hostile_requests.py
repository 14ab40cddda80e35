"""Requests that ended the tritonserver that was asked them directly: this one never sees them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping

import pytest

from tests.support import models
from tests.support.protocol import complaint, sized
from tests.unit.container.assembled.container_on_fake import ContainerOnFake


@pytest.fixture(scope="module")
def tenant(endpoint: ContainerOnFake) -> Iterator[str]:
    """A model of all types, there for all tests of this file."""
    directory = endpoint.model_root / "hostile-requests/model"
    models.write_archive(directory, {"any": models.anything()})
    with endpoint.loaded("tenant", directory):
        yield "tenant"


@pytest.fixture(autouse=True)
def nothing_comes_through(endpoint: ContainerOnFake, tenant: str) -> Iterator[None]:
    """tritonserver is asked nothing of that model."""
    before = _invocations(endpoint, tenant)
    yield
    assert _invocations(endpoint, tenant) == before


def _invocations(endpoint: ContainerOnFake, name: str) -> int:
    return sum(event["model"] == name for event in endpoint.asked("infer"))


def _one(shape: object, datatype: str = "FP32", data: object = (1, 1), **more: object) -> bytes:
    kind = "STRING" if datatype == "BYTES" else datatype
    each = {"name": f"IN_{kind}", "shape": shape, "datatype": datatype, "data": data, **more}
    return json.dumps({"inputs": [each]}).encode()


_DATA: Mapping[str, object] = {
    "FP32": [1, 1],
    "FP16": [1, 1],
    "BYTES": ["a", "b"],
    "BOOL": [True, False],
}
_SHAPES = [
    [2**62],
    [2**31],
    [2**40],
    [2**61],
    [2**63 - 1],
    [2**63 - 1, 4],
    [2**29],
    [2**32],
    [3],
    [1],
    [2**31 - 1],
    [2**31 - 1] * 9,
    [0, 2**62],
    [-1],
]


@pytest.mark.parametrize("datatype", _DATA)
def test_shapes_that_the_data_do_not_have(
    datatype: str, container: ContainerOnFake, tenant: str
) -> None:
    """Each is a 400 within a second, whatever the size overflows to."""
    for shape in _SHAPES:
        for padding in (b"", b" " * 100_000):  # a long one goes the way of large JSON
            before_s = container.computed_s()
            answer = container.invoke(tenant, _one(shape, datatype, _DATA[datatype]) + padding)
            assert answer.status_code == 400, (shape, answer.text)
            complaint(answer)
            assert container.computed_s() - before_s < 5


def test_shapes_of_binary_tensors(container: ContainerOnFake, tenant: str) -> None:
    """The shape is held against the bytes behind the JSON alike."""
    for datatype, size in (("FP32", 4), ("FP16", 2), ("STRING", 5), ("BOOL", 1)):
        kind = "BYTES" if datatype == "STRING" else datatype
        for shape in _SHAPES:
            each = {"name": f"IN_{datatype}", "shape": shape, "datatype": kind}
            head = json.dumps(
                {"inputs": [{**each, "parameters": {"binary_data_size": 2 * size}}]}
            ).encode()
            data = (b"\1\0\0\0a" if kind == "BYTES" else bytes(size)) * 2
            if shape != [2**32]:
                head += b" " * 3
            answer = container.invoke(tenant, head + data, Content_Type=sized(len(head)))
            assert answer.status_code == 400, (shape, answer.text)
            complaint(answer)


def test_strings_whose_lengths_lie(container: ContainerOnFake, tenant: str) -> None:
    """A length that leads past the tensor's end is a 400, and no other memory is read."""
    for lengths in ([0xFFFFFFFF, 0], [100, 1], [0, 0], [1, 0x7FFFFFFF], [2, 1]):
        data = b"".join(struct.pack("<I", length) + b"a" for length in lengths)
        each = {"name": "IN_STRING", "shape": [2], "datatype": "BYTES"}
        head = json.dumps(
            {"inputs": [{**each, "parameters": {"binary_data_size": len(data)}}]}
        ).encode()
        answer = container.invoke(tenant, head + data, Content_Type=sized(len(head)))
        assert answer.status_code == 400, answer.text
        assert "lengths" in complaint(answer)


_DEEP = b"[" * 60_000 + b"1" + b"]" * 60_000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_one([1], data=0).replace(b'"data": 0', b'"data": ' + _DEEP), id="data"),
        pytest.param(_one([1], data=0).replace(b"0}", b"[" * 60_000), id="unclosed data"),
        pytest.param(b"[" * 1_000_000, id="a million brackets"),
        pytest.param(b"{" * 1_000_000, id="a million braces"),
        pytest.param(b'{"a":' * 200_000, id="members"),
        pytest.param(b'{"inputs":[],"parameters":{"a":' + b"[" * 1_000_000, id="parameter"),
        pytest.param(b'{"inputs":[],"parameters":{"a":' + b'{"a":' * 200_000, id="parameters"),
        pytest.param(b'{"inputs":[],"x":' + _DEEP + b"}", id="a member that nobody knows"),
    ],
)
def test_nesting(body: bytes, container: ContainerOnFake, tenant: str) -> None:
    """It is a 400 wherever it stands."""
    answer = container.invoke(tenant, body)
    assert answer.status_code == 400, answer.text
    complaint(answer)


def _bomb(megabytes: int, encoding: str) -> bytes:
    """So many MiB of blanks, in blocks that are alike; the end, which nobody is to reach, lacks."""
    packer = zlib.compressobj(1, wbits=31 if encoding == "gzip" else 15)
    blanks = b" " * (1 << 20)
    first, again = (packer.compress(blanks) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * (megabytes - 1)


@pytest.mark.parametrize("megabytes", [512, 2048])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bombs(megabytes: int, encoding: str, container: ContainerOnFake, tenant: str) -> None:
    """What inflates to gigabytes is a 413 in bounded time, and nobody takes the memory."""
    assert zlib.decompressobj(47).decompress(_bomb(3, encoding)) == b" " * (3 << 20)
    body = _bomb(megabytes, encoding)
    before_s = container.computed_s()
    answer = container.invoke(tenant, body, Content_Encoding=encoding)
    assert answer.status_code == 413, answer.text
    assert "inflated" in complaint(answer)
    assert container.computed_s() - before_s < 10  # 0.2 s on an idle machine


@pytest.mark.parametrize(
    "members",
    [
        {"parameters": 5},
        {"parameters": None},
        {"parameters": {"sequence_id": "x" * 300}},
        {"parameters": {"sequence_id": []}},
        {"parameters": {"shared_memory_region": "x"}},
        {"outputs": [{"name": "OUT_FP32", "parameters": {"classification": 1}}]},
        {"outputs": [{"name": "OUT_FP32", "parameters": {"classification": -1}}]},
        {"outputs": [{"name": "OUT_STRING", "parameters": {"classification": 3}}]},
        {"outputs": [{"name": "OUT_FP32", "parameters": {"binary_data": "yes"}}]},
        {"outputs": [{"name": "OUT_FP32", "parameters": 5}]},
        {"outputs": 5},
        {"outputs": [5]},
        {"outputs": [{"name": f"OUT_{n}"} for n in range(100_000)]},
        {"inputs": 5},
        {"inputs": [5]},
        {"inputs": [{"name": "IN_STRING", "shape": [2], "datatype": "BYTES", "data": [1, 2]}]},
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": 5}]},
        {"inputs": [{"name": "out of memory", "shape": [1], "datatype": "FP16", "data": [1]}]},
        {"id": 7},
    ],
    ids=lambda members: json.dumps(members)[:60],
)
def test_the_callers_fault(
    members: dict[str, object], container: ContainerOnFake, tenant: str
) -> None:
    """What is wrong with a request is a 400 with one sentence, never a 5xx."""
    request = {**json.loads(_one([2])), **members}
    answer = container.invoke(tenant, json.dumps(request).encode())
    assert answer.status_code == 400, answer.text
    complaint(answer)


def test_a_great_many_parameters(container: ContainerOnFake, tenant: str) -> None:
    """tritonserver's time grows with their square, on threads that are everybody's."""
    request = {**json.loads(_one([2])), "parameters": {f"k{n}": 1 for n in range(60_000)}}
    before_s = container.computed_s()
    answer = container.invoke(tenant, json.dumps(request).encode())
    assert answer.status_code == 400, answer.text
    complaint(answer)
    assert container.computed_s() - before_s < 5


@pytest.mark.parametrize("size", [8_001, 9_000, 12_000, 16_000, 33_000])
def test_long_header_lines(size: int, container: ContainerOnFake, tenant: str) -> None:
    """A line that tritonserver's HTTP library does not take is a 431 at once."""
    before_s = container.computed_s()
    answer = container.invoke(tenant, _one([2]), X_Long="x" * size)
    assert answer.status_code == 431, answer.text
    assert "header" in complaint(answer)
    assert container.computed_s() - before_s < 5


def test_two_members_of_one_name(container: ContainerOnFake, tenant: str) -> None:
    """tritonserver would take the first of two shapes."""
    body = _one([2]).replace(b'"shape"', b'"shape": [4611686018427387904], "shape"')
    assert container.invoke(tenant, body).status_code == 400
    body = _one([2]).replace(b'"shape"', b'"shape": [2000000000], "shape"')
    answer = container.invoke(tenant, body)
    assert answer.status_code == 400
    assert "twice" in complaint(answer)
