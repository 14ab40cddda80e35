"""InvokeEndpoint as boto3 sends it, without boto3, which spends milliseconds of CPU on each call.

Nothing is repeated: boto3's own repetitions would hide failures and add load.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, urlsplit

import aiohttp

from merlin_simulator.replay.errors import EndpointTrouble

#: Longer than the platform lets a caller wait (60 s for the model, 60 s for its answer), so that
#: the endpoint's own verdict is seen.
PATIENCE_S = 150.0
#: Shorter than servers keep idle connections (uvicorn: 5 s), so that none is used as it closes.
_KEPT_IDLE_S = 2.0


@dataclass(frozen=True)
class Reply:
    """What came back; status 0 where nothing did. error is the exception's name on the wire."""

    status: int
    body: bytes = b""
    error: str | None = None
    message: str = ""
    request_id: str | None = None


class Runtime:
    """The runtime API of one endpoint; never raises for what the endpoint does."""

    def __init__(self, url: str, endpoint_name: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise EndpointTrouble(f"--endpoint-url: found {url}, expected http://HOST:PORT")
        self._url = f"{url.rstrip('/')}/endpoints/{quote(endpoint_name, safe='')}/invocations"

    @cached_property
    def _http(self) -> aiohttp.ClientSession:
        """Made at the first call: a session belongs to the loop that runs.

        aiohttp, since httpx's pool looks at every connection for every request (10 ms of CPU each
        with 500 in flight, as measured here), which the latencies would have in them.
        """
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_IDLE_S)
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        return aiohttp.ClientSession(connector=connector, timeout=timeout)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def invoke(self, target_model: str, body: bytes) -> Reply:
        """One InvokeEndpoint with TargetModel."""
        headers = {
            "Content-Type": "application/json",
            "X-Amzn-SageMaker-Target-Model": target_model,
        }
        try:
            async with self._http.post(self._url, headers=headers, data=body) as answer:
                return _reply(answer, await answer.read())
        except asyncio.TimeoutError:
            return Reply(0, error="TimedOut", message=f"no answer within {PATIENCE_S:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return Reply(0, error=type(error).__name__, message=str(error) or "no answer")


def _reply(answer: aiohttp.ClientResponse, body: bytes) -> Reply:
    request_id = answer.headers.get("x-amzn-requestid")
    if answer.status == 200:
        return Reply(200, body, request_id=request_id)
    # Services may append a URI after a colon: the AWS JSON protocol's error renaming.
    error = answer.headers.get("x-amzn-errortype", "").partition(":")[0]
    name = error or f"HTTP {answer.status}"
    return Reply(answer.status, b"", name, _message(body), request_id)


def _message(body: bytes) -> str:
    """The sentence in an error's body; ModelError writes Message, the others message."""
    text = body.decode(errors="replace")
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, dict):
        return text
    return str(found.get("message") or found.get("Message") or text)
