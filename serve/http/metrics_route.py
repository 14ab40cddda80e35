"""GET of the metrics page, as a bare ASGI application."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from starlette.types import Receive, Scope, Send

from serve.errors import Overloaded
from serve.telemetry.page import MetricsPage

#: Prometheus' text format, version 0.0.4.
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
#: Pieces are sent together up to about this size, in bytes.
_TOGETHER = 256 * 1024
#: Scrapes at the same time: each holds tritonserver's whole page, which may be megabytes.
_AT_ONCE = 8


class MetricsRoute:
    """The page, in pieces: a large one is never whole in memory."""

    def __init__(self, page: MetricsPage) -> None:
        self._page, self._under_way = page, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with the page, which a HEAD does not make. Raises Overloaded."""
        start = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", CONTENT_TYPE)],
        }
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body", "body": b""})
            return
        if self._under_way >= _AT_ONCE:
            raise Overloaded(f"{_AT_ONCE} scrapes of the metrics page are under way already")
        self._under_way += 1
        try:
            await self._send_page(start, send)
        finally:
            self._under_way -= 1

    async def _send_page(self, start: dict[str, Any], send: Send) -> None:
        batch: list[bytes] = []
        size, started = 0, False
        async with aclosing(self._page.pieces()) as pieces:
            async for piece in pieces:
                batch.append(piece)
                size += len(piece)
                if size >= _TOGETHER:
                    if not started:  # the first piece is there: the page can be made
                        await send(start)
                        started = True
                    body = b"".join(batch)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    batch, size = [], 0
        if not started:
            await send(start)
        await send({"type": "http.response.body", "body": b"".join(batch)})
