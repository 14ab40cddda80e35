"""A receiver of traces that prints one line for each span; for a first look, not for production.

    python -m examples.observe.spans --port 4318

Then start the container with OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318. It takes OTLP over
HTTP, as protobuf, from this machine alone, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


def main() -> None:
    """Print spans until Ctrl-C."""
    options = _parser().parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), _Printing)
    server.daemon_threads = True
    print(f"spans go to http://127.0.0.1:{server.server_address[1]}; Ctrl-C ends it", flush=True)
    server.serve_forever()


class _Printing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for line in span_lines(ExportTraceServiceRequest.FromString(body)):
            print(line, flush=True)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Requests have no lines of their own."""


def span_lines(sent: ExportTraceServiceRequest) -> Iterator[str]:
    """`trace parent>span  milliseconds  name  attributes`, as they came."""
    for resource in sent.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                ids = f"{span.trace_id.hex()} {span.parent_span_id.hex():16}>{span.span_id.hex()}"
                took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
                facts = " ".join(f"{each.key}={_value(each.value)}" for each in span.attributes)
                yield f"{ids} {took_ms:10.3f} ms  {span.name}  {facts}".rstrip()


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return "" if kind is None else getattr(value, kind)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.observe.spans",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port", type=int, default=4318, help="to listen on, 0: a free one (default: %(default)s)"
    )
    return parser


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
