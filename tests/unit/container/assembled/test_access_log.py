"""One line of the log for an invocation, whichever way it goes through the container."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import models
from tests.support.container import until
from tests.support.protocol import infer, values
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

TARGET, ID = "X-Amzn-SageMaker-Target-Model", "X-Amzn-SageMaker-Inference-Id"
#: uvicorn's usual way, not the short one: they wait for `100 Continue`.
USUAL = {"Expect": "100-continue"}
#: More than what is told is rounded by.
TRITON_S = 0.01


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerOnFake]:
    """One that tells of every invocation, with the model `m`."""
    knobs: dict[str, object] = {"infer": {"m": {"delay_s": TRITON_S}}}
    with container_on_fake(
        tmp_path_factory.mktemp("telling"), knobs, SERVE_ACCESS_LOG="all"
    ) as found:
        written = models.write_archive(found.model_root / "m/model", {"m": models.identity})
        assert found.load("m", written, **{TARGET: "shop.tar.gz"}).status_code == 200
        yield found


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of each line."""
    lines = (record for record in caplog.records if record.name == "serve.access")
    return [{**vars(line), "message": line.getMessage()} for line in lines]


@pytest.mark.parametrize("way", [{}, USUAL], ids=["short", "usual"])
def test_every_invocation_has_a_line(
    endpoint: ContainerOnFake, way: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Answered, refused, of a model that is not there, given up by its caller: one each."""
    caplog.set_level(logging.INFO)
    sent = {TARGET: "shop.tar.gz", ID: "i-1", **way}
    body = json.dumps(infer([1])).encode()
    assert values(endpoint.invoke("m", body, **sent)) == [1]
    assert endpoint.invoke("m", b"{", **sent).status_code == 400
    assert endpoint.invoke("none", body, **sent).status_code == 404
    give_up(endpoint, way)
    until(lambda: len(told(caplog)) == 4, "each has its line")
    answered, refused, unknown, left = told(caplog)
    said = [record for record in caplog.records if "request refused" in record.getMessage()]
    assert len(said) == 2
    assert answered["message"] == "request answered"
    assert (answered["model_name"], answered["target_model"]) == ("m", "shop.tar.gz")
    assert (answered["inference_id"], answered["status"]) == ("i-1", 200)
    assert answered["cold"] is False
    assert answered["request_bytes"] == len(body)
    assert 0 < answered["triton_ms"] < answered["ms"]
    assert answered["answer_bytes"] > 0
    assert (refused["status"], refused["levelname"]) == (400, "INFO")
    assert refused["message"] == "request refused"
    assert refused["sentence"].startswith("the body: found no JSON")
    assert (unknown["model_name"], unknown["status"]) == ("none", 404)
    assert (left["message"], left["status"]) == ("the caller left", 499)


def give_up(endpoint: ContainerOnFake, way: dict[str, str]) -> None:
    """Begin an invocation whose body never comes to its end."""
    with socket.create_connection(("127.0.0.1", endpoint.port)) as caller:
        head = "".join(f"{name}: {value}\r\n" for name, value in way.items())
        begun = f"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\n{head}content-length: 9\r\n\r\n{{"
        caller.sendall(begun.encode())
        if way:
            assert caller.recv(100).startswith(b"HTTP/1.1 100")


def test_only_errors_by_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with container_on_fake(tmp_path) as endpoint:
        written = models.write_archive(endpoint.model_root / "m/model", {"m": models.identity})
        with endpoint.loaded("m", written):
            assert values(endpoint.invoke("m", infer([1]))) == [1]
        assert endpoint.invoke("none", b"{}").status_code == 404
        until(lambda: told(caplog), "the refusal has a line")
    (line,) = told(caplog)
    assert (line["status"], line["model_name"]) == (404, "none")
