"""No request kills tritonserver, or has another tenant's model unloaded.

What the container refuses by itself is in tests/unit/container/assembled/test_hostile_requests.py.
The fixture `container` asks the witness after each; that it is the same tritonserver is held here.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH


@pytest.fixture(scope="module")
def tenant(shared: Container) -> Iterator[str]:
    """A model of all types, there for all tests of this file."""
    directory = shared.model_root / "hostile-requests/model"
    models.write_archive(directory, {"any": models.anything()})
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


def test_compressed_requests_are_read_too(container: Container, tenant: str) -> None:
    """Compression hides nothing."""
    answer = container.invoke(tenant, gzip.compress(_one([2**62])), Content_Encoding="gzip")
    assert answer.status_code == 400
    good = container.invoke(tenant, gzip.compress(_one([2])), Content_Encoding="gzip")
    assert values(good, "OUT_FP32") == [1.0, 1.0]


@pytest.mark.parametrize(
    "members",
    [
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": ["a", "b"]}]},
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": [None, {}]}]},
        {"inputs": [{"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": [[], []]}]},
        {"inputs": [{"name": "IN_BOOL", "shape": [1], "datatype": "BOOL", "data": [2]}]},
        {"inputs": [{"name": "IN_INT64", "shape": [1], "datatype": "INT64", "data": [1e99]}]},
        {"inputs": [{"name": "IN_INT64", "shape": [1], "datatype": "INT64", "data": [1 << 99]}]},
        {"inputs": [{"name": "out of memory", "shape": [1], "datatype": "FP32", "data": [1]}]},
        {"inputs": [{"name": "IN_FP32", "shape": [1], "datatype": "INT64", "data": [1]}]},
    ],
    ids=lambda members: json.dumps(members)[:60],
)
def test_the_callers_fault(members: dict[str, object], container: Container, tenant: str) -> None:
    """What is wrong with a request is a 400 with one sentence, never a 5xx: tritonserver's own."""
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


def test_long_header_lines_that_pass(container: Container, tenant: str) -> None:
    """Up to the limit, and many of them."""
    headers = {f"X_{n}": "x" * 3_000 for n in range(4)}
    for more in ({"X_Long": "x" * 8_000}, headers):
        assert values(container.invoke(tenant, _one([2]), **more), "OUT_FP32") == [1.0, 1.0]


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
