"""A server that gives one answer to whatever it is asked: what may be met in AWS's place."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class OddAws:
    """One that runs. cut: of the body nothing comes behind so many bytes. whole_after: from this
    call on bodies are whole. asked: lines of all requests."""

    url: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    cut: int | None = None
    whole_after: int | None = None
    asked: list[str] = field(default_factory=list)


class RawBody:
    """An answer's body, as botocore streams it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        """The body in one piece."""
        return [self._body]


@contextmanager
def odd_aws() -> Iterator[OddAws]:
    """It listens on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    server.daemon_threads = True
    running = OddAws(f"http://127.0.0.1:{server.server_address[1]}")
    server.RequestHandlerClass = type("_Bound", (_Answering,), {"aws": running})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Answering(BaseHTTPRequestHandler):
    aws: OddAws

    def handle_call(self) -> None:
        """Read it, answer, hang up."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        aws = self.aws
        aws.asked.append(self.requestline)
        is_whole = aws.whole_after is not None and len(aws.asked) >= aws.whole_after
        self.send_response_only(aws.status)
        for name, value in aws.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(aws.body)))
        self.end_headers()
        self.wfile.write(aws.body if is_whole else aws.body[: aws.cut])
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_call  # http.server's names

    def do_CONNECT(self) -> None:
        """As a proxy that lets nobody through."""
        self.send_error(407)

    def log_message(self, *_: object) -> None:
        """Nothing is told."""
