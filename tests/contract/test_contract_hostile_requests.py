"""No request kills tritonserver, or has another tenant's model unloaded.

What the container refuses by itself is in tests/unit/container/assembled/test_hostile_requests.py
and test_shield.py beside it. The fixture `container` asks the witness after each; that it is the
same tritonserver is held here. docs/security.md names these tests beside the published
vulnerabilities of tritonserver.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import Container, until
from tests.support.protocol import complaint, values
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
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def _one(shape: object, datatype: str = "FP32", data: object = (1, 1), **more: object) -> bytes:
    kind = "STRING" if datatype == "BYTES" else datatype
    each = {"name": f"IN_{kind}", "shape": shape, "datatype": datatype, "data": data, **more}
    return json.dumps({"inputs": [each]}).encode()


def _input(**members: object) -> dict[str, object]:
    return {"name": "IN_FP32", "shape": [2], "datatype": "FP32", "data": [1, 1], **members}


@pytest.mark.parametrize(
    "given",
    [
        _input(data=["a", "b"]),
        _input(data=[None, {}]),
        _input(data=[[], []]),
        _input(shape=[]),
        _input(name="IN_BOOL", shape=[1], datatype="BOOL", data=[2]),
        _input(name="IN_INT64", shape=[1], datatype="INT64", data=[1e99]),
        _input(name="IN_INT64", shape=[1], datatype="INT64", data=[1 << 99]),
        _input(name="out of memory", shape=[1], data=[1]),
        _input(shape=[1], datatype="INT64", data=[1]),
        _input(shape=[2**62]),
    ],
    ids=json.dumps,
)
def test_the_callers_fault(given: dict[str, object], container: Container, tenant: str) -> None:
    """What is wrong with a request is a 400 with one sentence, never a 5xx; in gzip, too."""
    body = json.dumps({"inputs": [given]}).encode()
    for sent, encoding in ((body, "identity"), (gzip.compress(body), "gzip")):
        answer = container.invoke(tenant, sent, Content_Encoding=encoding)
        assert answer.status_code == 400, answer.text
        complaint(answer)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "1e-400", "9" * 5000], ids=len)
@pytest.mark.parametrize("datatype", ["FP32", "FP16", "INT64"])
def test_numbers_that_no_type_holds(
    number: str, datatype: str, container: Container, tenant: str
) -> None:
    """A number out of its type's range is never a server's fault."""
    body = _one([1], datatype, ["@"]).replace(b'"@"', number.encode())
    assert container.invoke(tenant, body).status_code in (200, 400)


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
    ("header", "value"),
    [
        *(
            ("Inference-Header-Content-Length", size)
            for size in ("-1", "99999999999999999999999", "x", "")
        ),
        # It reads their weights by std::stod, which ends it.
        *(
            ("Accept-Encoding", weight)
            for weight in ("*;q=1e999", "gzip;q=1e-999", "*;q=1e999,gzip", "gzip;q=" + "9" * 400)
        ),
        ("x-serve-access", "guessed"),
        ("X-Serve-Access", "guessed"),
        ("triton-grpc-protocol-access", "guessed"),
        ("X-Long", "x" * 8_000),
        ("X-Of-Four", "x" * 3_000),
    ],
    ids=lambda word: word[:40],
)
def test_headers_that_steer_nothing(
    header: str, value: str, container: Container, tenant: str
) -> None:
    """Neither sizes, weights and secrets of a caller's own, nor lines up to the limit."""
    count = 4 if header == "X-Of-Four" else 1
    headers = [(header if it == 0 else f"{header}-{it}", value) for it in range(count)]
    path = f"/models/{tenant}/invoke"
    answer = container.http.post(path, content=_one([2]), headers=headers)
    assert values(answer, "OUT_FP32") == [1.0, 1.0]


def test_forged_lines_of_the_log(container: Container, tenant: str) -> None:
    """What a caller writes begins no line of the log."""
    forged = "\n2026-01-01T00:00:00Z CRITICAL forged\n"
    good = json.loads(_one([2]))
    for request in (
        {**good, "id": forged},
        {"inputs": [_input(name=forged)]},
        {"inputs": [_input(datatype=forged)]},
        {**good, "outputs": [{"name": forged}]},
        {**good, "parameters": {forged: forged}},
        json.loads(_one([1], "BYTES", [f"raise {forged}"])),
    ):
        container.invoke(tenant, request, X_Amzn_SageMaker_Target_Model="a.tar.gz")
    container.http.get("/models/last-of-all")
    until(lambda: "last-of-all" in container.log, "the log has them", container)
    assert "forged" in container.log
    assert not [line for line in container.log.splitlines() if line.startswith("2026-01-01T00:00")]


def test_good_requests_are_untouched(container: Container, tenant: str) -> None:
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
