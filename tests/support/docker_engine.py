"""A Docker engine that has images and a registry behind it, as its HTTP API shows them.

It does what a push meets: images are looked at, named, pushed, and lose names. What the registry
has of layers stays from push to push. Of a pull it has the lines alone.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
LAYERS = ("1a2b3c4d5e6f", "2a2b3c4d5e6f", "3a2b3c4d5e6f")
DIGEST = f"sha256:{'d' * 64}"
_LAYER_BYTES = 1_000_000
#: No push of a test takes so long, in seconds.
_HANGS_S = 30.0


@dataclass
class FakeEngine:
    """names: image ids by name. images: what is told of each.

    A push or a pull ends after stop_after layers: with the words of `error`, where it is set, or
    with a connection that ends (`breaks`), or not before the listener goes (`hangs`).
    """

    host: str
    names: dict[str, str] = field(default_factory=dict)
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    logins: list[dict[str, str] | None] = field(default_factory=list)
    stop_after: int = len(LAYERS)
    error: str | None = None
    breaks: bool = False
    hangs: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def add_image(self, name: str, **labels: str) -> None:
        """One for linux/amd64."""
        image_id = f"sha256:{len(self.images):064x}"
        self.names[name] = image_id
        self.images[image_id] = {
            "Id": image_id,
            "Config": {"Labels": labels},
            "Os": "linux",
            "Architecture": "amd64",
            "Size": _LAYER_BYTES * len(LAYERS),
        }

    def find(self, name: str) -> dict[str, Any] | None:
        """What `docker inspect` would tell."""
        image = self.images.get(self.names.get(name, name))
        if image is None:
            return None
        return {**image, "RepoTags": [tag for tag, it in self.names.items() if it == image["Id"]]}

    def push(self) -> Iterator[Mapping[str, Any]]:
        """The lines of one push, as an engine of 20.10 writes them."""
        for layer in LAYERS:
            yield {"status": "Preparing", "progressDetail": {}, "id": layer}
        for layer in LAYERS[: self.stop_after]:
            if layer in self.there:
                yield {"status": "Layer already exists", "progressDetail": {}, "id": layer}
                continue
            detail = {"current": _LAYER_BYTES // 2, "total": _LAYER_BYTES}
            yield {"status": "Pushing", "progressDetail": detail, "id": layer}
            self.there.add(layer)
            yield {"status": "Pushed", "progressDetail": {}, "id": layer}
        yield from self._end({"aux": {"Tag": "1", "Digest": DIGEST, "Size": 1000}})

    def pull(self) -> Iterator[Mapping[str, Any]]:
        """The lines of one pull."""
        for layer in LAYERS[: self.stop_after]:
            detail = {"current": _LAYER_BYTES // 2, "total": _LAYER_BYTES}
            yield {"status": "Downloading", "progressDetail": detail, "id": layer}
        yield from self._end({"status": f"Digest: {DIGEST}"})

    def _end(self, last: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if self.hangs:
            self.ended.wait(_HANGS_S)
        if self.error is not None:
            yield {"errorDetail": {"message": self.error}, "error": self.error}
        elif not self.breaks:
            yield {"progressDetail": {}, **last}


@contextmanager
def fake_engine() -> Iterator[FakeEngine]:
    """At a port of its own; it has the image merlin:1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    engine = FakeEngine(f"tcp://127.0.0.1:{server.server_address[1]}")
    engine.add_image("merlin:1", **{LABEL: "true"})
    server.RequestHandlerClass = type("Handler", (_Handler,), {"engine": engine})
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield engine
    finally:
        engine.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    engine: FakeEngine
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests look at what is there."""

    def do_HEAD(self) -> None:
        self._answer(200, None)

    def do_GET(self) -> None:
        path = self._path()
        if path == "/version":
            self._answer(200, {"ApiVersion": "1.41"})
        elif path == "/_ping":
            self._answer(200, None)
        elif path == "/info":
            self._answer(200, {"MemTotal": 2**34})
        elif found := re.fullmatch(r"/images/(.+)/json", path):
            image = self.engine.find(found[1])
            self._answer(404 if image is None else 200, image or {"message": "No such image"})
        else:
            self._answer(404, {"message": "page not found"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, query = (
            self._path(),
            dict(
                pair.split("=", 1) for pair in unquote(urlsplit(self.path).query).split("&") if pair
            ),
        )
        if found := re.fullmatch(r"/images/(.+)/tag", path):
            image = self.engine.find(found[1])
            assert image is not None
            self.engine.names[f"{query['repo']}:{query['tag']}"] = image["Id"]
            self._answer(201, None)
        elif found := re.fullmatch(r"/images/(.+)/push", path):
            assert f"{found[1]}:{query['tag']}" in self.engine.names
            self.engine.logins.append(self._login())
            self._stream(self.engine.push())
        elif path == "/images/create":
            self._stream(self.engine.pull())
        else:
            self._answer(404, {"message": "page not found"})

    def do_DELETE(self) -> None:
        name = self._path().removeprefix("/images/")
        gone = self.engine.names.pop(name, None)
        self._answer(200 if gone else 404, [] if gone else {"message": "No such image"})

    def _path(self) -> str:
        return re.sub(r"^/v1\.\d+", "", unquote(urlsplit(self.path).path))

    def _login(self) -> dict[str, str] | None:
        sent = self.headers.get("X-Registry-Auth")
        found: dict[str, str] | None = json.loads(base64.urlsafe_b64decode(sent)) if sent else None
        return found

    def _stream(self, lines: Iterator[Mapping[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for line in lines:
                self._chunk(json.dumps(line).encode() + b"\r\n")
            if not self.engine.breaks:
                self._chunk(b"")
        except OSError:  # nobody listens
            pass
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _answer(self, status: int, body: object) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
