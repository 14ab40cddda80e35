"""InvokeEndpoint as boto3 sends it, without boto3, which spends milliseconds of CPU on each call.

Nothing is repeated: boto3's own repetitions would hide failures and add load.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import httptools

from simulator.replay.errors import EndpointTrouble
from simulator.replay.http1 import Http1, HttpAnswer

#: Longer than the platform lets a caller wait (60 s for the model, 60 s for its answer), so that
#: the endpoint's own verdict is seen.
PATIENCE_S = 150.0


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
        self._http = Http1(parts.hostname, parts.port or 80)
        self._path = f"{parts.path}/endpoints/{quote(endpoint_name, safe='')}/invocations"

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
            answer = await asyncio.wait_for(self._http.post(self._path, headers, body), PATIENCE_S)
        except (asyncio.TimeoutError, TimeoutError):  # two classes before Python 3.11
            return Reply(0, error="TimedOut", message=f"no answer within {PATIENCE_S:g} s")
        except (OSError, httptools.HttpParserError) as error:
            return Reply(0, error=type(error).__name__, message=str(error) or "no answer")
        return _reply(answer)


def _reply(answer: HttpAnswer) -> Reply:
    request_id = answer.headers.get("x-amzn-requestid")
    if answer.status == 200:
        return Reply(200, bytes(answer.body), request_id=request_id)
    # Services may append a URI after a colon: the AWS JSON protocol's error renaming.
    error = answer.headers.get("x-amzn-errortype", "").partition(":")[0]
    name = error or f"HTTP {answer.status}"
    return Reply(answer.status, b"", name, _message(bytes(answer.body)), request_id)


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
