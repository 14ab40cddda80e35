"""No request kills tritonserver, or has another tenant's model unloaded.

Nearly every body here ended the tritonserver that was asked it directly. The fixture `container`
asks the witness after each; that it is the same tritonserver is held here.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Iterator, Mapping

import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container
from tests.support.models import PythonModel
from tests.support.protocol import complaint, infer, sized, values
from tests.support.tritons import BOTH

#: Answers its inputs, whatever they are; says in words what it was given when these are `raise`.
_ANY = """
class TritonPythonModel(Each):
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        tensors = []
        for tensor in request.inputs():
            array = tensor.as_numpy()
            if array.dtype == np.object_ and array.size and array.flat[0].startswith(b"raise"):
                raise ValueError(array.flat[0].decode())
            tensors.append(pb_utils.Tensor(tensor.name().replace("IN", "OUT", 1), array))
        return pb_utils.InferenceResponse(tensors)
"""
_TYPES = ("FP32", "FP16", "STRING", "BOOL", "INT64")


def _any() -> PythonModel:
    inputs = "".join(
        f'input {{ name: "{"IN_" + kind}" data_type: TYPE_{kind} dims: [-1] optional: true }}\n'
        for kind in _TYPES
    )
    outputs = "".join(
        f'output {{ name: "{"OUT_" + kind}" data_type: TYPE_{kind} dims: [-1] }}\n'
        for kind in _TYPES
    )
    return PythonModel(_ANY, tensors=inputs + outputs)


@pytest.fixture(scope="module")
def tenant(shared: Container) -> Iterator[str]:
    """A model of all types, there for all tests of this file."""
    directory = shared.model_root / "hostile-requests/model"
    models.write_archive(directory, {"any": _any()})
    with shared.loaded("tenant", directory):
        yield "tenant"


@pytest.fixture(autouse=True)
def same_tritonserver(shared: Container, tenant: str) -> Iterator[None]:
    """It lives on, and has not grown by a hundred megabytes."""
    pid, before = shared.triton(), _resident(shared.triton())
    yield
    assert shared.triton() == pid
    assert _resident(pid) - before < 100e6


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


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
def test_shapes_that_the_data_do_not_have(datatype: str, container: Container, tenant: str) -> None:
    """Each is a 400 within a second, whatever the size overflows to."""
    for shape in _SHAPES:
        for padding in (b"", b" " * 100_000):  # a long one goes the way of large JSON
            before_s = container.computed_s()
            answer = container.invoke(tenant, _one(shape, datatype, _DATA[datatype]) + padding)
            assert answer.status_code == 400, (shape, answer.text)
            complaint(answer)
            assert container.computed_s() - before_s < 5


def test_shapes_of_binary_tensors(container: Container, tenant: str) -> None:
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


def test_strings_whose_lengths_lie(container: Container, tenant: str) -> None:
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
def test_nesting(body: bytes, container: Container, tenant: str) -> None:
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
def test_bombs(megabytes: int, encoding: str, container: Container, tenant: str) -> None:
    """What inflates to gigabytes is a 413 in bounded time, and nobody takes the memory."""
    assert zlib.decompressobj(47).decompress(_bomb(3, encoding)) == b" " * (3 << 20)
    body = _bomb(megabytes, encoding)
    before_s = container.computed_s()
    answer = container.invoke(tenant, body, Content_Encoding=encoding)
    assert answer.status_code == 413, answer.text
    assert "inflated" in complaint(answer)
    assert container.computed_s() - before_s < 10  # 0.2 s on an idle machine


def test_compressed_requests_are_read_too(container: Container, tenant: str) -> None:
    """Compression hides nothing."""
    answer = container.invoke(tenant, gzip.compress(_one([2**62])), Content_Encoding="gzip")
    assert answer.status_code == 400
    good = container.invoke(tenant, gzip.compress(_one([2])), Content_Encoding="gzip")
    assert values(good, "OUT_FP32") == [1.0, 1.0]


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
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": ["a", "b"]}]},
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": [None, {}]}]},
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": 5}]},
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": [[], []]}]},
        {"inputs": [{"name": "IN_BOOL", "shape": [1], "datatype": "BOOL", "data": [2]}]},
        {"inputs": [{"name": "IN_INT64", "shape": [1], "datatype": "INT64", "data": [1e99]}]},
        {"inputs": [{"name": "IN_INT64", "shape": [1], "datatype": "INT64", "data": [1 << 99]}]},
        {"inputs": [{"name": "out of memory", "shape": [1], "datatype": "FP16", "data": [1]}]},
        {"inputs": [{"name": "out of memory", "shape": [1], "datatype": "FP32", "data": [1]}]},
        {"inputs": [{"name": "IN_FP32", "shape": [1], "datatype": "INT64", "data": [1]}]},
        {"id": 7},
    ],
    ids=lambda members: json.dumps(members)[:60],
)
def test_the_callers_fault(members: dict[str, object], container: Container, tenant: str) -> None:
    """What is wrong with a request is a 400 with one sentence, never a 5xx."""
    request = {**json.loads(_one([2])), **members}
    answer = container.invoke(tenant, json.dumps(request).encode())
    assert answer.status_code == 400, answer.text
    complaint(answer)


@BOTH
@pytest.mark.parametrize("phrase", ["out of memory", "Too many open files", "OOM", "bad_alloc"])
@pytest.mark.parametrize("written", ["plain", "escaped"])
def test_words_of_a_caller_unload_nobody(
    phrase: str, written: str, container: Container, tenant: str
) -> None:
    """A model that repeats what it was sent is no lack of memory: it failed, and never 507."""
    body = _one([1], "BYTES", [f"raise {phrase}"])
    if written == "escaped":
        body = body.replace(b"m", b"\\u006d").replace(b"O", b"\\u004f")
        body = body.replace(b"IN_\\u004f", b"IN_O")
        body = body.replace(b'"na\\u006de"', b'"name"')
    answer = container.invoke(tenant, body)
    assert answer.status_code in (400, 500), answer.text  # as it has answered others, or not yet
    assert f"the model {tenant} failed" in complaint(answer)
    assert phrase in complaint(answer)


@pytest.mark.parametrize(
    "weight", ["*;q=1e999", "gzip;q=1e-999", "*;q=1e999,gzip", "gzip;q=" + "9" * 400]
)
def test_weights_that_no_double_holds(weight: str, container: Container, tenant: str) -> None:
    """tritonserver reads the weights of Accept-Encoding by std::stod, and dies of these."""
    answer = container.invoke(tenant, _one([2]), Accept_Encoding=weight)
    assert values(answer, "OUT_FP32") == [1.0, 1.0]


def test_a_great_many_parameters(container: Container, tenant: str) -> None:
    """tritonserver's time grows with their square, on threads that are everybody's."""
    request = {**json.loads(_one([2])), "parameters": {f"k{n}": 1 for n in range(60_000)}}
    before_s = container.computed_s()
    answer = container.invoke(tenant, json.dumps(request).encode())
    assert answer.status_code == 400, answer.text
    complaint(answer)
    assert container.computed_s() - before_s < 5


@pytest.mark.parametrize("size", [8_001, 9_000, 12_000, 16_000, 33_000])
def test_long_header_lines(size: int, container: Container, tenant: str) -> None:
    """A line that tritonserver's HTTP library does not take is a 431 at once."""
    before_s = container.computed_s()
    answer = container.invoke(tenant, _one([2]), X_Long="x" * size)
    assert answer.status_code == 431, answer.text
    assert "header" in complaint(answer)
    assert container.computed_s() - before_s < 5


def test_long_header_lines_that_pass(container: Container, tenant: str) -> None:
    """Up to the limit, and many of them."""
    headers = {f"X_{n}": "x" * 3_000 for n in range(4)}
    for more in ({"X_Long": "x" * 8_000}, headers):
        assert values(container.invoke(tenant, _one([2]), **more), "OUT_FP32") == [1.0, 1.0]


def test_two_members_of_one_name(container: Container, tenant: str) -> None:
    """tritonserver would take the first of two shapes."""
    body = _one([2]).replace(b'"shape"', b'"shape": [4611686018427387904], "shape"')
    assert container.invoke(tenant, body).status_code == 400
    body = _one([2]).replace(b'"shape"', b'"shape": [2000000000], "shape"')
    answer = container.invoke(tenant, body)
    assert answer.status_code == 400
    assert "twice" in complaint(answer)


def test_good_requests_are_untouched(container: Container, tenant: str, archive: Archive) -> None:
    """Strings with quotes, colons and brackets, nested lists, empty tensors, all at once."""
    strings = ['a:"b"', "[1,2]", "{", "\\", "é", "", "\u0000", "\U0001f600"]
    inputs = [
        {"name": "IN_STRING", "shape": [8], "datatype": "BYTES", "data": strings},
        {"name": "IN_FP32", "shape": [4], "datatype": "FP32", "data": [[1, 2], [3, 4]]},
        {"name": "IN_INT64", "shape": [0], "datatype": "INT64", "data": []},
        {"name": "IN_BOOL", "shape": [1], "datatype": "BOOL", "data": [True]},
    ]
    for padding in (b"", b" " * 5_000, b" " * 100_000):
        answer = container.invoke(tenant, json.dumps({"inputs": inputs}).encode() + padding)
        assert values(answer, "OUT_STRING") == strings
        assert values(answer, "OUT_FP32") == [1.0, 2.0, 3.0, 4.0]
        assert values(answer, "OUT_INT64") == []
        assert values(answer, "OUT_BOOL") == [True]
    assert values(container.invoke(WITNESS, infer([1]))) == [4.0]
