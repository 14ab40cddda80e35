"""The seam to a container: the multi-model contract over HTTP; foreign errors become ours here.

Sources: AWS, "Custom container contract for multi-model endpoints"; contract of this project. Any
container that keeps it can be asked, NVIDIA's own SageMaker frontend among them.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from simulator.errors import ContainerFailed
from simulator.requests import Answer, ClosingParts, StreamedAnswer
from simulator.rules import Rules

#: What a container closes idle connections after is its own (uvicorn: 5 s); ours go before that, so
#: that no request is sent into a connection that is being closed.
_KEPT_IDLE_S = 2.0
#: The archive's name goes with every call about a model, as on SageMaker: containers log it, and
#: Triton's own frontend (before server#8923) loads and asks models by it.
TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"
#: The listing is read in pages where the container has them.
_PAGE = 1000


class InstanceGone(Exception):
    """The container does not take requests: this one did not reach it and may go to another."""


class ContainerClient:
    """One container's contract. Raises ContainerFailed for its errors, InstanceGone without it."""

    def __init__(self, url: str, rules: Rules) -> None:
        self.url, self._rules = url, rules
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEPT_IDLE_S
        )
        self._http = httpx.AsyncClient(base_url=url, limits=limits, trust_env=False)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def is_well(self) -> bool:
        """GET /ping answers 200 in time."""
        try:
            response = await self._http.get(
                "/ping", timeout=self._timeout(self._rules.ping_timeout_s)
            )
        except httpx.TransportError:
            return False
        return response.status_code == 200

    async def loaded(self) -> frozenset[str] | None:
        """The names in GET /models, all pages of them; None where one has no name.

        Triton's own frontend lists nameless models for moments while others are unloaded.
        """
        names: set[str | None] = set()
        token: str | None = None
        while True:
            query = {"limit": str(_PAGE), **({"next_page_token": token} if token else {})}
            page = await self._call(
                "list", "GET", "/models", self._rules.ping_timeout_s, params=query
            )
            named, token = _listing(page)
            names.update(named)
            if not token:
                return None if None in names else frozenset(name for name in names if name)

    async def load(self, model_name: str, url: str, target_model: str) -> None:
        """POST /models; done when the model can be invoked."""
        await self._call(
            "load",
            "POST",
            "/models",
            self._rules.load_timeout_s,
            json={"model_name": model_name, "url": url},
            headers=_sent({TARGET_MODEL: target_model}),
        )

    async def unload(self, model_name: str, target_model: str) -> None:
        """DELETE /models/{model_name}; done when all it held is free."""
        await self._call(
            "unload",
            "DELETE",
            f"/models/{model_name}",
            self._rules.unload_timeout_s,
            headers=_sent({TARGET_MODEL: target_model}),
        )

    async def invoke(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """POST to an invocation path: the whole answer, if it is a good one."""
        response = await self._call(
            "invoke",
            "POST",
            path,
            self._rules.invoke_timeout_s,
            content=body,
            headers=_sent(headers),
        )
        return Answer(response.status_code, response.content, dict(response.headers))

    async def invoke_stream(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> StreamedAnswer:
        """POST to an invocation path: the answer's parts as they come, if it is a good one."""
        timeout = self._timeout(self._rules.invoke_timeout_s)
        request = self._http.build_request(
            "POST", path, content=body, headers=_sent(headers), timeout=timeout
        )
        try:
            response = await self._http.send(request, stream=True)
            if response.status_code >= 300:
                await response.aread()
        except httpx.TransportError as error:
            raise _translated("invoke", error) from error
        _raise_unless_good("invoke", response)
        parts = ClosingParts(response.aiter_raw(), lambda _: response.aclose(), _while_streaming)
        return StreamedAnswer(response.status_code, parts, dict(response.headers))

    async def _call(
        self, doing: str, method: str, path: str, seconds: float, **request: object
    ) -> httpx.Response:
        try:
            response = await self._http.request(
                method,
                path,
                timeout=self._timeout(seconds),
                **request,  # type: ignore[arg-type]
            )
        except httpx.TransportError as error:
            raise _translated(doing, error) from error
        _raise_unless_good(doing, response)
        return response

    def _timeout(self, seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=self._rules.connect_timeout_s, pool=None)


def _sent(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """As they arrived: HTTP's headers are read as Latin-1 (RFC 9110, 5.5)."""
    return {name.encode("latin-1"): value.encode("latin-1") for name, value in headers.items()}


def _translated(doing: str, error: httpx.TransportError) -> Exception:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return InstanceGone(f"it takes no connections ({type(error).__name__})")
    if isinstance(error, httpx.TimeoutException):
        return ContainerFailed(doing, 0, f"the container did not answer in time ({doing})")
    if doing == "invoke":
        # The request was in its hands: sending it again could do its work twice.
        return ContainerFailed(doing, 500, "the container closed the connection without an answer")
    return InstanceGone(f"it closed the connection ({doing})")


def _raise_unless_good(doing: str, response: httpx.Response) -> None:
    if response.status_code >= 300:
        raise ContainerFailed(doing, response.status_code, response.text)


def _while_streaming(error: Exception) -> Exception:
    return _translated("invoke", error) if isinstance(error, httpx.TransportError) else error


def _listing(response: httpx.Response) -> tuple[list[str | None], str | None]:
    try:
        answer = response.json()
        return [model.get("modelName") for model in answer["models"]], answer.get("nextPageToken")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ContainerFailed("list", response.status_code, response.text) from None
