"""One trace from the caller through the container to tritonserver's own spans, and loads as traces.

The receiver is of OpenTelemetry's own protocol. The caller is SageMaker's, or one beside it.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support import models
from tests.support.container import TRITON_2_36, Container, running
from tests.support.otlp_receiver import Receiver, Span, receiving
from tests.support.protocol import infer, values

pytestmark = pytest.mark.tritonserver

CALLER = "00f067aa0ba902b7"
#: Two clocks are read one after the other for a span's times; others may run between, in ns.
BETWEEN_NS = 1_000_000
#: Else a test waits for the exporters' five seconds.
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
OURS = {"invocation", "translating", "tritonserver"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def traced(receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container with traces on, and a sum of three models loaded in it."""
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **SOON}
    with (
        running(tmp_path_factory.mktemp("traced"), **environment) as container,
        container.loaded("sum", models.sums(container.model_root / "a/model", [1, 2])),
    ):
        yield container


def test_one_trace_from_the_caller_to_tritonservers_own_spans(
    receiver: Receiver, traced: Container
) -> None:
    trace_id = secrets.token_hex(16)
    parent, target = f"00-{trace_id}-{CALLER}-01", "sum.tar.gz"
    headers = {"X-Amzn-SageMaker-Target-Model": target, "tracestate": "vendor=1"}
    before_ns = time.time_ns()
    assert values(traced.invoke("sum", infer([1]), traceparent=parent, **headers)) == [4.0]
    after_ns = time.time_ns()
    spans = receiver.until({*OURS, "InferRequest", "sum", "sum.add0", "sum.add1"}, trace_id)
    assert f"traces are on endpoint={receiver.url}/v1/traces" in traced.log
    by_name = {span.name: span for span in spans}
    invocation, sent = by_name["invocation"], by_name["tritonserver"]
    assert invocation.parent_id == CALLER
    assert {by_name["translating"].parent_id, sent.parent_id} == {invocation.span_id}
    assert by_name["InferRequest"].parent_id == sent.span_id
    assert by_name["sum"].parent_id == by_name["InferRequest"].span_id
    assert by_name["sum.add1"].parent_id == by_name["sum"].span_id
    assert {span.service for span in spans} == {"merlin-sagemaker", "triton-inference-server"}
    assert before_ns - BETWEEN_NS <= invocation.began_ns <= sent.began_ns
    assert sent.ended_ns <= invocation.ended_ns <= after_ns + BETWEEN_NS
    # tritonserver's own end after its answer, which may be read by then: where they begin counts.
    assert sent.began_ns - BETWEEN_NS <= by_name["sum"].began_ns
    assert by_name["sum.add0"].began_ns <= by_name["sum.add1"].began_ns
    assert by_name["sum.add1"].began_ns <= sent.ended_ns + BETWEEN_NS
    told = {**invocation.attributes}
    assert told.pop("http.response.body.size") > 0
    assert told.pop("http.request.body.size") > 0
    assert told == {
        "model_name": "sum",
        "target_model": target,
        "cold": False,
        "http.request.method": "POST",
        "http.response.status_code": 200,
    }


def test_the_context_comes_through_sagemakers_one_header(
    receiver: Receiver, traced: Container
) -> None:
    trace_id = secrets.token_hex(16)
    attributes = f"tenant=7;traceparent=00-{trace_id}-{CALLER}-01"
    answer = traced.invoke(
        "sum", infer([1]), X_Amzn_SageMaker_Custom_Attributes=attributes, traceparent="garbage"
    )
    assert values(answer) == [4.0]
    spans = receiver.until({"invocation", "InferRequest"}, trace_id)
    assert _one(spans, "invocation").parent_id == CALLER


def test_an_invocation_without_a_caller_begins_a_trace(
    receiver: Receiver, traced: Container
) -> None:
    count = len(receiver.spans)
    assert traced.invoke("sum", b"{}").status_code == 400
    invocation = _next(receiver, "invocation", count)
    assert invocation.parent_id == ""
    assert invocation.attributes["http.response.status_code"] == 400
    assert "inputs" in invocation.attributes["error.message"]
    assert invocation.status == ""  # the caller's mistake, not this service's


def test_what_a_caller_does_not_keep_nobody_keeps(receiver: Receiver, traced: Container) -> None:
    unkept, kept = secrets.token_hex(16), secrets.token_hex(16)
    for trace_id, flags in ((unkept, "00"), (kept, "01")):
        traceparent = f"00-{trace_id}-{CALLER}-{flags}"
        assert values(traced.invoke("sum", infer([1]), traceparent=traceparent)) == [4.0]
    receiver.until({"invocation", "InferRequest"}, kept)
    assert receiver.of_trace(unkept) == []


def test_a_load_is_a_trace_of_its_stages_and_an_unload_is_one(
    receiver: Receiver, traced: Container
) -> None:
    _next(receiver, "load", 0)  # the fixture's
    count = len(receiver.spans)
    with traced.loaded("two", models.sums(traced.model_root / "two/model", [1])):
        load = _next(receiver, "load", count)
    stages = {"read", "decide", "room", "publish", "tritonserver"}
    spans = receiver.until({"load", *stages}, load.trace_id)
    assert load.attributes == {"model_name": "two", "target_model": "", "result": "loaded"}
    assert {span.name for span in spans if span.parent_id == load.span_id} == stages
    assert sum(_one(spans, stage).seconds for stage in stages) <= load.seconds
    assert _next(receiver, "unload", count).attributes == {"model_name": "two"}


def test_a_load_that_failed_says_why(receiver: Receiver, traced: Container) -> None:
    count = len(receiver.spans)
    assert traced.load("none", traced.model_root / "nothing").status_code == 400
    load = _next(receiver, "load", count)
    assert load.status == "STATUS_CODE_ERROR"
    assert "nothing" in load.sentence
    assert load.attributes["result"] == "refused"


def test_a_revival_is_a_trace_and_its_invocation_is_cold(
    receiver: Receiver, traced: Container
) -> None:
    count = len(receiver.spans)
    (stub,) = traced.stubs("sum.add1")
    os.kill(stub, signal.SIGKILL)
    assert values(traced.invoke("sum", infer([1]))) == [4.0]
    assert _next(receiver, "invocation", count).attributes["cold"] is True
    revival = _next(receiver, "revival", count)
    assert revival.attributes == {"model_name": "sum", "cause": "stub", "result": "revived"}
    assert 0 < revival.seconds < _next(receiver, "tritonserver", count).seconds


def test_through_asgi_alike(receiver: Receiver, traced: Container) -> None:
    trace_id = secrets.token_hex(16)
    headers = {"traceparent": f"00-{trace_id}-{CALLER}-01"}
    answer = traced.http.post("/models/%73um/invoke", json=infer([1]), headers=headers)
    assert values(answer) == [4.0]
    spans = receiver.until({*OURS, "InferRequest"}, trace_id)
    assert _one(spans, "InferRequest").parent_id == _one(spans, "tritonserver").span_id
    assert len([span for span in spans if span.service == "merlin-sagemaker"]) == len(OURS)


def test_a_tritonserver_that_knows_no_context_is_asked_for_none(
    receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace_id = secrets.token_hex(16)
    environment = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.url}/v1/traces",
        "OTEL_SERVICE_NAME": "ours",
        "SERVE_TRITON_SERVER": str(TRITON_2_36),
        **SOON,
    }
    with running(tmp_path_factory.mktemp("old"), **environment) as container:
        archive = models.sums(container.model_root / "a/model", [1])
        with container.loaded("sum", archive):
            traceparent = f"00-{trace_id}-{CALLER}-01"
            assert values(container.invoke("sum", infer([1]), traceparent=traceparent)) == [2.0]
    assert {span.name for span in receiver.until(OURS, trace_id)} == OURS
    assert {span.service for span in receiver.of_trace(trace_id)} == {"ours"}


def test_a_slow_receiver_holds_up_neither_requests_nor_the_stop(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """tritonserver's own end takes 2 s and more; its exporter would take the 6 s it gets."""
    with receiving(held=threading.Event()) as slow:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": slow.url}
        with running(tmp_path_factory.mktemp("slow"), **environment) as container:
            archive = models.sums(container.model_root / "a/model", [1])
            assert container.load("sum", archive).status_code == 200
            for _ in range(100):
                assert container.invoke("sum", infer([1])).status_code == 200
            assert slow.answers == 0
            container.process.terminate()
            assert container.wait() == 0
            assert "tritonserver is killed" not in container.log


def _one(spans: list[Span], name: str) -> Span:
    (found,) = [span for span in spans if span.name == name]
    return found


def _next(receiver: Receiver, name: str, after: int, timeout_s: float = 60.0) -> Span:
    """The first span of the name that came after so many."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := [span for span in receiver.spans[after:] if span.name == name]:
            return found[0]
        assert time.monotonic() < deadline, f"never: {name}"
        time.sleep(0.02)
