"""The services that moto plays, and calls of ours that it plays: passed on as they came.

moto runs in this process, behind a server of threads at a port of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
from multidict import CIMultiDict
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from yarl import URL

from simulator.archives.moto_server import forget, run_moto

#: What belongs to one connection alone (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
)
#: What is forgotten at the end: of those that the control plane's users meet.
SERVICES = (
    "s3",
    "iam",
    "sts",
    "ecr",
    "logs",
    "sagemaker",
    "cloudwatch",
    "applicationautoscaling",
)


@contextmanager
def running() -> Iterator[str]:
    """moto's url while all its services are served."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    try:
        with run_moto(DomainDispatcherApplication(create_backend_app)) as url:
            yield url
    finally:
        for service in SERVICES:
            forget(service)


class Moto:
    """Passes requests on to moto, bodies as they come and answers as they go."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """No more requests are passed on."""
        if self._session is not None:
            await self._session.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        asked = self._session or aiohttp.ClientSession(
            auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        self._session = asked
        query = scope["query_string"].decode("latin-1")
        target = self._url + scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name not in _HOP_BY_HOP
        )
        has_body = "content-length" in headers or "transfer-encoding" in request.headers
        try:
            async with asked.request(
                request.method,
                URL(target, encoded=True),
                headers=headers,
                data=_body(request) if has_body else None,
                allow_redirects=False,
            ) as answer:
                await _pass_back(answer, send)
        except ClientDisconnect:
            return


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        if chunk:
            yield chunk


async def _pass_back(answer: aiohttp.ClientResponse, send: Send) -> None:
    raw = [
        (name.lower(), value)
        for name, value in answer.raw_headers
        if name.lower().decode() not in _HOP_BY_HOP
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    async for chunk in answer.content.iter_any():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
