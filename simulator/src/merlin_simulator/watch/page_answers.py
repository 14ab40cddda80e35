"""The page's files and its data as answers.

The page is static files and nothing in it is put together here; what archives, models and
containers say reaches the browser only as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

#: Where the page's files lie.
PAGE = Path(__file__).parent / "page"

#: The files that may be asked for, so that no path is ever put together from a request.
MEDIA_TYPES: Mapping[str, str] = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}

#: Everything from here, nothing inline, nobody's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

#: no-cache asks back each time, and gets the file that belongs to this version.
PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

#: no-transform and X-Accel-Buffering keep proxies from holding events back.
LIVE_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}


def answer_json(content: Any, status: int = 200) -> Response:
    """As ASCII: output of processes that is no UTF-8 comes as surrogates, which have no UTF-8."""
    body = json.dumps(content)
    return Response(body, status, headers=LIVE_HEADERS, media_type="application/json")


def answer_page(name: str) -> Response:
    """One of the pages, by its file's name."""
    return FileResponse(PAGE / name, media_type="text/html", headers=PAGE_HEADERS)


def make_static_routes() -> list[Route]:
    """What the pages are made of, below /simulator/static/."""
    files = sorted(path for path in PAGE.iterdir() if path.suffix in MEDIA_TYPES)
    return [Route(f"/simulator/static/{path.name}", _file(path)) for path in files]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def file(_: Request) -> Response:
        media_type = MEDIA_TYPES[path.suffix]
        return FileResponse(path, media_type=media_type, headers=PAGE_HEADERS)

    return file
