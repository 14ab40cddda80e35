"""The seam to a container: the multi-model contract over HTTP; foreign errors become ours here.

Sources: AWS, "Custom container contract for multi-model endpoints"; contract of this project. Any
container that keeps it can be asked, NVIDIA's own SageMaker frontend among them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

import aiohttp

from merlin_simulator.errors import ContainerFailed
from merlin_simulator.instance.requests import ClosingParts, ContainerAnswer, StreamedAnswer
from merlin_simulator.rules import Rules

#: What a container closes idle connections after is its own (uvicorn: 5 s); ours go before that, so
#: that no request is sent into a connection that is being closed.
_KEPT_IDLE_S = 2.0
#: The archive's name goes with every call about a model, as on SageMaker: containers log it, and
#: Triton's own frontend (before server#8923) loads and asks models by it.
TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"
#: The listing is read in pages where the container has them; one that does not end is no listing.
_PAGE, _PAGES = 1000, 100
#: All pages together may take this many times what one may.
_LISTING_TIMES = 5
#: Headers that aiohttp would add: what a container is asked is the caller's, and nothing else.
_NOT_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
#: What aiohttp raises, and the time-out that it leaves to asyncio.
_TROUBLE = (aiohttp.ClientError, asyncio.TimeoutError)


class InstanceGone(Exception):
    """The container does not take requests: this one did not reach it and may go to another."""


@dataclass(frozen=True)
class _Whole:
    status: int
    body: bytes
    headers: Mapping[str, str]


class ContainerClient:
    """One container's contract. Raises ContainerFailed for its errors, InstanceGone without it."""

    def __init__(self, url: str, rules: Rules) -> None:
        self.url, self._rules = url, rules

    @cached_property
    def _http(self) -> aiohttp.ClientSession:
        """Made at the first call: a session belongs to the loop that runs."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_IDLE_S)
        return aiohttp.ClientSession(
            connector=connector, skip_auto_headers=_NOT_ADDED, cookie_jar=aiohttp.DummyCookieJar()
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def is_well(self) -> bool:
        """GET /ping answers 200 in time."""
        try:
            return (await self._whole("GET", "/ping", self._rules.ping_timeout_s)).status == 200
        except _TROUBLE:
            return False

    async def loaded(self) -> frozenset[str] | None:
        """The names in GET /models, all pages of them; None where one has no name.

        Triton's own frontend lists nameless models for moments while others are unloaded.
        """
        with _translating("list"):
            seconds = self._rules.ping_timeout_s * _LISTING_TIMES
            names = await asyncio.wait_for(self._listed(), seconds)
        return None if None in names else frozenset(name for name in names if name)

    async def _listed(self) -> set[str | None]:
        names: set[str | None] = set()
        token: str | None = None
        for _ in range(_PAGES):
            query = {"limit": str(_PAGE), **({"next_page_token": token} if token else {})}
            page = await self._call(
                "list", "GET", "/models", self._rules.ping_timeout_s, params=query
            )
            named, token = _listing(page)
            names.update(named)
            if not token:
                return names
        raise ContainerFailed("list", 200, f"the listing has more than {_PAGES} pages")

    async def load(self, model_name: str, url: str, target_model: str) -> None:
        """POST /models; done when the model can be invoked."""
        await self._call(
            "load",
            "POST",
            "/models",
            self._rules.load_timeout_s,
            data=json.dumps({"model_name": model_name, "url": url}).encode(),
            headers={"Content-Type": "application/json", TARGET_MODEL: target_model},
        )

    async def unload(self, model_name: str, target_model: str) -> None:
        """DELETE /models/{model_name}; done when all it held is free."""
        await self._call(
            "unload",
            "DELETE",
            f"/models/{quote(model_name, safe='')}",
            self._rules.unload_timeout_s,
            headers={TARGET_MODEL: target_model},
        )

    async def invoke(self, path: str, body: bytes, headers: Mapping[str, str]) -> ContainerAnswer:
        """POST to an invocation path: the whole answer, if it is a good one."""
        whole = await self._call(
            "invoke", "POST", path, self._rules.invoke_timeout_s, data=body, headers=headers
        )
        return ContainerAnswer(whole.status, whole.body, whole.headers)

    async def invoke_stream(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> StreamedAnswer:
        """POST to an invocation path: the answer's parts as they come, if it is a good one."""
        seconds = self._rules.invoke_timeout_s
        with _translating("invoke"):
            response = await self._send("POST", path, seconds, data=body, headers=headers)
            if response.status >= 300:
                async with response:
                    _raise_unless_good("invoke", await _read(response))

        async def ended(_: Exception | None) -> None:
            response.close()

        parts = ClosingParts(response.content.iter_any(), ended, _while_streaming)
        return StreamedAnswer(response.status, parts, _lowered(response))

    async def _call(
        self, doing: str, method: str, path: str, seconds: float, **request: Any
    ) -> _Whole:
        with _translating(doing):
            whole = await self._whole(method, path, seconds, **request)
        _raise_unless_good(doing, whole)
        return whole

    async def _whole(self, method: str, path: str, seconds: float, **request: Any) -> _Whole:
        async with await self._send(method, path, seconds, **request) as response:
            return await _read(response)

    async def _send(
        self, method: str, path: str, seconds: float, **request: Any
    ) -> aiohttp.ClientResponse:
        """request: data, headers and params, as aiohttp has them."""
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=self._rules.connect_timeout_s)
        return await self._http.request(
            method, f"{self.url}{path}", timeout=timeout, allow_redirects=False, **request
        )


@contextmanager
def _translating(doing: str) -> Iterator[None]:
    try:
        yield
    except _TROUBLE as error:
        raise _translated(doing, error) from error


def _translated(doing: str, error: Exception) -> Exception:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return InstanceGone(f"it takes no connections ({type(error).__name__})")
    if isinstance(error, asyncio.TimeoutError):
        return ContainerFailed(doing, 0, f"the container did not answer in time ({doing})")
    if doing in ("invoke", "load"):
        # It was in its hands: sent again, an invocation could do its work twice, and an archive
        # that kills its container would kill every one.
        return ContainerFailed(doing, 500, "the container closed the connection without an answer")
    return InstanceGone(f"it closed the connection ({doing})")


def _while_streaming(error: Exception) -> Exception:
    return _translated("invoke", error) if isinstance(error, _TROUBLE) else error


async def _read(response: aiohttp.ClientResponse) -> _Whole:
    return _Whole(response.status, await response.read(), _lowered(response))


def _lowered(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _raise_unless_good(doing: str, whole: _Whole) -> None:
    if whole.status >= 300:
        raise ContainerFailed(doing, whole.status, whole.body.decode(errors="replace"))


def _listing(page: _Whole) -> tuple[list[str | None], str | None]:
    try:
        answer = json.loads(page.body)
        token = answer.get("nextPageToken")
        if not isinstance(token, str | None):
            raise TypeError
        return [_name(model.get("modelName")) for model in answer["models"]], token
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = page.body.decode(errors="replace")
        raise ContainerFailed("list", page.status, text) from None


def _name(field: object) -> str | None:
    return field if isinstance(field, str) else None
