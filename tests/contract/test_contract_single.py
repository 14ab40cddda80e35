"""The single-model endpoint: GET /ping and POST /invocations."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import ROOT, Container, launch, running, until
from tests.support.protocol import binary, binary_values, complaint, infer, sized, values
from tests.support.tritons import TRITONS

NAME = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"


def _environment(directory: Path, **more: str) -> dict[str, str]:
    return {
        "SAGEMAKER_MULTI_MODEL": "false",
        "SERVE_SINGLE_MODEL_DIR": str(directory),
        **more,
    }


@contextmanager
def _serving(
    tmp_path: Path, written: Mapping[str, models.Writable], **environment: str
) -> Iterator[Container]:
    directory = models.write_archive(tmp_path / "model", written)
    with running(tmp_path, **_environment(directory, **environment)) as container:
        yield container


def test_only_directory(triton: Mapping[str, str], tmp_path: Path) -> None:
    """Without a name the only model directory is served, with a warning; payloads are alike."""
    with _serving(tmp_path, {"mine": models.adder(1)}, **triton) as container:
        assert f"{NAME} is not set" in container.log
        assert values(container.http.post("/invocations", json=infer([1]))) == [2.0]
        body, size = binary([1])
        headers = {"Content-Type": sized(size)}
        answer = container.http.post("/invocations", content=body, headers=headers)
        assert binary_values(answer) == [2.0]
        for bad in (b"", b"{"):
            answer = container.http.post("/invocations", content=bad)
            assert answer.status_code == 400
            complaint(answer)
        answer = container.http.get("/models")
        assert answer.status_code == 404
        assert "a single-model endpoint: GET /ping, POST /invocations" in complaint(answer)


def test_named_among_several(triton: Mapping[str, str], tmp_path: Path) -> None:
    """The named model is served; an ensemble brings its steps."""
    written: dict[str, models.Writable] = {
        "a": models.adder(1),
        "b": models.adder(2),
        "e": models.Chain(("a", "b")),
    }
    with _serving(tmp_path, written, **triton, **{NAME: "e"}) as container:
        assert values(container.http.post("/invocations", json=infer([1]))) == [4.0]


def test_executor_export(tmp_path: Path) -> None:
    """An executor export becomes an ensemble here too, and answers the committed numbers."""
    example = ROOT / "examples/merlin/dense"
    environment = _environment(example / "repository", **{NAME: "executor_model"})
    with running(tmp_path, **environment) as container:
        answer = container.http.post("/invocations", content=(example / "request.json").read_text())
        expected = json.loads((example / "expected.json").read_text())["outputs"][0]
        assert values(answer, expected["name"]) == pytest.approx(expected["data"], rel=1e-6)
        assert "pure ensemble" in container.log


@pytest.mark.parametrize("layout", ["at the top", "one extra directory"])
def test_layouts(layout: str, tmp_path: Path) -> None:
    """A single model's files at the top, or in one extra directory, are served as in MME."""
    models.write_archive(tmp_path / "source", {"mine": models.adder(1)})
    if layout == "at the top":
        shutil.copytree(tmp_path / "source/mine", tmp_path / "model")
    else:
        shutil.copytree(tmp_path / "source", tmp_path / "model/extra")
    with running(tmp_path, **_environment(tmp_path / "model")) as container:
        assert values(container.http.post("/invocations", json=infer([1]))) == [2.0]


@pytest.mark.parametrize(
    ("written", "environment", "fragments"),
    [
        ({"a": models.identity, "b": models.identity}, {}, ["several models (a, b)", NAME]),
        ({}, {}, ["no such directory", NAME]),
        ({"a": models.identity}, {NAME: "b"}, ["no model 'b' in it", "expected one of a", NAME]),
        ({"a": models.unwilling}, {}, ["the model a", "no weights in /nowhere/weights.bin"]),
    ],
)
def test_what_cannot_be_served(
    written: Mapping[str, models.Writable],
    environment: Mapping[str, str],
    fragments: list[str],
    tmp_path: Path,
) -> None:
    """A container without a model that it can serve ends, and its last line says what it found."""
    directory = models.write_archive(tmp_path / "model", written)
    container = launch(tmp_path, **_environment(directory, **environment))
    try:
        assert container.wait() == 1
        last = container.log.strip().splitlines()[-1]
        for fragment in fragments:
            assert fragment in last
    finally:
        container.close()


def test_ping_follows_the_model(tmp_path: Path) -> None:
    """/ping is 503 until the model is ready; with SAGEMAKER_TRITON_PING_MODE=live it is not."""
    marker = tmp_path / "marker"
    directory = models.write_archive(tmp_path / "model", {"m": models.late(2, marker)})
    for mode, expected in (("ready", 503), ("live", 200)):
        environment = _environment(directory, SAGEMAKER_TRITON_PING_MODE=mode)
        marker.unlink(missing_ok=True)
        with _until_begun(tmp_path / mode, marker, environment) as container:
            assert container.ping() == expected
            until_ready(container)


@contextmanager
def _until_begun(
    directory: Path, marker: Path, environment: Mapping[str, str]
) -> Iterator[Container]:
    container = launch(directory, **environment)
    try:
        until(marker.exists, "the model is being loaded", container)
        yield container
    finally:
        container.close()


def until_ready(container: Container) -> None:
    """Until the model answers; before, an invocation is a 404 or a 503."""

    def ready() -> bool:
        answer = container.http.post("/invocations", json=infer([1]))
        assert answer.status_code in (200, 404, 503), answer.text
        return answer.status_code == 200

    until(ready, "the model answers", container)
    assert container.ping() == 200


def test_generate(tmp_path: Path) -> None:
    """With inference type generate the body is Triton's generate request."""
    written = {"talker": models.speaking}
    kind = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate"}
    with _serving(tmp_path, written, **kind) as container:
        answer = container.http.post("/invocations", json={"text_input": "one two"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["text_output"] == "one two"
        _answers_with_a_dead_stub(container)


def _answers_with_a_dead_stub(container: Container) -> None:
    """The request that meets it is answered, in these forms as well."""
    for pid in container.stubs("talker"):
        os.kill(pid, signal.SIGKILL)
    answer = container.http.post("/invocations", json={"text_input": "one"})
    assert answer.status_code == 200, answer.text
    assert "one" in answer.text


@pytest.mark.parametrize(
    ("triton", "kind", "said"),
    [
        ("2.51", "infer", "the model is decoupled"),
        ("2.51", "generate", "the model is decoupled"),
        ("2.36", "infer", "the model is decoupled"),
        ("2.36", "generate", "this tritonserver does not know `generate`"),
    ],
)
def test_an_endpoint_that_cannot_ask_its_model(
    triton: str, kind: str, said: str, tmp_path: Path
) -> None:
    """No request would be answered: a 500, whichever tritonserver says so and with which status."""
    environment = {**TRITONS[triton], "SAGEMAKER_TRITON_INFERENCE_TYPE": kind}
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["one two"]}
    body = {"inputs": [text]} if kind == "infer" else {"text_input": "one two"}
    with _serving(tmp_path, {"talker": models.streaming}, **environment) as container:
        answer = container.http.post("/invocations", json=body)
        assert answer.status_code == 500, answer.text
        assert complaint(answer).startswith(said)


def test_generate_stream(tmp_path: Path) -> None:
    """With generate_stream a decoupled model's answers come as server-sent events."""
    written = {"talker": models.streaming}
    kind = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate_stream"}
    with _serving(tmp_path, written, **kind) as container:
        body = {"text_input": "one two three"}
        with container.http.stream("POST", "/invocations", json=body) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = [line for line in answer.iter_lines() if line]
        said = [json.loads(event.removeprefix("data: "))["text_output"] for event in events]
        assert said == ["one", "two", "three"]
        answer = container.http.post("/invocations", json={"other": 1})
        assert answer.status_code == 400, answer.text
        _answers_with_a_dead_stub(container)


#: Says each word; at `raise` it fails, at `tell` it tells of a failure and goes on.
_FALTERING = """
import traceback

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
            sender = request.get_response_sender()
            for word in text.reshape(-1)[0].decode().split():
                sender.send(self.said(word))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def said(self, word):
        try:
            secret = {}[word] if word in ("raise", "tell") else word
        except KeyError:
            if word == "raise":
                raise
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(traceback.format_exc()))
        array = np.array([secret.encode()], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", array)])
"""


def test_errors_inside_a_stream(tmp_path: Path) -> None:
    """They are told without code and paths, as those that come before it; the log has them."""
    more = "model_transaction_policy { decoupled: true }\n"
    model = models.PythonModel(_FALTERING, more, tensors=models.streaming.tensors)
    kind = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate_stream"}
    with _serving(tmp_path, {"m": model}, **kind) as container:
        said = []
        for text in ("one tell two", "one raise", "tell"):
            answer = container.http.post("/invocations", json={"text_input": text})
            lines = answer.text.removeprefix("data: ").split("\n\ndata: ")
            said.append([json.loads(line) for line in lines])
        words = [[one.get("text_output", one.get("error")) for one in each] for each in said]
        assert words[0] == ["one", "KeyError: 'tell'", "two"]
        assert words[1] == ["one", "KeyError: 'raise'"]
        assert words[2] == ["KeyError: 'tell'"]
        assert "an error inside a stream: Traceback (most recent call last)" in container.log


@pytest.mark.parametrize(("end", "decoupled"), [("closed", True), ("reset", False)])
def test_streams_whose_callers_leave(end: str, decoupled: bool, tmp_path: Path) -> None:
    """Few of them reach the model; of those a decoupled one is cancelled when it has begun."""
    marker = tmp_path / "marker"
    written = {"talker": models.dawdling(marker, decoupled)}
    kind = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate_stream"}
    body = json.dumps({"text_input": "word " * 20}).encode()
    head = f"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    with _serving(tmp_path, written, **kind) as container:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", container.port)) as caller:
                caller.sendall(head.encode() + body)
                time.sleep(0.04)
                if end == "reset":
                    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        answer = container.http.post("/invocations", json={"text_input": "at last"})
        assert answer.status_code == 200, answer.text
        assert "last" in answer.text
        *left, own = map(int, marker.read_text().split())
    assert own == 2
    assert sum(left) < (8 * 20 if decoupled else 12 * 20)  # of 20 words each
