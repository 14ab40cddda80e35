"""Traces of all parts joined: of invocations, loads and revivals, and the context that goes on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest

from tests.support import models
from tests.support.otlp_receiver import Receiver, Span, receiving
from tests.support.protocol import infer, values
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

CALLER = "00f067aa0ba902b7"
OURS = {"invocation", "translating", "tritonserver"}
#: A stub of the model `dying` is dead at its first request.
DEAD = {"status": 500, "message": "Stub process 'dying_0_0' is not healthy.", "times": 1}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def traced(
    receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerOnFake]:
    """An endpoint with traces on, the models sum and dying loaded in it."""
    directory, url = tmp_path_factory.mktemp("traced"), f"{receiver.url}/v1/traces"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")  # else a test waits for five seconds
        with container_on_fake(directory, {"infer": {"dying": DEAD}}, None, url) as endpoint:
            archive = models.sums(endpoint.model_root / "a/model", [1, 2])
            with endpoint.loaded("sum", archive), endpoint.loaded("dying", archive):
                yield endpoint


def next_span(receiver: Receiver, name: str, after: int) -> Span:
    """The first span of the name that came after so many."""
    deadline = time.monotonic() + 60
    while True:
        if found := [span for span in receiver.spans[after:] if span.name == name]:
            return found[0]
        assert time.monotonic() < deadline, f"never: {name}"
        time.sleep(0.02)


@pytest.mark.parametrize("path", ["/models/sum/invoke", "/models/%73um/invoke"])
@pytest.mark.parametrize("header", ["traceparent", "X-Amzn-SageMaker-Custom-Attributes"])
def test_a_callers_context(
    path: str, header: str, receiver: Receiver, traced: ContainerOnFake
) -> None:
    """In a header of its own or SageMaker's: ours is the caller's child, tritonserver's is ours,
    whichever way the request takes."""
    trace_id = secrets.token_hex(16)
    context = f"00-{trace_id}-{CALLER}-01"
    headers = {"traceparent": "garbage", "X-Amzn-SageMaker-Target-Model": "sum.tar.gz"}
    headers[header] = context if header == "traceparent" else f"tenant=7;traceparent={context}"
    answer = traced.http.post(path, json=infer([1]), headers=headers)
    assert values(answer) == [4.0]
    spans = receiver.until(OURS, trace_id)
    by_name = {span.name: span for span in spans}
    assert set(by_name) == OURS
    assert len(spans) == len(OURS)
    invocation, sent = by_name["invocation"], by_name["tritonserver"]
    assert invocation.parent_id == CALLER
    assert {by_name["translating"].parent_id, sent.parent_id} == {invocation.span_id}
    assert invocation.attributes["target_model"] == "sum.tar.gz"
    onward = traced.asked("infer")[-1]["headers"]
    assert isinstance(onward, dict)
    assert onward["traceparent"] == f"00-{trace_id}-{sent.span_id}-01"


def test_an_invocation_without_a_caller_begins_a_trace(
    receiver: Receiver, traced: ContainerOnFake
) -> None:
    count = len(receiver.spans)
    assert traced.invoke("sum", b"{}").status_code == 400
    invocation = next_span(receiver, "invocation", count)
    assert invocation.parent_id == ""
    assert invocation.attributes["http.response.status_code"] == 400
    assert "inputs" in invocation.attributes["error.message"]
    assert invocation.status == ""  # the caller's mistake, not this service's


def test_a_load_is_a_trace_of_its_stages_and_an_unload_is_one(
    receiver: Receiver, traced: ContainerOnFake
) -> None:
    for _ in ("sum", "dying"):
        next_span(receiver, "load", 0)
    count = len(receiver.spans)
    with traced.loaded("two", models.sums(traced.model_root / "two/model", [1])):
        load = next_span(receiver, "load", count)
    stages = {"read", "decide", "room", "publish", "tritonserver"}
    spans = receiver.until({"load", *stages}, load.trace_id)
    assert load.attributes == {"model_name": "two", "target_model": "", "result": "loaded"}
    of_stages = [span for span in spans if span.parent_id == load.span_id]
    assert {span.name for span in of_stages} == stages
    assert sum(span.seconds for span in of_stages) <= load.seconds
    unload = next_span(receiver, "unload", count)
    assert unload.attributes == {"model_name": "two"}


def test_a_load_that_failed_says_why(receiver: Receiver, traced: ContainerOnFake) -> None:
    count = len(receiver.spans)
    assert traced.load("none", traced.model_root / "nothing").status_code == 400
    load = next_span(receiver, "load", count)
    assert load.status == "STATUS_CODE_ERROR"
    assert "nothing" in load.sentence
    assert load.attributes["result"] == "refused"


def test_a_revival_is_a_trace_and_its_invocation_is_cold(
    receiver: Receiver, traced: ContainerOnFake
) -> None:
    count = len(receiver.spans)
    assert values(traced.invoke("dying", infer([1]))) == [4.0]
    assert next_span(receiver, "invocation", count).attributes["cold"] is True
    revival = next_span(receiver, "revival", count)
    assert revival.attributes == {"model_name": "dying", "cause": "stub", "result": "revived"}
    assert 0 < revival.seconds < next_span(receiver, "tritonserver", count).seconds
