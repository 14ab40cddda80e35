"""GET of the metrics page, as a bare ASGI application."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from serve.telemetry.page import MetricsPage

#: Prometheus' text format, version 0.0.4.
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
#: Pieces are sent together up to about this size, in bytes.
_TOGETHER = 256 * 1024


class MetricsRoute:
    """The page, in pieces: a large one is never whole in memory."""

    def __init__(self, page: MetricsPage) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with the page."""
        headers = [(b"content-type", CONTENT_TYPE)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        batch: list[bytes] = []
        size = 0
        async for piece in self._page.pieces():
            batch.append(piece)
            size += len(piece)
            if size >= _TOGETHER:
                body = b"".join(batch)
                await send({"type": "http.response.body", "body": body, "more_body": True})
                batch, size = [], 0
        await send({"type": "http.response.body", "body": b"".join(batch)})
