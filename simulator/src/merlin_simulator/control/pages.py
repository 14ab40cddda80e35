"""Lists as AWS gives them: filtered, sorted, in pages with tokens. No I/O."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from merlin_simulator.control.errors import ServiceError

_T = TypeVar("_T")

#: SageMaker's List* calls: ten if MaxResults is not given.
_DEFAULT = 10


def page(
    found: Sequence[_T],
    token: str | None,
    most: int | None,
    default: int = _DEFAULT,
    code: str | None = None,
) -> tuple[Sequence[_T], str | None]:
    """The page after the token, and the next one's token; None at the end. See read_start."""
    start = read_start(token, code)
    end = start + (most or default)
    return found[start:end], make_token(end) if end < len(found) else None


def make_token(start: int) -> str:
    """A token that names where the next page starts."""
    return base64.b64encode(json.dumps({"start": start}).encode()).decode()


def read_start(token: str | None, code: str | None = None) -> int:
    """Where the page of a token starts; 0 without one.

    Raises ServiceError for a token that is none; code: the service's own for it.
    """
    if token is None:
        return 0
    try:
        start = json.loads(base64.b64decode(token, validate=True))["start"]
        if type(start) is int and start >= 0:
            return start
    except (binascii.Error, ValueError, KeyError, TypeError, RecursionError):
        pass
    words = "Invalid pagination token: send the NextToken of the page before this one."
    raise ServiceError(words, code)


def filtered(
    records: Iterable[Mapping[str, Any]],
    asked: Mapping[str, Any],
    name: str,
    sorts: Mapping[str, str],
) -> list[Mapping[str, Any]]:
    """Records that pass SageMaker's filters, as its List* calls sort them.

    name: the record's member that NameContains looks at. sorts: the member that each value of
    SortBy means. Times are seconds since the epoch.
    """
    found = [record for record in records if _passes(record, asked, name)]
    by = sorts[asked.get("SortBy", "CreationTime")]
    descending = asked.get("SortOrder", "Descending") == "Descending"
    return sorted(found, key=lambda record: (record[by], record[name]), reverse=descending)


def _passes(record: Mapping[str, Any], asked: Mapping[str, Any], name: str) -> bool:
    if asked.get("NameContains", "").lower() not in record[name].lower():
        return False
    return all(
        asked.get(f"{member}After", -math.inf)
        < record[member]
        < asked.get(f"{member}Before", math.inf)
        for member in ("CreationTime", "LastModifiedTime")
        if member in record
    )
