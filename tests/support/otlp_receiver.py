"""A receiver of OTLP over HTTP that keeps the spans it is sent, or is as bad as a test needs it."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LOOK_S = 0.02


@dataclass(frozen=True)
class Span:
    """One span as it came. Ids in hexadecimal; parent_id is empty for a root. Times in ns."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    began_ns: int
    ended_ns: int
    status: str
    sentence: str
    attributes: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended_ns - self.began_ns) / 1e9


@dataclass
class Receiver:
    """What came so far. held: until it is set, nothing is answered; status: of each answer."""

    port: int = 0
    held: threading.Event | None = None
    status: int = 200
    requests: int = 0
    answers: int = 0
    spans: list[Span] = field(default_factory=list)

    @property
    def url(self) -> str:
        """What OTEL_EXPORTER_OTLP_ENDPOINT is to be."""
        return f"http://127.0.0.1:{self.port}"

    def of_trace(self, trace_id: str) -> list[Span]:
        """The spans of one trace, by when they began."""
        found = [span for span in list(self.spans) if span.trace_id == trace_id]
        return sorted(found, key=lambda span: span.began_ns)

    def until(self, names: set[str], trace_id: str, timeout_s: float = 60.0) -> list[Span]:
        """The trace's spans as soon as all of these names are among them."""
        deadline = time.monotonic() + timeout_s
        while not names <= {span.name for span in self.of_trace(trace_id)}:
            found = [span.name for span in self.spans]
            assert time.monotonic() < deadline, f"never: {names} of {trace_id}; came: {found}"
            time.sleep(LOOK_S)
        return self.of_trace(trace_id)

    def keep(self, body: bytes, content_type: str) -> None:
        """Keep an export's spans; tritonserver's older versions send JSON."""
        if "json" in content_type:
            exported = json.loads(body)
        else:
            message = ExportTraceServiceRequest.FromString(body)
            exported = MessageToDict(message)
            for span in _raw_spans(exported):
                for key in ("traceId", "spanId", "parentSpanId"):
                    span[key] = _hexadecimal(span.get(key, ""))
        for resource in exported.get("resourceSpans", ()):
            attributes = _attributes(resource.get("resource", {}))
            service = str(attributes.get("service.name", ""))
            self.spans += [_span(raw, service) for raw in _raw_spans({"resourceSpans": [resource]})]


@contextlib.contextmanager
def receiving(**knobs: Any) -> Iterator[Receiver]:
    """A receiver that listens for as long as the block lasts."""
    receiver = Receiver(**knobs)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.requests += 1
            if receiver.held is not None:
                receiver.held.wait(60)
            receiver.answers += 1
            if receiver.status == 200:
                receiver.keep(body, self.headers.get("content-type", ""))
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def _raw_spans(exported: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        span
        for resource in exported.get("resourceSpans", ())
        for scope in resource.get("scopeSpans", ())
        for span in scope.get("spans", ())
    ]


def _span(raw: Mapping[str, Any], service: str) -> Span:
    status = raw.get("status", {})
    return Span(
        name=raw["name"],
        service=service,
        trace_id=raw["traceId"].lower(),
        span_id=raw["spanId"].lower(),
        parent_id=raw.get("parentSpanId", "").lower().strip("0") and raw["parentSpanId"].lower(),
        kind=str(raw.get("kind", "")),
        began_ns=int(raw["startTimeUnixNano"]),
        ended_ns=int(raw["endTimeUnixNano"]),
        status=str(status.get("code", "")),
        sentence=status.get("message", ""),
        attributes=_attributes(raw),
    )


def _attributes(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {item["key"]: _value(item.get("value", {})) for item in raw.get("attributes", ())}


def _value(value: Mapping[str, Any]) -> object:
    for kind, held in value.items():
        return int(held) if kind == "intValue" else held
    return None


def _hexadecimal(encoded: str) -> str:
    return base64.b64decode(encoded).hex()
