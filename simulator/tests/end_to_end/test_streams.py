"""InvokeEndpointWithResponseStream through the whole simulator, down to a container's parts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import EventStreamError

from merlin_simulator.rules import Rules
from simulator.tests.end_to_end.runtime_server import WAIT_S, FakeEndpoint, serving
from simulator.tests.support.simulator import (
    ENDPOINT,
    Simulator,
    fake_model,
    make_room_for,
    simulator,
)
from tests.support.container import until

PATH = f"/endpoints/{ENDPOINT}/invocations-response-stream"
TARGET = "X-Amzn-SageMaker-Target-Model"
#: A reader of the test has left or looked long before this is over.
NEVER_S = 600
PARTS = ["one", "two", "three"]


def _events(played: Simulator, target: str) -> Iterator[dict[str, Any]]:
    """What boto3 reads of a stream; its call has no TargetModel, so the header is added."""
    client = played.boto3_client(retries={"total_max_attempts": 1})

    def add_target(params: dict[str, Any], **_: object) -> None:
        params["headers"][TARGET] = target

    operation = "sagemaker-runtime.InvokeEndpointWithResponseStream"
    client.meta.events.register(f"before-call.{operation}", add_target)
    with closing(client):
        answer = client.invoke_endpoint_with_response_stream(EndpointName=ENDPOINT, Body=b"{}")
        assert answer["CustomAttributes"] == "seen"
        with closing(answer["Body"]) as events:
            yield from events


def _text(events: Iterator[dict[str, Any]]) -> str:
    return b"".join(event["PayloadPart"]["Bytes"] for event in events).decode()


@contextmanager
def _raw(played: Simulator, target: str) -> Iterator[httpx.Response]:
    with played.http.stream("POST", PATH, content=b"{}", headers={TARGET: target}) as answer:
        yield answer


def _endings(played: Simulator) -> list[tuple[str, str, Any]]:
    kinds = ("invoked", "invocation_failed")
    return [(e["kind"], e["target_model"], e.get("error")) for e in played.kinds(*kinds)]


def test_the_parts_of_a_cold_model_come_one_by_one(tmp_path: Path) -> None:
    """The model is loaded first; each part is here before the next is made; one event at the end.

    The first part is read while the container, told to take minutes for the next, is still asked.
    """
    fake_model(tmp_path / "models", "s.tar.gz", parts=PARTS, part_seconds=0.2)
    fake_model(tmp_path / "models", "slow.tar.gz", parts=PARTS, part_seconds=NEVER_S)
    with simulator(tmp_path / "models", tmp_path / "log") as played:
        assert _text(_events(played, "s.tar.gz")) == "onetwothree"
        (ending,) = played.kinds("invoked", "invocation_failed")
        assert (ending["kind"], ending["cold"]) == ("invoked", True)
        assert ending["seconds"] > 0.4  # to the last part, not to the first
        (loaded,) = played.kinds("loaded")
        assert loaded["sequence"] < ending["sequence"]
        assert next(_events(played, "slow.tar.gz")) == {"PayloadPart": {"Bytes": b"one"}}


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_break_in_mid_stream_is_an_error_in_the_stream(after: int, tmp_path: Path) -> None:
    """What came before it is read; then ModelStreamError, and one failed invocation is told."""
    fake_model(tmp_path / "models", "s.tar.gz", parts=PARTS, part_seconds=0.1, breaks_after=after)
    with simulator(tmp_path / "models", tmp_path / "log") as played:
        seen: list[bytes] = []
        with pytest.raises(EventStreamError, match="ModelStreamError"):
            seen.extend(event["PayloadPart"]["Bytes"] for event in _events(played, "s.tar.gz"))
        assert b"".join(seen).decode() == "".join(PARTS[:after])
        assert _endings(played) == [("invocation_failed", "s.tar.gz", "ModelError")]


def test_a_reader_that_leaves_frees_the_model(tmp_path: Path) -> None:
    """A model with an open stream is not unloaded; once its reader has left, it is."""
    fake_model(tmp_path / "models", "s.tar.gz", parts=PARTS, part_seconds=NEVER_S)
    fake_model(tmp_path / "models", "b.tar.gz")
    options = ("--cold-wait", "0.5")
    with simulator(
        tmp_path / "models", tmp_path / "log", *options, container=make_room_for(1)
    ) as played:
        with ExitStack() as reader:
            answers: list[httpx.Response] = []

            def begins() -> bool:
                answers.append(reader.enter_context(_raw(played, "s.tar.gz")))
                return answers[-1].status_code == 200

            # On a busy machine its load may take longer than callers wait.
            until(begins, "its parts come")
            parts = answers[-1].iter_raw()
            assert b"one" in next(parts)
            assert played.invoke("b.tar.gz").headers["x-amzn-errortype"] == (
                "ModelNotReadyException"
            )
            assert played.states()["s.tar.gz"] == "loaded"
        until(lambda: played.invoke("b.tar.gz").status_code == 200, "b has the room")
        assert played.states()["s.tar.gz"] == "on disk"
        assert _endings(played).count(("invoked", "s.tar.gz", None)) == 1
        assert played.instance()["in_flight"] == 0


def test_an_answer_without_memory_or_model_before_a_stream(tmp_path: Path) -> None:
    """507 unloads another model, 404 of a lost one loads it again; the caller sees neither."""
    fake_model(tmp_path / "models", "a.tar.gz")
    fake_model(tmp_path / "models", "s.tar.gz", parts=PARTS, needs_alone=True)
    # Between two polls nobody else finds out that the model is lost.
    options = ("--ping-every", "60")
    with simulator(tmp_path / "models", tmp_path / "log", *options) as played:
        assert played.invoke("a.tar.gz").status_code == 200
        assert _text(_events(played, "s.tar.gz")) == "onetwothree"
        assert [event["target_model"] for event in played.kinds("unloaded")] == ["a.tar.gz"]
        played.http.post(f"{played.instance()['url']}/fake/forget")
        assert _text(_events(played, "s.tar.gz")) == "onetwothree"
        assert [event["target_model"] for event in played.kinds("lost")] == ["s.tar.gz"]
        assert _endings(played)[1:] == [("invoked", "s.tar.gz", None)] * 2


def test_a_stream_that_cannot_begin_is_refused_as_a_whole_answer(tmp_path: Path) -> None:
    """Before the first part an error is a plain HTTP answer, and one event."""
    fake_model(tmp_path / "models", "s.tar.gz", parts=PARTS)
    with simulator(tmp_path / "models", tmp_path / "log", container=make_room_for(0)) as played:
        with _raw(played, "s.tar.gz") as answer:
            answer.read()
        assert (answer.status_code, answer.json()["OriginalStatusCode"]) == (424, 507)
        with _raw(played, "absent.tar.gz") as answer:
            answer.read()
        assert answer.headers["x-amzn-errortype"] == "ValidationError"
        assert _endings(played) == [
            ("invocation_failed", "s.tar.gz", "ModelError"),
            ("invocation_failed", "absent.tar.gz", "ValidationError"),
        ]


def test_a_reader_that_stops_reading_is_left() -> None:
    """It keeps its connection, but takes nothing for as long as the rule says: the parts end.

    They are more than the buffers between hold, and the endpoint holds the end back.
    """
    endpoint = FakeEndpoint(parts=[b"x" * 2**20] * 256, held=True)
    with serving(endpoint, replace(Rules(), stream_stall_s=0.3)) as served:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", served.port))
            path = f"/endpoints/{endpoint.endpoint_name}/invocations-response-stream"
            connection.sendall(
                f"POST {path} HTTP/1.1\r\nHost: x\r\n{TARGET}: a\r\n".encode()
                + b"Content-Length: 0\r\n\r\n"
            )
            assert endpoint.closed.wait(WAIT_S)
        until(
            lambda: any("took nothing for 0.3 s" in it.getMessage() for it in served.logged),
            "it is told",
        )
