"""The bodies of the contract; the only module that knows its wire names."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from serve.errors import BadRequest, CallerError
from serve.models.registry import Model

#: The most models that a page with a limit may hold; without one the page holds all.
MAX_PAGE = 10_000


class LoadRequest(BaseModel):
    """POST /models. Fields that the contract does not have yet are let through."""

    model_config = ConfigDict(protected_namespaces=(), extra="ignore")

    model_name: StrictStr
    url: StrictStr


def parse_load_request(body: bytes) -> LoadRequest:
    """Read the body of POST /models, whatever its Content-Type; raises BadRequest."""
    try:
        return LoadRequest.model_validate_json(body)
    except ValidationError as error:
        raise _describe_mistake(error) from error


def model_body(model: Model) -> dict[str, str]:
    """One model as GET /models/{name} answers it."""
    return {"modelName": model.name, "modelUrl": model.url}


def list_body(models: Iterable[Model], *, more: bool) -> bytes:
    """A page of models as GET /models answers it."""
    listed = [model_body(model) for model in models]
    body: dict[str, object] = {"models": listed}
    if more and listed:
        body["nextPageToken"] = _read_token(listed[-1]["modelName"])
    return json.dumps(body).encode()


def read_list_body(body: bytes) -> tuple[list[str], str]:
    """The models' names in an answer of GET /models, and the token of the next page, if any.

    Raises ValueError, TypeError or KeyError for another body.
    """
    page = json.loads(body)
    names = [str(model["modelName"]) for model in page["models"]]
    return names, str(page.get("nextPageToken") or "")


def parse_page(query: Mapping[str, str]) -> tuple[str, int | None]:
    """(name to start after, most models to list) of GET /models; raises BadRequest."""
    token = query.get("next_page_token", "")
    return _name_of_token(token) if token else "", _limit(query.get("limit"))


def write_error_body(message: str) -> bytes:
    """Every error's body."""
    return json.dumps({"error": message}).encode()


def _limit(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) == 0:
        raise BadRequest("the parameter `limit`", repr(text[:40]), "a whole number above 0")
    return min(int(text), MAX_PAGE)


def _read_token(name: str) -> str:
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


def _describe_mistake(error: ValidationError) -> CallerError:
    """The first complaint as one sentence."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    expected = 'a JSON object {"model_name": "...", "url": "..."}'
    if first["type"] == "json_invalid":
        return BadRequest("the body", "no JSON", expected)
    if not field:
        return BadRequest("the body", "JSON that is no object", expected)
    if first["type"] == "missing":
        return BadRequest(f"the field `{field}`", "nothing", f"a string in {expected}")
    return BadRequest(f"the field `{field}`", f"{type(first['input']).__name__}", "a string")
