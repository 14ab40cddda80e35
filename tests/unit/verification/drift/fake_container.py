"""The routes of a container that are asked for counts, over a socket."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from ensemble_tools.serving.features import ModelFeatures, write_features


@dataclass
class FakeContainer:
    """GET /models, two a page, and GET /models/<name>/features."""

    url: str
    models: Mapping[str, ModelFeatures]
    #: The path that is asked for -> what is answered in the place of the usual.
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    is_multi_model: bool = True
    asked: list[str] = field(default_factory=list)

    def answer(self, target: str) -> tuple[int, bytes]:
        """Status and body."""
        self.asked.append(target)
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        name = unquote(path.removeprefix("/models/").removesuffix("/features"))
        if path in self.answers:
            return self.answers[path]
        if path == "/models" and self.is_multi_model:
            names = sorted(self.models)
            first = int(query.get("next_page_token", ["0"])[0])
            page = {"models": [{"modelName": it, "modelUrl": "/"} for it in names[first:][:2]]}
            more = {"nextPageToken": str(first + 2)} if len(names) > first + 2 else {}
            return 200, json.dumps({**page, **more}).encode()
        if path.endswith("/features") and name in self.models:
            return 200, write_features(self.models[name])
        return 404, b'{"error": "it is not here"}'


@contextlib.contextmanager
def fake_container(*models: ModelFeatures) -> Iterator[FakeContainer]:
    """Listens until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        """One call."""

        def do_GET(self) -> None:
            """Answer it."""
            status, body = container.answer(self.path)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    container = FakeContainer(
        f"http://127.0.0.1:{server.server_port}", {model.model_name: model for model in models}
    )
    listening = threading.Thread(target=server.serve_forever, args=(0.02,))
    listening.start()
    try:
        yield container
    finally:
        server.shutdown()
        server.server_close()
        listening.join()
