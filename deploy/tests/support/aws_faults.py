"""What stands before the control plane and lets calls fail as AWS, and the way to it, do.

It passes every call on. A `Fault` names which calls fail, and how; an operation is called as the
API calls it ("CreateModel"), and what has no such name, as S3's, by "METHOD /path". Calls are
counted.
"""

from __future__ import annotations

import http.client
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET
from urllib.parse import parse_qs, urlsplit

_PASS_TIMEOUT_S = 120
#: Operations whose names begin so change nothing.
_ASKING = ("Describe", "List", "Get", "BatchGet", "GET ", "HEAD ")
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


@dataclass
class Fault:
    """Which calls fail, and how.

    operation: None: every one that changes something; with_reads: and every other one. after: so
    many of them pass first. times: so many fail then; None: all.

    How, the first that is set: code and status: an answer of AWS's; nothing was done. cut: the
    connection ends before the call is carried out. lose: it is carried out, and its answer never
    comes. half: the answer's body ends in its middle. act: is called after it was carried out,
    before its answer goes; before_act: before it. delay_s: before anything else.
    """

    operation: str | None = None
    with_reads: bool = False
    after: int = 0
    times: int | None = 1
    code: str | None = None
    words: str = "No, said the test."
    status: int = 400
    cut: bool = False
    lose: bool = False
    half: bool = False
    act: Callable[[], None] | None = None
    before_act: Callable[[], None] | None = None
    delay_s: float = 0.0
    met: int = 0

    def meets(self, operation: str) -> bool:
        """Whether it is this call that fails; counts it."""
        if self.operation is None:
            if operation.startswith(_ASKING) and not self.with_reads:
                return False
        elif operation != self.operation:
            return False
        self.met += 1
        failed = self.met - self.after
        return failed > 0 and (self.times is None or failed <= self.times)


@dataclass
class FaultyAws:
    """One that runs. calls: every operation's name, in the order in which they came."""

    url: str
    calls: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def changes(self) -> list[str]:
        """Calls that change something."""
        return [name for name in self.calls if not name.startswith(_ASKING)]

    def begin(self, *faults: Fault) -> None:
        """From now on these, and a new count."""
        with self.lock:
            self.calls, self.faults = [], list(faults)

    def note(self, operation: str) -> Fault | None:
        """Count a call; the fault that it meets."""
        with self.lock:
            self.calls.append(operation)
            met = [fault for fault in self.faults if fault.meets(operation)]
        return met[0] if met else None


@contextmanager
def faulty_aws(plane_url: str) -> Iterator[FaultyAws]:
    """In front of what listens at plane_url."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Front)
    server.daemon_threads = True
    running = FaultyAws(f"http://127.0.0.1:{server.server_address[1]}")
    server.RequestHandlerClass = type("_Bound", (_Front,), {"aws": running, "behind": plane_url})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Front(BaseHTTPRequestHandler):
    """One connection of a caller."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    aws: FaultyAws
    behind: str

    def handle_call(self) -> None:
        """Pass one call on, or do to it what a fault says."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.aws.note(_operation(self.command, self.path, self.headers, body))
        if fault is None:
            self._answer(*self._pass_on(body))
            return
        time.sleep(fault.delay_s)
        if fault.code is not None:
            self._answer(*_refusal(fault, self.headers))
            return
        if fault.before_act is not None:
            fault.before_act()
        if fault.cut:
            self._hang_up()
            return
        passed = self._pass_on(body)
        if fault.act is not None:
            fault.act()
        if fault.lose:
            self._hang_up()
            return
        with suppress(OSError):
            self._answer(*passed, half=fault.half)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_call  # http.server's names

    def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        url = urlsplit(self.behind)
        connection = http.client.HTTPConnection(
            str(url.hostname), url.port, timeout=_PASS_TIMEOUT_S
        )
        try:
            headers = {name: value for name, value in self.headers.items() if name != "Expect"}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            kept = [header for header in answer.getheaders() if header[0].lower() not in _HOP]
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, half: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if half else body)
        self.close_connection = self.close_connection or half

    def _hang_up(self) -> None:
        """A reset: what a caller sees of a machine that dies."""
        self.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Calls are counted, not told."""


def _operation(command: str, path: str, headers: Message, body: bytes) -> str:
    """As the API calls it, whichever protocol it is asked by."""
    if target := headers.get("X-Amz-Target"):
        return target.rpartition(".")[2]
    url = urlsplit(path)
    if "/operation/" in url.path:
        return url.path.rpartition("/")[2]
    if headers.get_content_type() == "application/x-www-form-urlencoded" and (
        named := parse_qs(body.decode("latin-1")).get("Action")
    ):
        return named[0]
    return f"{command} {url.path}"


def _refusal(fault: Fault, headers: Message) -> tuple[int, list[tuple[str, str]], bytes]:
    """In the words of the protocol that is spoken."""
    assert fault.code is not None
    if "X-Amz-Target" in headers:
        told = json.dumps({"__type": fault.code, "message": fault.words}).encode()
        return fault.status, [("Content-Type", headers["Content-Type"])], told
    error = f"<Code>{fault.code}</Code><Message>{fault.words}</Message>"
    if headers.get_content_type() == "application/x-www-form-urlencoded":
        error = f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>"
    else:
        error = f"<Error>{error}</Error>"
    return fault.status, [("Content-Type", "text/xml")], error.encode()
