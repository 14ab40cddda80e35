"""The single-model endpoint: GET /ping and POST /invocations."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.conftest import Archive
from tests.fakes.tritonserver import read_record
from tests.support import models
from tests.support.container import ROOT, Container, launch, running, until
from tests.support.fake_triton import fake_environment
from tests.support.metrics_page import scrape
from tests.support.protocol import binary, complaint, infer, sized, values
from tests.support.tritons import BOTH, TRITONS

NAME = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
#: As tritonserver says it of a model that raises while it is loaded.
UNWILLING = (
    "load failed for model 'a': version 1 is at UNAVAILABLE state: Internal: FileNotFoundError: "
    "no weights in /nowhere/weights.bin\n\nAt:\n  /a/1/model.py(4): weights\n;"
)


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


EXPORT = ROOT / "examples/merlin/dense/repository"


def _one_model(directory: Path) -> None:
    models.adder(3).write(directory)


def _in_one_directory_more(directory: Path) -> None:
    models.adder(3).write(directory / "extra/mine")


def _an_ensemble_with_its_steps(directory: Path) -> None:
    models.sums(directory, [1, 2])


@pytest.mark.parametrize(
    ("lay", "name"),
    [(_one_model, None), (_in_one_directory_more, None), (_an_ensemble_with_its_steps, "sum")],
)
def test_what_is_served(lay: Callable[[Path], None], name: str | None, tmp_path: Path) -> None:
    """The only model or the named one, at the top or in one directory more, as on an MME.

    Payloads are alike; other calls are told which there are.
    """
    lay(tmp_path / "model")
    environment = _environment(tmp_path / "model", **({NAME: name} if name else {}))
    with running(tmp_path, **environment, **fake_environment(tmp_path, computes=True)) as container:
        assert values(container.http.post("/invocations", json=infer([1]))) == [4.0]
        until(lambda: "model loaded" in container.log, "the log has the load", container)
        assert (f"{NAME} is not set" in container.log) == (name is None)
        body, size = binary([1])
        answer = container.http.post(
            "/invocations", content=body, headers={"Content-Type": sized(size)}
        )
        assert (answer.status_code, answer.content) == (200, body)  # as the fake answers it
        for bad in (b"", b"{"):
            answer = container.http.post("/invocations", content=bad)
            assert answer.status_code == 400
            complaint(answer)
        answer = container.http.get("/models")
        assert answer.status_code == 404
        assert "a single-model endpoint: GET /ping, POST /invocations" in complaint(answer)


def test_executor_export(tmp_path: Path) -> None:
    """It becomes an ensemble here, too, and what its workflow counts is told."""
    environment = _environment(EXPORT, **{NAME: "executor_model"})
    with running(tmp_path, **environment, **fake_environment(tmp_path)) as container:
        until(lambda: "pure ensemble" in container.log, "the log has the load")
        answer = container.http.get("/models/executor_model/features")
        assert "none of its processes has counted" in answer.json()["models"][0]["why_none"]
        published = "".join(path.read_text() for path in container.serving.glob("*/config.pbtxt"))
        assert 'platform: "ensemble"' in published or "serve_joined" in published


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
    unwilling = {"message": UNWILLING} if models.unwilling in written.values() else {}
    fake = fake_environment(tmp_path, load={"a": unwilling})
    container = launch(tmp_path, **_environment(directory, **environment), **fake)
    try:
        assert container.wait() == 1
        last = container.log.strip().splitlines()[-1]
        for fragment in fragments:
            assert fragment in last
    finally:
        container.close()


@pytest.mark.parametrize(("mode", "expected"), [("ready", 503), ("live", 200)])
def test_ping_follows_the_model(mode: str, expected: int, tmp_path: Path) -> None:
    """/ping is 503 until the model is ready; with SAGEMAKER_TRITON_PING_MODE=live it is not."""
    directory = models.write_archive(tmp_path / "model", {"m": models.identity})
    environment = _environment(directory, SAGEMAKER_TRITON_PING_MODE=mode)
    hanging = fake_environment(tmp_path, load={"*": {"hang": True}})
    container = launch(tmp_path, **environment, **hanging)
    try:
        record = tmp_path / "record"
        until(
            lambda: any(event["event"] == "load" for event in read_record(record)),
            "the model is being loaded",
            container,
        )
        assert container.ping() == expected
        assert container.http.post("/invocations", json=infer([1])).status_code == 404
    finally:
        container.close()


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
    killed = container.stubs("talker")
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not killed & container.stubs("talker"), "the stubs are gone", container)
    answer = container.http.post("/invocations", json={"text_input": "one"})
    assert answer.status_code == 200, answer.text
    assert "one" in answer.text


@BOTH
def test_a_decoupled_model(container: Container, archive: Archive) -> None:
    """No request for one answer would be answered: a 500, with whichever status it is said."""
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["one two"]}
    with container.loaded("talker", archive(talker=models.streaming)):
        answer = container.invoke("talker", {"inputs": [text]})
        assert answer.status_code == 500, answer.text
        assert complaint(answer).startswith("the model is decoupled")


@pytest.mark.parametrize(
    ("triton", "said"),
    [
        ("2.51", "the model is decoupled"),
        ("2.36", "this tritonserver does not know `generate`"),
    ],
)
def test_an_endpoint_that_cannot_ask_its_model(triton: str, said: str, tmp_path: Path) -> None:
    """The same of `generate`."""
    environment = {**TRITONS[triton], "SAGEMAKER_TRITON_INFERENCE_TYPE": "generate"}
    with _serving(tmp_path, {"talker": models.streaming}, **environment) as container:
        answer = container.http.post("/invocations", json={"text_input": "one two"})
        assert answer.status_code == 500, answer.text
        assert complaint(answer).startswith(said)


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


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """An endpoint of the inference type generate_stream with such a model."""
    more = "model_transaction_policy { decoupled: true }\n"
    model = models.PythonModel(_FALTERING, more, tensors=models.streaming.tensors)
    kind = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate_stream"}
    with _serving(tmp_path_factory.mktemp("streams"), {"talker": model}, **kind) as container:
        yield container


def test_generate_stream(streams: Container) -> None:
    """A decoupled model's answers come as server-sent events."""
    body = {"text_input": "one two three"}
    with streams.http.stream("POST", "/invocations", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line for line in answer.iter_lines() if line]
    said = [json.loads(event.removeprefix("data: "))["text_output"] for event in events]
    assert said == ["one", "two", "three"]
    answer = streams.http.post("/invocations", json={"other": 1})
    assert answer.status_code == 400, answer.text
    _answers_with_a_dead_stub(streams)


def test_errors_inside_a_stream(streams: Container) -> None:
    """They are told without code and paths, as those that come before it; the log has them."""
    said = []
    for text in ("one tell two", "one raise", "tell"):
        answer = streams.http.post("/invocations", json={"text_input": text})
        lines = answer.text.removeprefix("data: ").split("\n\ndata: ")
        said.append([json.loads(line) for line in lines])
    words = [[line.get("text_output", line.get("error")) for line in lines] for lines in said]
    assert words == [
        ["one", "KeyError: 'tell'", "two"],
        ["one", "KeyError: 'raise'"],
        ["KeyError: 'tell'"],
    ]
    told = "an error inside a stream: Traceback (most recent call last)"
    until(lambda: told in streams.log, "the log has them", streams)


def is_idle(container: Container) -> bool:
    """Whether nobody waits for the model."""
    page = scrape(container)
    found = [it for (name, _), it in page.items() if name == "serve_invocations_in_flight"]
    return found == [0.0]


@pytest.mark.parametrize(("end", "decoupled"), [("closed", True), ("reset", False)])
def test_streams_whose_callers_leave(end: str, decoupled: bool, tmp_path: Path) -> None:
    """Few of them reach the model; of those a decoupled one is cancelled when it has begun."""
    marker, go = tmp_path / "marker", tmp_path / "go"
    written = {"talker": models.dawdling(marker, go, decoupled)}
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
        until(lambda: is_idle(container), "all have left", container)
        go.touch()
        answer = container.http.post("/invocations", json={"text_input": "at last"})
        assert answer.status_code == 200, answer.text
        assert "last" in answer.text
        *left, own = map(int, marker.read_text().split())
    assert own == 2
    assert sum(left) < (8 * 20 if decoupled else 12 * 20)  # of 20 words each
