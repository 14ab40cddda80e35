"""One request of a replay, and what it tells."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import aiohttp

from merlin_simulator.replay.settings import EndpointTrouble

#: Longer than the platform lets a caller wait (60 s for the model, 60 s for its answer), so that
#: the endpoint's own verdict is seen.
PATIENCE_S = 150.0
#: Of requests that the replay makes itself.
JSON_TYPE = "application/json"
#: Shorter than servers keep idle connections (uvicorn: 5 s), so that none is used as it closes.
_KEPT_IDLE_S = 2.0


@dataclass(frozen=True)
class Reply:
    """The reply to a request; status 0 without one. error is the exception's name on the wire."""

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

    async def invoke(self, target_model: str, body: bytes, content_type: str = JSON_TYPE) -> Reply:
        """One InvokeEndpoint with TargetModel."""
        headers = {"Content-Type": content_type, "X-Amzn-SageMaker-Target-Model": target_model}
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
        content = json.loads(text)
    except ValueError:
        return text
    if not isinstance(content, dict):
        return text
    return str(content.get("message") or content.get("Message") or text)


#: Float sums in another order differ in the last digits of a float32; another model's in the first.
RELATIVE = 1e-4
ABSOLUTE = 1e-6
#: Characters of a wrong answer that a report shows.
_SHOWN = 200


class Asking(Protocol):
    """The requests of one replay and the judgement of their answers."""

    def request(self, model: int, number: int) -> tuple[bytes, str]:
        """Body and Content-Type of the request with this number, to the model of this rank."""
        ...

    def fault(self, model: int, number: int, answer: bytes) -> str | None:
        """A sentence about a wrong answer; None if it is right."""
        ...


class NamedAsking:
    """For the model of this package: names has what each rank's archive answers."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def request(self, model: int, number: int) -> tuple[bytes, str]:
        """Ids that no other request of this replay has."""
        ids = {"name": "IDS", "datatype": "INT64", "shape": [2], "data": [number, model]}
        return json.dumps({"inputs": [ids]}).encode(), JSON_TYPE

    def fault(self, model: int, number: int, answer: bytes) -> str | None:
        """The name must be the model's, the echo the request's."""
        outputs = _outputs(answer)
        if outputs is None:
            return f"found {_start(answer)}, expected outputs NAME and ECHO"
        name, echo = outputs.get("NAME", {}).get("data"), outputs.get("ECHO", {}).get("data")
        if name != [self._names[model]]:
            return f"found an answer of {name}, expected one of {self._names[model]}"
        if echo != [number, model]:
            return f"found the answer to {echo}, expected that to {[number, model]}"
        return None


class RepeatedAsking:
    """For any model: one request and, by rank, the expected answers, as far as they are known."""

    def __init__(self, requests: Sequence[bytes], expected: Mapping[int, Expected]) -> None:
        self._requests, self._right = requests, dict(expected)

    def request(self, model: int, number: int) -> tuple[bytes, str]:
        """The same at all times."""
        return self._requests[model], JSON_TYPE

    def fault(self, model: int, number: int, answer: bytes) -> str | None:
        """Compared with the expected answer, or with the first one, which is taken as right."""
        outputs = _outputs(answer)
        if outputs is None:
            return f"found {_start(answer)}, expected outputs"
        return self._right.setdefault(model, Expected(outputs)).find_fault(outputs)


@dataclass(frozen=True)
class Expected:
    """The outputs of a right answer."""

    outputs: Mapping[str, Any]  # by name, as the v2 protocol has them
    #: Outputs of the answer -> those outputs here of which their values are. A model that draws by
    #: chance puts them out together: the values at one index of all of them stand at one index
    #: here, too, and no index comes twice.
    drawn: Mapping[str, str] = field(default_factory=dict)

    def find_fault(self, outputs: Mapping[str, Any]) -> str | None:
        """A sentence about wrong outputs; None if they are right."""
        if self.drawn:
            return self._find_undrawn(outputs)
        return find_difference(outputs, self.outputs)

    def _find_undrawn(self, outputs: Mapping[str, Any]) -> str | None:
        if missing := sorted(self.drawn.keys() - outputs.keys()):
            return f"found outputs {sorted(outputs)}, expected {', '.join(missing)} too"
        if undrawn := find_difference(outputs, self._others()):
            return undrawn
        for name in self.drawn:
            if fault := _find_misshapen(name, outputs[name]):
                return fault
        for name, source in self.drawn.items():
            kinds = outputs[name].get("datatype"), self.outputs[source].get("datatype")
            if kinds[0] != kinds[1]:
                return f"{name}: found datatype {kinds[0]}, expected {kinds[1]}"
        left = [
            *zip(*(self.outputs[source]["data"] for source in self.drawn.values()), strict=True)
        ]
        lengths = [len(outputs[it]["data"]) for it in self.drawn]
        if len({*lengths}) > 1:
            return f"{', '.join(self.drawn)}: found {lengths} values, expected as many of each"
        for index, row in enumerate(
            zip(*(outputs[name]["data"] for name in self.drawn), strict=True)
        ):
            known = next((other for other in left if all(map(_alike, row, other))), None)
            if known is None:
                return f"{', '.join(self.drawn)}[{index}]: found {row}, expected one of those drawn"
            left.remove(known)
        return None

    def _others(self) -> dict[str, Any]:
        """Outputs that are not drawn of."""
        sources = {*self.drawn.values()}
        return {name: output for name, output in self.outputs.items() if name not in sources}


def _find_misshapen(name: str, output: Mapping[str, Any]) -> str | None:
    """Drawn values must be there, and as many as their shape says."""
    data, shape = output.get("data"), output.get("shape")
    if not isinstance(data, list) or not isinstance(shape, list) or not data:
        return f"{name}: found {data} with shape {shape}, expected values"
    if math.prod(shape) != len(data):
        return f"{name}: found {len(data)} values, expected those of its shape {shape}"
    return None


def read_expected(text: str) -> Expected:
    """The outputs in an expected.json; raises ValueError for what has no outputs."""
    outputs = _outputs(text.encode())
    if outputs is None:
        raise ValueError("no outputs")
    drawn = json.loads(text).get("drawn", {})
    if not isinstance(drawn, dict) or not outputs.keys() >= {*map(str, drawn.values())}:
        raise ValueError("drawn names what is no output")
    return Expected(outputs, drawn)


def find_difference(outputs: Mapping[str, Any], right: Mapping[str, Any]) -> str | None:
    """The first place where two answers' outputs differ, floats beyond rounding."""
    if missing := sorted(right.keys() - outputs.keys()):
        return f"found outputs {sorted(outputs)}, expected {', '.join(missing)} too"
    for name, expected in right.items():
        got = outputs[name]
        for key in ("datatype", "shape"):
            if got.get(key) != expected.get(key):
                return f"{name}: found {key} {got.get(key)}, expected {expected.get(key)}"
        if unlike := _unlike(got.get("data"), expected.get("data")):
            return f"{name}{unlike}"
    return None


def _unlike(found: Any, right: Any, path: str = "") -> str | None:
    if isinstance(found, list) and isinstance(right, list):
        if len(found) != len(right):
            return f"{path}: found {len(found)} values, expected {len(right)}"
        pairs = enumerate(zip(found, right, strict=True))
        unlike = (_unlike(value, other, f"{path}[{index}]") for index, (value, other) in pairs)
        return next(filter(None, unlike), None)
    return None if _alike(found, right) else f"{path}: found {found}, expected {right}"


def _alike(found: Any, right: Any) -> bool:
    if isinstance(found, float) or isinstance(right, float):
        try:
            return math.isclose(found, right, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (
                math.isnan(found) and math.isnan(right)
            )
        except TypeError:
            return False
    return bool(found == right)


def _outputs(answer: bytes) -> dict[str, Any] | None:
    """Outputs by name; None for what is no answer of the v2 protocol."""
    try:
        outputs = json.loads(answer)["outputs"]
        return {output["name"]: output for output in outputs}
    except (ValueError, KeyError, TypeError):
        return None


def _start(answer: bytes) -> str:
    return repr(answer[:_SHOWN].decode(errors="replace"))
