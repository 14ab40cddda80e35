"""A registry of images as its HTTP API shows it: tags and manifests, no layers."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
#: Tags on one page of a list: so few that a test meets a second one.
_ON_A_PAGE = 2


@dataclass
class ImageRegistry:
    """manifests: by repository, and there by digest; tags: digests, by repository and tag."""

    address: str
    manifests: dict[str, dict[str, bytes]] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)

    def put(self, repository: str, tag: str, *layers: int) -> str:
        """An image with layers of so many bytes; its digest."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": MEDIA_TYPE,
            "config": {"size": 100},
            "layers": [{"size": size} for size in layers],
        }
        text = json.dumps(manifest).encode()
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        self.manifests.setdefault(repository, {})[digest] = text
        self.tags.setdefault(repository, {})[tag] = digest
        return digest


@contextmanager
def image_registry() -> Iterator[ImageRegistry]:
    """At a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    registry = ImageRegistry(f"127.0.0.1:{server.server_address[1]}")
    server.RequestHandlerClass = type("Handler", (_Handler,), {"registry": registry})
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    registry: ImageRegistry

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        repository, _, reference = path.removeprefix("/v2/").rpartition("/")
        if path.endswith("/tags/list"):
            self._list(repository.removesuffix("/tags"), query.removeprefix("last="))
            return
        repository = repository.removesuffix("/manifests")
        digest = self.registry.tags.get(repository, {}).get(reference, reference)
        manifest = self.registry.manifests.get(repository, {}).get(digest)
        if manifest is None or MEDIA_TYPE not in self.headers["Accept"]:
            self._answer(404, b"{}")
        else:
            self._answer(200, manifest, {"Docker-Content-Digest": digest})

    def _list(self, repository: str, last: str) -> None:
        if repository not in self.registry.tags:
            self._answer(404, b"{}")
            return
        tags = [tag for tag in sorted(self.registry.tags[repository]) if tag > last]
        shown = tags[:_ON_A_PAGE]
        following = f"/v2/{repository}/tags/list?last={shown[-1]}" if tags[_ON_A_PAGE:] else ""
        more = {"Link": f'<{following}>; rel="next"'} if following else {}
        self._answer(200, json.dumps({"name": repository, "tags": shown}).encode(), more)

    def _answer(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": MEDIA_TYPE, **(more or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
