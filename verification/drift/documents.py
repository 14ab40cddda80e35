"""What the container said of its models' columns: read from its route, or from a file of that."""

from __future__ import annotations

import http.client
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Hashable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ensemble_tools.serving.features import FITTED, FORMAT, VERSION, ModelFeatures
from ensemble_tools.workflows.runtime.feature_counts import BUCKETS, ColumnCounts, add_counts
from serve.http.contract_bodies import read_list_body
from verification.errors import CountsUnusable

#: For one answer of the container, in seconds; and bytes of an answer, or of a file.
_TIMEOUT_S, _MOST_BYTES = 10.0, 256 * 2**20
#: Names of models that a sentence has.
_MOST_NAMES = 20
#: Characters of a page's token that a sentence has, and pages of one list of models.
_MOST_SHOWN = 60
_MOST_PAGES = 10_000
_A_DOCUMENT = (
    f'the JSON of GET /models/<name>/features or of drift --json, with "format": "{FORMAT}" and '
    f'"version": {VERSION}'
)
_MODELS = TypeAdapter(list[ModelFeatures])
#: What is summed up since the model was loaded.
_NUMBERS = tuple(
    it.name
    for it in fields(ColumnCounts)
    if it.name not in ("column", "buckets", "fitted", "has_keys")
)
#: Those that never become smaller.
_WHOLE = tuple(name for name in _NUMBERS if not name.startswith("sum"))


def read_models(source: str, name: str | None) -> list[ModelFeatures]:
    """The models of a URL or a file, or those of one name: the platform's or the archive's.

    Raises CountsUnusable.
    """
    if "://" in source:
        return _ask_models(source.rstrip("/"), name)
    models = read_document(source, _read_file(Path(source)))
    return models if name is None else _pick(source, models, name)


def read_document(source: str, content: bytes) -> list[ModelFeatures]:
    """The models of a document. Raises CountsUnusable."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CountsUnusable(source, f"it is no JSON ({error})", _A_DOCUMENT) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CountsUnusable(source, "JSON of another kind", _A_DOCUMENT)
    if document.get("version") != VERSION:
        found = f"version {document.get('version')!r}"
        raise CountsUnusable(source, found, f"version {VERSION}; read it with the newer release")
    try:
        models = _MODELS.validate_python(document.get("models"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("models", *first["loc"])))
        raise CountsUnusable(source, f"{where}: {first['msg']}", _A_DOCUMENT) from error
    for model in models:
        for columns in model.workflows.values():
            for counts in columns:
                _check(source, model, counts)
    return models


def subtract(models: list[ModelFeatures], before: list[ModelFeatures]) -> list[ModelFeatures]:
    """What has come since an earlier look; all of it for a model that has begun anew since."""
    earlier = {(_identify(model), model.began): model for model in before}
    return [
        _subtract_model(model, earlier.get((_identify(model), model.began))) for model in models
    ]


def _subtract_model(now: ModelFeatures, before: ModelFeatures | None) -> ModelFeatures:
    if before is None:
        return now
    workflows = {
        name: tuple(map(_subtract, columns, before.workflows[name]))
        for name, columns in now.workflows.items()
    }
    # In a document that does not say when the counting began, a count that fell says it.
    fell = any(
        min(getattr(counts, name) for name in _WHOLE) < 0 or min(counts.buckets, default=0) < 0
        for columns in workflows.values()
        for counts in columns
    )
    return now if fell else replace(now, workflows=workflows, is_since=True)


def _subtract(now: ColumnCounts, before: ColumnCounts) -> ColumnCounts:
    numbers = {name: getattr(now, name) - getattr(before, name) for name in _NUMBERS}
    buckets = tuple(more - less for more, less in zip(now.buckets, before.buckets, strict=True))
    return replace(now, **numbers, buckets=buckets)


def _identify(model: ModelFeatures) -> Hashable:
    """Its name, and what its columns were fitted to."""
    fits = tuple(
        (workflow, counts.column, counts.fitted, len(counts.buckets))
        for workflow, columns in model.workflows.items()
        for counts in columns
    )
    return model.model_name, fits


def _check(source: str, model: ModelFeatures, counts: ColumnCounts) -> None:
    """What pydantic does not: numbers that no container writes."""
    where = f"model {model.model_name}, column {counts.column!r}"
    whole = [value for name in _NUMBERS if isinstance(value := getattr(counts, name), int)]
    if not all(0 <= it < 2**63 for it in (*whole, *counts.buckets, *counts.fitted.buckets)):
        raise CountsUnusable(source, f"{where}: a count below 0 or above 2**63", _A_DOCUMENT)
    fitted = counts.fitted
    floats = (counts.sum, counts.sum_of_squares, *(getattr(fitted, it) for it in FITTED))
    if not all(math.isfinite(it) for it in floats if it is not None):
        raise CountsUnusable(source, f"{where}: a number that is not finite", _A_DOCUMENT)
    for buckets in (counts.buckets, fitted.buckets):
        if len(buckets) not in (0, BUCKETS):
            found = f"{where}: {len(buckets)} buckets"
            raise CountsUnusable(source, found, f"{BUCKETS}, or none")


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError as error:
        found = f"it cannot be read ({error.strerror})"
        expected = f"{_A_DOCUMENT}; or the container's URL, such as http://127.0.0.1:8080"
        raise CountsUnusable(str(path), found, expected) from error


def _ask_models(url: str, name: str | None) -> list[ModelFeatures]:
    """Those of a container, or of all containers of a simulator."""
    models = _ask_container(url, name)
    if models is None:
        answers = [_ask_container(it, name) for it in _list_containers(url)]
        models = [model for answer in answers for model in answer or []]
        if not answers or None in answers:
            raise _refuse_list(url, 404)
        models = _add_up(models)
    return models if name is None else _pick(url, models, name)


def _ask_container(url: str, name: str | None) -> list[ModelFeatures] | None:
    """All models, or the named one; None where none is named so and no models are listed."""
    # The container logs an archive's name in the place of a model's as a request that it refused.
    is_archive = name is not None and ("/" in name or name.endswith(".tar.gz"))
    if name is not None and not is_archive and (named := _ask_model(url, name)) is not None:
        return named
    if (names := _list_names(url)) is None:
        return None
    answers = [_ask_model(url, listed) for listed in names]
    models = [model for answer in answers if answer is not None for model in answer]
    if names and not models:
        found = f"it has {len(names)} models, and no path /models/<name>/features"
        raise CountsUnusable(url, found, "a container that counts; older ones do not")
    return models


def _list_containers(url: str) -> list[str]:
    """Those of a simulator, each by its URL; none of another server."""
    status, body = _get(f"{url}/simulator/targets")
    try:
        hosts = [host for group in json.loads(body) for host in group["targets"]]
    except (ValueError, TypeError, LookupError, RecursionError):
        return []
    return [f"http://{host}" for host in hosts] if status == 200 else []


def _add_up(models: list[ModelFeatures]) -> list[ModelFeatures]:
    """A model of several containers as one; as several where they are not fitted alike."""
    sums: dict[Hashable, ModelFeatures] = {}
    for model in models:
        key = _identify(model)
        sums[key] = _add(sums[key], model) if key in sums else model
    counted = {model.model_name for model in sums.values() if model.workflows}
    return [it for it in sums.values() if it.workflows or it.model_name not in counted]


def _add(first: ModelFeatures, other: ModelFeatures) -> ModelFeatures:
    workflows = {
        name: tuple(map(add_counts, columns, other.workflows[name]))
        for name, columns in first.workflows.items()
    }
    return replace(first, workflows=workflows, began=tuple(sorted((*first.began, *other.began))))


def _ask_model(url: str, name: str) -> list[ModelFeatures] | None:
    """None for one that is not there (any more)."""
    path = f"{url}/models/{_quote(name)}/features"
    status, body = _get(path)
    if status not in (200, 404):
        raise CountsUnusable(path, f"it was answered with {status}", "200; the log says why")
    return read_document(url, body) if status == 200 else None


def _list_names(url: str) -> list[str] | None:
    """The names of the loaded models, of all pages; None where there is no such path."""
    listed: list[str] = []
    token, tokens = "", set[str]()
    while True:
        query = f"?next_page_token={_quote(token)}" if token else ""
        status, body = _get(f"{url}/models{query}")
        if status == 404:
            return None
        try:
            names, token = read_list_body(body)
        except (ValueError, TypeError, KeyError) as error:
            raise _refuse_list(url, status) from error
        listed += names
        if not token or not names:
            return listed
        if token in tokens or len(tokens) == _MOST_PAGES:
            found = f"GET /models does not end: after {len(tokens) + 1} pages nextPageToken is"
            expected = "one that leads to a new page, or none on the last"
            raise CountsUnusable(url, f"{found} {token[:_MOST_SHOWN]!r}", expected)
        tokens.add(token)


def _refuse_list(url: str, status: int) -> CountsUnusable:
    return CountsUnusable(
        url,
        f"GET /models was answered with {status}, and no list of models",
        "the address of a container's API, such as http://127.0.0.1:8080, or of a simulator whose "
        "endpoint is in service; of a single-model endpoint name the model, too",
    )


def _pick(source: str, models: list[ModelFeatures], name: str) -> list[ModelFeatures]:
    picked = [model for model in models if name in (model.model_name, model.target_model)]
    if not picked:
        names = [model.target_model or model.model_name for model in models]
        more = ", …" if len(names) > _MOST_NAMES else ""
        shown = ", ".join(names[:_MOST_NAMES]) + more
        listed = f"one of {shown}" if names else "a loaded one: there is none"
        raise CountsUnusable(source, f"no model is called {name!r}", listed)
    return picked


def _get(url: str) -> tuple[int, bytes]:
    """Status and body. Raises CountsUnusable where nobody answers."""
    # Not by the environment's proxies: they know no container's address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"unknown scheme {url.partition(':')[0]!r}")
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            return answer.status, answer.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        return error.code, error.read(_MOST_BYTES)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason: Any = getattr(error, "reason", None) or error
        raise CountsUnusable(
            url,
            f"no container answers there ({reason})",
            "the address of the container's API, such as http://127.0.0.1:8080",
        ) from error


def _quote(name: str) -> str:
    return urllib.parse.quote(name, safe="")
