"""An HTTP front before the control plane: what Rights refuses ends here, all else is passed on."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from examples.local_server import serving
from examples.tenants.rights import Rights
from examples.tenants.signatures import Request

#: A cold archive may take 60 s.
_ANSWER_S = 70.0
#: Of one connection alone.
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@contextmanager
def standing_before(url: str, rights: Rights) -> Iterator[str]:
    """The front's address while it stands before the control plane at url."""
    behind = urlsplit(url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Refuse it, or pass it on."""
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", "0")))
            refusal = rights.refuse(Request(self.command, self.path, headers, body))
            if refusal is None:
                self._pass_on(headers, body)
                return
            # Its name: sagemaker-runtime has it in the head, sagemaker in the body.
            kind = {"content-type": "application/json", "x-amzn-errortype": refusal.name}
            said = {"__type": refusal.name, "Message": refusal.message}
            self._answer(403, kind, json.dumps(said).encode())

        def _pass_on(self, headers: dict[str, str], body: bytes) -> None:
            connection = http.client.HTTPConnection(behind, timeout=_ANSWER_S)
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                self._answer(answer.status, dict(answer.getheaders()), answer.read())
            finally:
                connection.close()

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the story tells what was answered."""

    with serving(Handler) as url:
        yield url
