"""One trace from the caller through the container to tritonserver's own spans.

The receiver is of OpenTelemetry's own protocol. The caller is SageMaker's, or one beside it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator

import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import Container, running
from tests.support.otlp_receiver import Receiver, receiving
from tests.support.protocol import infer, values
from tests.support.quick_container import told

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
    """Where the caller keeps his; what he does not keep nobody keeps."""
    unkept, trace_id = secrets.token_hex(16), secrets.token_hex(16)
    not_sampled = f"00-{unkept}-{CALLER}-00"
    assert values(traced.invoke("sum", infer([1]), traceparent=not_sampled)) == [4.0]
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
    attributes = {**invocation.attributes}
    assert attributes.pop("http.response.body.size") > 0
    assert attributes.pop("http.request.body.size") > 0
    assert attributes == {
        "model_name": "sum",
        "target_model": target,
        "cold": False,
        "http.request.method": "POST",
        "http.response.status_code": 200,
    }
    assert receiver.of_trace(unkept) == []


def test_a_slow_receiver_holds_up_neither_requests_nor_the_stop(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """tritonserver's own end takes 2 s and more; its exporter would wait for 10 s."""
    with receiving(held=threading.Event()) as slow:
        patient = told(Constants(triton_stop_timeout_s=9))
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": slow.url, **patient}
        with running(tmp_path_factory.mktemp("slow"), **environment) as container:
            archive = models.sums(container.model_root / "a/model", [1])
            assert container.load("sum", archive).status_code == 200
            for _ in range(100):
                assert container.invoke("sum", infer([1])).status_code == 200
            assert slow.answers == 0
            container.process.terminate()
            assert container.wait() == 0
            assert "tritonserver is killed" not in container.log
