"""PURE. What is wrong with the columns of a request at which a model of Merlin's failed.

Compiled workflows and generated steps say it themselves. NVTabular and Merlin's executor raise
something else for the same request, so it is looked for once they have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from serve.errors import shortened

#: Longer JSON is not read again, in bytes.
_LONGEST_BODY = 64 * 1024
_BYTE_ORDER_MARK = "\ufeff"
_OFFSETS, _VALUES = "__offsets", "__values"


#: How compiled workflows and generated steps begin to refuse a request. Merlin's executor, and a
#: model that stands in front of an ensemble, pass their words on with another error around them.
_REFUSED = re.compile(
    r"(?:\w+(?:Error|Exception): )?"
    r"(?P<said>(?:refused by design: |the request has no rows: |(?:\w+: )?column ').*)",
    re.DOTALL,
)


def refused_by_step(cause: str) -> str | None:
    """What a step of ours said, if that is why a model failed; None for what another one says."""
    refused = _REFUSED.fullmatch(cause)
    return refused["said"] if refused else None


def find_mistake(said: Sequence[bytes]) -> str | None:
    """The first one; None where there is none to be found.

    said: the request in pieces, the first of which has its JSON.
    """
    if not said or len(said[0]) > _LONGEST_BODY:
        return None
    try:
        text = bytes(said[0]).decode(errors="replace").removeprefix(_BYTE_ORDER_MARK)
        inputs = {each["name"]: each for each in json.JSONDecoder().raw_decode(text)[0]["inputs"]}
        return next(_mistakes(inputs), None)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _mistakes(inputs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield from _wrong_rows(dict(_rows(inputs)))
    for name, given in inputs.items():
        data = given.get("data")
        if name.endswith(_OFFSETS) and data:
            yield from _wrong_offsets(name, data, inputs)
        if given["datatype"] == "BYTES" and data:
            yield from _not_ascii(name, data)


def _rows(inputs: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Each column and how many rows it has."""
    for name, given in inputs.items():
        if name.endswith(_OFFSETS):
            yield name.removesuffix(_OFFSETS), given["shape"][0] - 1
        elif not (name.endswith(_VALUES) and name.removesuffix(_VALUES) + _OFFSETS in inputs):
            yield name, given["shape"][0]


def _wrong_rows(rows: Mapping[str, int]) -> Iterator[str]:
    (first, expected), *others = rows.items()
    for name, found in others:
        if found != expected:
            yield (
                f"the columns: found {expected} rows of {shortened(first)} and {found} of "
                f"{shortened(name)}, expected as many of each"
            )
    if expected < 1:
        yield "the columns: found no rows, expected one at least"


def _wrong_offsets(
    name: str, offsets: Sequence[int], inputs: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    values = inputs[name.removesuffix(_OFFSETS) + _VALUES]["shape"][0]
    if offsets[0] != 0 or offsets[-1] != values or sorted(offsets) != [*offsets]:
        yield (
            f"the input {shortened(name)}: found offsets from {offsets[0]} to {offsets[-1]}, "
            f"expected them to ascend from 0 to {values}, the number of values"
        )


def _not_ascii(name: str, texts: Sequence[str]) -> Iterator[str]:
    for place, text in enumerate(texts):
        if isinstance(text, str) and not text.isascii():
            yield (
                f"the input {shortened(name)}: found text that is not ASCII at data[{place}], "
                "expected ASCII, which is all that Merlin reads"
            )
