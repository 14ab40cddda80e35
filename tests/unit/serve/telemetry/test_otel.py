"""Spans out of records, sent to a receiver of OpenTelemetry's protocol, good or bad."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from container import __version__
from serve.telemetry.invocation_record import InvocationRecord
from serve.telemetry.load_record import LoadRecord, Stage
from serve.telemetry.otel import OtelTracer, make_tracer
from tests.support.otlp_receiver import Receiver, Span, receiving
from tests.unit.container.conftest import until

#: Longer than a test: spans are sent by close.
LATER_MS = "60000"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", LATER_MS)
    with receiving() as receiver:
        yield receiver


def tracer_of(receiver: Receiver) -> OtelTracer:
    tracer = make_tracer(f"{receiver.url}/v1/traces", __version__)
    assert tracer is not None
    return tracer


async def sent(tracer: OtelTracer, receiver: Receiver) -> dict[str, Span]:
    """What the tracer has sent at its end, by name."""
    await asyncio.sleep(0)
    await tracer.close(60)
    return {span.name: span for span in receiver.spans}


def ended(record: InvocationRecord) -> InvocationRecord:
    """One that took four seconds: one waiting, half translating, one tritonserver, half again."""
    record.status, record.seconds = 200, 4.0
    record.waiting_s, record.translating_s = 1.0, 1.0
    record.triton_began, record.triton_s = record.began + 1.5, 1.0
    return record


async def test_an_invocations_parts(receiver: Receiver) -> None:
    tracer = tracer_of(receiver)
    sent_by_caller = [
        (b"a", b"1"),
        (b"x-amzn-sagemaker-target-model", b"m.tar.gz"),
        (b"x-amzn-sagemaker-inference-id", b"i"),
    ]
    record = InvocationRecord("m", began=time.monotonic() - 4, headers=sent_by_caller)
    headers = tracer.begin(record, sent_by_caller)
    tracer.invoked(ended(record))
    spans = await sent(tracer, receiver)
    whole = spans.pop("invocation")
    parts = {
        name: (round((span.began_ns - whole.began_ns) / 1e9, 3), round(span.seconds, 3))
        for name, span in spans.items()
    }
    assert parts == {
        "waiting": (0.0, 1.0),
        "translating": (1.0, 0.5),
        "tritonserver": (1.5, 1.0),
        "translating the answer": (2.5, 0.5),
    }
    assert {span.parent_id for span in spans.values()} == {whole.span_id}
    assert abs(whole.ended_ns - time.time_ns()) < 1e9
    told = dict(headers)[b"traceparent"].decode().split("-")
    assert told[1:3] == [record.trace_id, spans["tritonserver"].span_id]
    assert (whole.trace_id, whole.parent_id) == (record.trace_id, "")
    assert (whole.attributes["target_model"], whole.attributes["inference_id"]) == (
        "m.tar.gz",
        "i",
    )


async def test_what_went_wrong(receiver: Receiver) -> None:
    """A sentence, cut; ours is an error, a caller's is not. Nothing was sent to tritonserver."""
    tracer = tracer_of(receiver)
    for status in (400, 502):
        record = InvocationRecord(str(status), began=time.monotonic())
        tracer.begin(record, [])
        record.status, record.seconds, record.sentence = status, 0.1, "x" * 5000
        tracer.invoked(record)
    await sent(tracer, receiver)
    callers, ours = sorted(receiver.spans, key=lambda span: str(span.attributes["model_name"]))
    assert (callers.status, ours.status) == ("", "STATUS_CODE_ERROR")
    assert len(callers.attributes["error.message"]) == len(ours.sentence) == 1024


@pytest.mark.parametrize(("flags", "keeps"), [("01", True), ("00", False)])
async def test_the_caller_decides(receiver: Receiver, flags: str, keeps: bool) -> None:
    tracer = tracer_of(receiver)
    record = InvocationRecord("m", began=time.monotonic())
    context = (b"traceparent", f"00-{TRACE}-{SPAN}-{flags}".encode())
    onward = tracer.begin(record, [context, (b"tracestate", b"a=1")])
    assert record.trace_id == TRACE
    assert [name for name, _ in onward] == ([b"traceparent", b"tracestate"] if keeps else [])
    assert context not in onward
    tracer.invoked(ended(record))
    assert bool(await sent(tracer, receiver)) == keeps


async def test_the_sampler_of_the_environment(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    tracer = tracer_of(receiver)
    record = InvocationRecord("m", began=time.monotonic())
    assert tracer.begin(record, []) == []
    assert len(record.trace_id) == 32
    tracer.invoked(ended(record))
    tracer.loaded(LoadRecord("m"))
    assert not await sent(tracer, receiver)


async def test_a_load_and_what_is_told_of(receiver: Receiver) -> None:
    """tables are a part of publish, though they are noted before it."""
    tracer = tracer_of(receiver)
    began = time.monotonic() - 10
    stages = [Stage("read", began, 1.0), Stage("tables", began + 3, 1.0)]
    stages.append(Stage("publish", began + 2, 3.0))
    record = LoadRecord("m", "m.tar.gz", began, 10.0, stages, "failed", "why")
    tracer.loaded(record)
    tracer.told("revival", "m", began, "", cause="stub", result="revived")
    spans = await sent(tracer, receiver)
    load = spans["load"]
    assert (load.status, load.sentence, round(load.seconds, 3)) == ("STATUS_CODE_ERROR", "why", 10)
    assert spans["tables"].parent_id == spans["publish"].span_id
    assert spans["read"].parent_id == spans["publish"].parent_id == load.span_id
    assert spans["revival"].attributes == {"model_name": "m", "cause": "stub", "result": "revived"}
    assert round(spans["revival"].seconds) == 10
    assert spans["revival"].trace_id != load.trace_id


@pytest.mark.parametrize(
    ("name", "given", "service"),
    [
        ("OTEL_SERVICE_NAME", "", "merlin-sagemaker"),
        ("OTEL_SERVICE_NAME", "mine", "mine"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=theirs", "theirs"),
    ],
)
async def test_the_services_name(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, name: str, given: str, service: str
) -> None:
    monkeypatch.setenv(name, given)
    tracer = tracer_of(receiver)
    tracer.told("unload", "m", time.monotonic(), "")
    assert (await sent(tracer, receiver))["unload"].service == service


@pytest.mark.parametrize(
    "knobs", [{"held": threading.Event()}, {"status": 503}], ids=["slow", "refuses"]
)
async def test_a_bad_receiver(
    knobs: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither telling nor the end waits for it, nor is more tried; the loss is said once."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    caplog.set_level(logging.WARNING)
    with receiving(**knobs) as receiver:
        tracer = tracer_of(receiver)
        for _ in range(1000):
            tracer.told("unload", "m", time.monotonic(), "")
        await tracer.close(0.2)
        if receiver.held is not None:
            assert receiver.answers == 0
            receiver.held.set()
    await until(lambda: "traces" not in [thread.name for thread in threading.enumerate()])
    own = [record for record in caplog.records if record.name == "serve.telemetry.otel"]
    said = [record.getMessage() for record in own]
    assert len(said) == len(set(said)), said
    assert any(words.startswith("traces (said once, though it may come again): ") for words in said)
    assert "the last spans could not be sent in 0.2 s" in said


def test_a_variable_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The container serves without traces, and says why."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    assert make_tracer("http://127.0.0.1:9/v1/traces", __version__) is None
    assert "there will be no traces" in caplog.text


def test_the_sdks_words_are_said_once(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """However often and with whatever numbers in them; others of its words are said, too."""
    tracer_of(receiver)
    theirs = logging.getLogger("opentelemetry.a.b")
    for number in range(3):
        theirs.warning("retrying in %d", number)
    theirs.error("another")
    own = [record for record in caplog.records if record.name == "serve.telemetry.otel"]
    assert [record.getMessage() for record in own] == [
        "traces (said once, though it may come again): retrying in 0",
        "traces (said once, though it may come again): another",
    ]
