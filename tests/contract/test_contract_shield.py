"""A shield for Tritons that nobody patches any more: what callers may send and it may not see.

docs/security.md names these tests beside the published vulnerabilities of tritonserver. Nearly all
of them are in both versions that are here; what comes as far as tritonserver runs on both. After
each test the same tritonserver still runs and another tenant's model answers; what is wrong is a
caller's fault in one sentence.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.contract.conftest import Archive
from tests.support import models
from tests.support.container import Container, running
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH

ANSWER_S = 60.0
GOOD = json.dumps(infer([1])).encode()


@pytest.fixture(scope="module")
def shielded(
    triton: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    """A container with the models `shielded` and `witness`, which answer what they are given.

    Every header is passed on to them.
    """
    environment = {
        **triton,
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--http-header-forward-pattern=.*",
        "SERVE_MEMORY_RESERVE_MB": "0",
    }
    with running(tmp_path_factory.mktemp("shield"), **environment) as container:
        directory = models.write_archive(container.model_root / "m/model", {"m": models.identity})
        with container.loaded("shielded", directory), container.loaded("witness", directory):
            yield container


@pytest.fixture
def unhurt(shielded: Container) -> Iterator[Container]:
    """That container, of which tritonserver must outlive the test, and the witness answer."""
    before = shielded.triton()
    yield shielded
    assert shielded.triton() == before
    assert values(shielded.invoke("witness", infer([1]))) == [1.0]


@pytest.fixture
def archive(shielded: Container, tmp_path: Path) -> Archive:
    """Writes an archive where the platform would extract it."""

    def write(name: str = "archive", /, **written: models.Writable) -> Path:
        directory = shielded.model_root / tmp_path.name / name / "model"
        return models.write_archive(directory, written)

    return write


def ask(container: Container, request: bytes) -> tuple[int, bytes]:
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


def with_input(**changes: object) -> dict[str, object]:
    """A request whose one input is not what it should be."""
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [1.0], **changes}
    return {"inputs": [tensor]}


def with_outputs(outputs: list[dict[str, object]]) -> dict[str, object]:
    """A good request that asks for these outputs."""
    return {**infer([1]), "outputs": outputs}


# -- how bytes come


@BOTH
def test_many_tiny_chunks(unhurt: Container) -> None:
    """A body in 700,000 chunks is answered: it goes on in one piece, with its length."""
    body = GOOD + b" " * (700_000 - len(GOOD))
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    lines = ("Transfer-Encoding: chunked", "Connection: close")
    status, answer = ask(unhurt, head("/models/shielded/invoke", *lines) + chunks)
    assert status in (200, 413), answer


@pytest.mark.parametrize("value", ["-1", "99999999999999999999999", "x", ""])
def test_tritons_own_header_is_not_a_callers(unhurt: Container, value: str) -> None:
    """Inference-Header-Content-Length is set here alone."""
    answer = unhurt.invoke("shielded", GOOD, Inference_Header_Content_Length=value)
    assert values(answer) == [1.0]


@BOTH
def test_a_content_type_that_tritons_library_would_parse(unhurt: Container) -> None:
    """A form of 5 MB, as `curl -d` names it, is a body like any other (2.51 dies of it)."""
    body = GOOD + b" " * 5_000_000
    answer = unhurt.invoke("shielded", body, Content_Type="application/x-www-form-urlencoded")
    assert values(answer) == [1.0]


# -- what requests say


@pytest.mark.parametrize("shape", [[]])
def test_odd_shapes(unhurt: Container, shape: object) -> None:
    """No shape divides by nothing or counts backwards; one that fits nothing may be answered."""
    answer = unhurt.invoke("shielded", with_input(shape=shape))
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "1e-400", "9" * 5000])
@pytest.mark.parametrize("datatype", ["FP32", "INT8", "UINT64"])
def test_numbers_that_no_type_holds(unhurt: Container, number: str, datatype: str) -> None:
    """A number out of its type's range is never a server's fault."""
    body = json.dumps(with_input(datatype=datatype, data=["@"])).replace('"@"', number)
    assert unhurt.invoke("shielded", body.encode()).status_code in (200, 400)


def test_forged_lines_of_the_log(unhurt: Container) -> None:
    """What a caller writes begins no line of the log."""
    forged = "\n2026-01-01T00:00:00Z CRITICAL forged\n"
    for request in (
        {**infer([1]), "id": forged},
        with_input(name=forged),
        with_input(datatype=forged),
        with_outputs([{"name": forged}]),
        {**infer([1]), "parameters": {forged: forged}},
    ):
        unhurt.invoke("shielded", request, X_Amzn_SageMaker_Target_Model="a.tar.gz")
    assert not [line for line in unhurt.log.splitlines() if line.startswith("2026-01-01T00:00")]


# -- where requests go


@pytest.mark.parametrize(
    "name", ["x-serve-access", "X-Serve-Access", "triton-grpc-protocol-access"]
)
def test_a_callers_own_access(unhurt: Container, name: str) -> None:
    """A header that looks like what opens tritonserver changes nothing."""
    assert values(unhurt.invoke("shielded", GOOD, **{name: "guessed"})) == [1.0]


# -- what archives say


@pytest.mark.parametrize("label", ["../../../secret/1", "/etc/passwd"])
def test_labels_of_others(unhurt: Container, archive: Archive, label: str) -> None:
    """A config that names a neighbour's file as its labels is refused (CVE-2026-24147)."""
    tensors = (
        'input { name: "IN" data_type: TYPE_FP32 dims: [-1] }\n'
        f'output {{ name: "OUT" data_type: TYPE_FP32 dims: [2] label_filename: "{label}" }}\n'
    )
    directory = archive(m=models.PythonModel(models.IDENTITY, tensors=tensors))
    answer = unhurt.load("labelled", directory)
    assert answer.status_code == 400
    assert "label_filename" in complaint(answer)


@BOTH
@pytest.mark.parametrize("backend", ["../../x", "/tmp/x", "x", "dali", "python;id"])
def test_backends_that_are_not_there(unhurt: Container, archive: Archive, backend: str) -> None:
    """A backend is one of the image's own; a path to one is refused."""
    answer = unhurt.load("odd", archive(m=models.PythonModel(models.IDENTITY, backend=backend)))
    assert answer.status_code == 400
    assert complaint(answer)


@BOTH
def test_a_model_that_is_misconfigured(unhurt: Container, archive: Archive) -> None:
    """A config that contradicts itself costs its own load and nothing else (CVE-2025-23336)."""
    for more in (
        "max_batch_size: -5\n",
        "instance_group { kind: KIND_GPU count: 1 gpus: [ 99 ] }\n",
        "dynamic_batching { preferred_batch_size: [ 99999999 ] }\n",
        "version_policy { specific { versions: [ 9223372036854775807 ] } }\n",
        'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/etc/passwd" } }\n',
    ):
        directory = archive(more[:12].strip(), m=models.PythonModel(models.IDENTITY, more=more))
        assert unhurt.load("misconfigured", directory).status_code == 400, more


def test_a_link_to_a_neighbour(unhurt: Container, archive: Archive, tmp_path: Path) -> None:
    """An archive holds no way out of itself."""
    directory = archive(m=models.identity)
    (directory / "m/1/data").symlink_to(tmp_path)
    answer = unhurt.load("linked", directory)
    assert answer.status_code == 400
    assert complaint(answer)


def test_a_backend_of_the_archives_own(unhurt: Container, archive: Archive) -> None:
    """A shared library that tritonserver would load into itself is refused."""
    directory = archive(m=models.PythonModel(models.IDENTITY, backend="own"))
    (directory / "m/libtriton_own.so").write_bytes(b"\x7fELF")
    answer = unhurt.load("native", directory)
    assert answer.status_code == 400
    assert "libtriton_own.so" in complaint(answer)
