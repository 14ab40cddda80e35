"""One line of the log for an invocation, whichever way it goes through the container."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import models
from tests.support.container import Container, running, until
from tests.support.fake_triton import fake_environment
from tests.support.protocol import infer, values

TARGET, ID = "X-Amzn-SageMaker-Target-Model", "X-Amzn-SageMaker-Inference-Id"
#: uvicorn's usual way, not the short one: they wait for `100 Continue`.
USUAL = {"Expect": "100-continue"}


def told(container: Container) -> list[dict[str, Any]]:
    lines = map(json.loads, container.log.splitlines())
    return [line for line in lines if line.get("logger") == "serve.access"]


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container that tells of every invocation, with the model `m`."""
    directory = tmp_path_factory.mktemp("telling")
    with running(directory, SERVE_LOG_FORMAT="json", SERVE_ACCESS_LOG="all") as container:
        written = models.write_archive(container.model_root / "m/model", {"m": models.identity})
        assert container.load("m", written, **{TARGET: "shop.tar.gz"}).status_code == 200
        yield container


@pytest.mark.tritonserver
@pytest.mark.parametrize("way", [{}, USUAL], ids=["short", "usual"])
def test_every_invocation_has_a_line(telling: Container, way: dict[str, str]) -> None:
    """Answered, refused, of a model that is not there, given up by its caller: one each."""
    before, refusals = len(told(telling)), telling.log.count("request refused")
    sent = {TARGET: "shop.tar.gz", ID: "i-1", **way}
    body = json.dumps(infer([1])).encode()
    assert values(telling.invoke("m", body, **sent)) == [1]
    assert telling.invoke("m", b"{", **sent).status_code == 400
    assert telling.invoke("none", body, **sent).status_code == 404
    give_up(telling, way)
    until(lambda: len(told(telling)) >= before + 4, "each has its line", telling)
    answered, refused, unknown, left = told(telling)[before:]
    assert telling.log.count("request refused") == refusals + 2
    assert answered["message"] == "request answered"
    assert (answered["model_name"], answered["target_model"]) == ("m", "shop.tar.gz")
    assert (answered["inference_id"], answered["status"]) == ("i-1", 200)
    assert answered["cold"] is False
    assert answered["request_bytes"] == len(body)
    assert 0 < answered["triton_ms"] < answered["ms"]
    assert answered["answer_bytes"] > 0
    assert (refused["status"], refused["level"]) == (400, "INFO")
    assert refused["message"] == "request refused"
    assert refused["sentence"].startswith("the body: found no JSON")
    assert (unknown["model_name"], unknown["status"]) == ("none", 404)
    assert (left["message"], left["status"]) == ("the caller left", 499)


def give_up(container: Container, way: dict[str, str]) -> None:
    """Begin an invocation whose body never comes to its end."""
    with socket.create_connection(("127.0.0.1", container.port)) as caller:
        head = "".join(f"{name}: {value}\r\n" for name, value in way.items())
        begun = f"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\n{head}content-length: 9\r\n\r\n{{"
        caller.sendall(begun.encode())
        if way:
            assert caller.recv(100).startswith(b"HTTP/1.1 100")


def test_only_errors_by_default(tmp_path: Path) -> None:
    with running(tmp_path, **fake_environment(tmp_path), SERVE_LOG_FORMAT="json") as container:
        assert container.invoke("none", b"{}").status_code == 404
        until(lambda: told(container), "the refusal has a line", container)
        (line,) = told(container)
    assert (line["status"], line["model_name"]) == (404, "none")
