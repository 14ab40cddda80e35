"""Refuses JSON objects of which two members bear one name. No I/O.

tritonserver takes the first of two, the parser here the last; so neither may be left to choose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Raw

from serve.errors import BadRequest, shortened
from serve.invoke.request_types import EXPECTED, LongRequest

#: Of a request without its data, in bytes, where it is read member by member: 4,096 inputs with
#: names of 80 characters have half of it.
LONGEST_ENVELOPE = 1024 * 1024


def check_unique(text: bytes, request: LongRequest) -> None:
    """Read the envelope, the data cut out, member by member; raise BadRequest for two of a name."""
    pieces, position = [], 0
    for start, end in filter(None, find_data_spans(text, request)):
        pieces.append(text[position:start])
        position = end
    pieces.append(text[position:])
    envelope = b"0".join(pieces)
    if len(envelope) > LONGEST_ENVELOPE:
        raise BadRequest(
            "the body",
            f"{len(envelope)} bytes beside the inputs' data",
            f"at most {LONGEST_ENVELOPE}",
        )
    check_members(envelope)


def find_data_spans(text: bytes, request: LongRequest) -> Iterator[tuple[int, int] | None]:
    """Where each input's data start and end in the text; None for one without."""
    base = address(text)
    for tensor in request.inputs:
        if tensor.data:
            start = address(tensor.data) - base
            yield start, start + len(bytes(tensor.data))
        else:
            yield None


def address(buffer: bytes | Raw) -> int:
    """Where the bytes lie; what the parser skipped over lies inside the text that it read."""
    number: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return number


def check_members(envelope: bytes) -> None:
    """Raise BadRequest for two members of one name, in whatever object of it."""
    try:
        json.loads(envelope, object_pairs_hook=_unique, parse_int=_skipped, parse_float=_skipped)
    except (ValueError, RecursionError) as error:  # a byte that is no UTF-8, in a name
        raise BadRequest("the body", f"no JSON ({error})", EXPECTED) from error


def _skipped(number: str) -> int:
    """Instead of a number, which could be of a million digits."""
    return 0


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        twice = shortened(find_twice(name for name, _ in members))
        raise BadRequest("the body", f"the member {twice} twice in one object", "one")
    return unique


def find_twice(names: Iterable[str]) -> str:
    """The first name that stands there a second time; in one pass, since there can be many."""
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
