"""Spans of invocations and loads by OpenTelemetry's SDK; imported only where traces are on.

A span is made when what it tells of has ended, out of the record's numbers and after the answer was
written. Only an invocation's own is begun with it: its ids go on to tritonserver. Spans wait in a
bounded queue, which a thread of the SDK's empties; what does not fit is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, StatusCode, TraceState
from opentelemetry.util.types import AttributeValue

from serve.telemetry.invocation_record import InvocationRecord, read_inference_id, target_model
from serve.telemetry.load_record import LoadRecord
from serve.telemetry.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    read_context,
    remove_context,
    write_traceparent,
)
from serve.threads import run_in_daemon_thread

_log = logging.getLogger(__name__)
Headers = list[tuple[bytes, bytes]]
SERVICE = "merlin-sagemaker"
#: Characters of a sentence that a span holds.
_LONGEST_SENTENCE = 1024
#: Different messages of the SDK that are logged, each once.
_MOST_MESSAGES = 20
_NS = 1_000_000_000
_SAMPLED = trace.TraceFlags.SAMPLED


def make_tracer(endpoint: str, version: str) -> OtelTracer | None:
    """The tracer; None, and a line in the log, where the SDK cannot be set up.

    Everything but the endpoint the SDK reads from the environment: sampler, queue, headers.
    """
    _hear_once(logging.getLogger("opentelemetry"))
    try:
        ids = _Ids()
        # Neither the global provider, which FastAPI would make spans for, nor an end of its own.
        provider = TracerProvider(
            resource=_make_resource(version), id_generator=ids, shutdown_on_exit=False
        )
        exporter = OTLPSpanExporter(endpoint)
        provider.add_span_processor(BatchSpanProcessor(exporter))
    except Exception as error:  # a variable that it cannot read, no thread to be had
        _log.error("there will be no traces: %s", error or type(error).__name__)
        return None
    return OtelTracer(provider, exporter, ids)


@dataclass(slots=True)
class _Begun:
    """An invocation's span, the id of the one that tells of tritonserver, and the clocks' gap."""

    span: Span
    triton_id: int
    shift_ns: int


class OtelTracer:
    """Makes spans of records, in the event loop's thread. Nothing of it raises, waits or blocks."""

    def __init__(self, provider: TracerProvider, exporter: OTLPSpanExporter, ids: _Ids) -> None:
        self._provider, self._exporter, self._ids = provider, exporter, ids
        self._tracer = provider.get_tracer("merlin-sagemaker")

    def begin(self, record: InvocationRecord, headers: Headers) -> Headers:
        """Begin the invocation's span, below its caller's; the headers for tritonserver.

        Fills record.trace_id, and record.trace with what it needs at the end.
        """
        shift_ns = _shift_ns()
        span = self._tracer.start_span(
            "invocation",
            _read_parent(headers),
            SpanKind.SERVER,
            start_time=_to_ns(record.began) + shift_ns,
        )
        if not record.target_model:
            record.target_model = target_model(headers)
        context = span.get_span_context()
        begun = _Begun(span, self._ids.generate_span_id(), shift_ns)
        record.trace, record.trace_id = begun, f"{context.trace_id:032x}"
        onward = remove_context(headers)
        if context.trace_flags & _SAMPLED:  # tritonserver traces whatever bears a context
            parent = write_traceparent(context.trace_id, begun.triton_id, context.trace_flags)
            onward.append((TRACEPARENT, parent))
            if context.trace_state:
                onward.append((TRACESTATE, context.trace_state.to_header().encode()))
        return onward

    def invoked(self, record: InvocationRecord) -> None:
        """Make the spans, once the answer has been written."""
        begun = record.trace
        if isinstance(begun, _Begun) and begun.span.is_recording():
            asyncio.get_running_loop().call_soon(self._tell_invocation, record, begun)

    def loaded(self, record: LoadRecord) -> None:
        """A load's span, and its stages below it."""
        shift_ns = _shift_ns()
        attributes = {
            "model_name": record.model_name,
            "target_model": record.target_model,
            "result": record.result,
        }
        span = self._start("load", None, _to_ns(record.began) + shift_ns, attributes)
        publishing, below = span, []
        for stage in sorted(record.stages, key=lambda stage: stage.began):
            above = publishing if stage.name == "tables" else span
            child = self._start(stage.name, above, _to_ns(stage.began) + shift_ns)
            below.append((child, _to_ns(stage.began + stage.seconds) + shift_ns))
            if stage.name == "publish":
                publishing = child
        for child, ended_ns in below:
            child.end(ended_ns)
        _note_error(span, record.sentence)
        span.end(_to_ns(record.began + record.seconds) + shift_ns)

    def told(self, name: str, model_name: str, began: float, sentence: str, **facts: str) -> None:
        """One span, which ends now."""
        attributes = {"model_name": model_name, **facts}
        span = self._start(name, None, _to_ns(began) + _shift_ns(), attributes)
        _note_error(span, sentence)
        span.end(time.time_ns())

    async def close(self, most_s: float) -> None:
        """Send what is left, for most_s seconds; a receiver that is slower loses it."""
        sending = asyncio.ensure_future(run_in_daemon_thread(self._provider.shutdown, "traces"))
        done, _ = await asyncio.wait({sending}, timeout=most_s)
        if not done:
            _log.warning("the last spans could not be sent in %g s", most_s)
            self._exporter.shutdown()  # type: ignore[no-untyped-call] # it tries no more
        elif error := sending.exception():
            _log.warning("the last spans could not be sent: %s", error)

    def _tell_invocation(self, record: InvocationRecord, begun: _Begun) -> None:
        span, failed = begun.span, record.status >= 500 or (record.status < 400 and record.sentence)
        for name, began, seconds in _split_duration(record):
            kind = SpanKind.INTERNAL
            if name == "tritonserver":
                self._ids.next_span, kind = begun.triton_id, SpanKind.CLIENT
            child = self._start(name, span, _to_ns(began) + begun.shift_ns, {}, kind)
            if kind is SpanKind.CLIENT and failed:
                child.set_status(StatusCode.ERROR)
            child.end(_to_ns(began + seconds) + begun.shift_ns)
        span.set_attributes(_make_attributes(record))
        _note_error(span, record.sentence, failed=bool(failed))
        span.end(_to_ns(record.began + record.seconds) + begun.shift_ns)

    def _start(
        self,
        name: str,
        above: Span | None,
        began_ns: int,
        attributes: Mapping[str, AttributeValue] | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        context = Context() if above is None else trace.set_span_in_context(above, Context())
        return self._tracer.start_span(
            name, context, kind, attributes=attributes, start_time=began_ns
        )


def _split_duration(record: InvocationRecord) -> Iterator[tuple[str, float, float]]:
    """(name, began, seconds) of what an invocation was made of, as far as it came.

    The record has one number for the translation of both request and answer; what of it does not
    lie in front of tritonserver lies behind.
    """
    waited = record.began + record.waiting_s
    before, triton_began = record.translating_s, record.triton_began
    if triton_began:
        before = min(before, max(0.0, triton_began - waited))
    answered, behind = triton_began + record.triton_s, record.translating_s - before
    if record.waiting_s:
        yield "waiting", record.began, record.waiting_s
    if before:
        yield "translating", waited, before
    if triton_began:
        yield "tritonserver", triton_began, record.triton_s
    if behind > 0:
        yield "translating the answer", answered, behind


class _Ids(RandomIdGenerator):
    """Random ids; but the next span has the one that tritonserver was told, if there is one."""

    def __init__(self) -> None:
        self.next_span = 0

    def generate_span_id(self) -> int:
        """The id of a new span."""
        span_id, self.next_span = self.next_span, 0
        return span_id or super().generate_span_id()


class _Once(logging.Handler):
    """Hands the SDK's messages to our log, each kind once: a receiver may be gone for days."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Say it unless it was said."""
        if record.msg not in self._said and len(self._said) < _MOST_MESSAGES:
            self._said.add(record.msg)
            # What is wrong with a caller's tracestate is told with its words: they are not ours.
            message = record.msg if record.name == trace.span.__name__ else record.getMessage()
            template = "traces (said once, though it may come again): %s"
            _log.log(record.levelno, template, message)


def _hear_once(theirs: logging.Logger) -> None:
    if not any(isinstance(handler, _Once) for handler in theirs.handlers):
        theirs.addHandler(_Once())
    theirs.propagate = False


def _make_resource(version: str) -> Resource:
    """The environment's, with our name and version where it has none."""
    resource = Resource({SERVICE_VERSION: version}).merge(Resource.create())
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: SERVICE}))
    return resource


def _read_parent(headers: Headers) -> Context:
    caller = read_context(headers)
    if caller is None:
        return Context()
    state = TraceState.from_header([caller.state]) if caller.state else None
    flags = trace.TraceFlags(caller.flags)
    span_context = trace.SpanContext(caller.trace_id, caller.span_id, True, flags, state)
    return trace.set_span_in_context(trace.NonRecordingSpan(span_context), Context())


def _make_attributes(record: InvocationRecord) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "model_name": record.model_name,
        "target_model": record.target_model,
        "cold": record.cold,
        "http.request.method": "POST",
        "http.response.status_code": record.status,
        "http.request.body.size": record.request_bytes,
        "http.response.body.size": record.answer_bytes,
    }
    if request_id := read_inference_id(record.headers):
        attributes["inference_id"] = request_id
    if record.status >= 500:
        attributes["error.type"] = str(record.status)
    return attributes


def _note_error(span: Span, sentence: str, *, failed: bool = True) -> None:
    """failed: the container's or the model's fault; a caller's mistake is none of this span's."""
    if sentence:
        sentence = sentence[:_LONGEST_SENTENCE]
        span.set_attribute("error.message", sentence)
        if failed:
            span.set_status(StatusCode.ERROR, sentence)


def _to_ns(seconds: float) -> int:
    return int(seconds * _NS)


def _shift_ns() -> int:
    """From time.monotonic to the time since 1970, by the clocks as they are now."""
    return time.time_ns() - time.monotonic_ns()
