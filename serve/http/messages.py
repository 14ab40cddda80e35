"""The bodies of the contract; the only place that knows its wire names."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from serve.errors import BadRequest
from serve.models.registry import Model

#: The most models that a page with a limit may hold; without one the page holds all.
MAX_PAGE = 10_000


_EXPECTED = 'a JSON object {"model_name": "...", "url": "..."}'


@dataclass(frozen=True)
class LoadRequest:
    """POST /models. Fields that the contract does not have yet are let through."""

    model_name: str
    url: str


def parse_load_request(body: bytes) -> LoadRequest:
    """Read the body of POST /models, whatever its Content-Type; raises BadRequest."""
    try:
        read = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body", "no JSON", _EXPECTED) from error
    if not isinstance(read, dict):
        raise BadRequest("the body", "JSON that is no object", _EXPECTED)
    return LoadRequest(_text(read, "model_name"), _text(read, "url"))


def model_body(model: Model) -> dict[str, str]:
    """One model as GET /models/{name} answers it."""
    return {"modelName": model.name, "modelUrl": model.url}


def list_body(models: Iterable[Model], *, more: bool) -> bytes:
    """A page of models as GET /models answers it."""
    listed = [model_body(model) for model in models]
    body: dict[str, object] = {"models": listed}
    if more and listed:
        body["nextPageToken"] = _token(listed[-1]["modelName"])
    return json.dumps(body).encode()


def parse_page(query: Mapping[str, str]) -> tuple[str, int | None]:
    """(name to start after, most models to list) of GET /models; raises BadRequest."""
    token = query.get("next_page_token", "")
    return _name_of_token(token) if token else "", _limit(query.get("limit"))


def error_body(message: str) -> bytes:
    """Every error's body."""
    return json.dumps({"error": message}).encode()


def _limit(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) == 0:
        raise BadRequest("the parameter `limit`", repr(text[:40]), "a whole number above 0")
    return min(int(text), MAX_PAGE)


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _name_of_token(token: str) -> str:
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        name = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise BadRequest(
            "the parameter `next_page_token`", repr(token[:40]), "a nextPageToken of this endpoint"
        ) from error
    return name


def _text(read: Mapping[str, Any], field: str) -> str:
    if field not in read:
        raise BadRequest(f"the field `{field}`", "nothing", f"a string in {_EXPECTED}")
    value = read[field]
    if not isinstance(value, str):
        raise BadRequest(f"the field `{field}`", type(value).__name__, "a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # an escape of half a character
        raise BadRequest("the body", "no JSON", _EXPECTED) from error
    return value
