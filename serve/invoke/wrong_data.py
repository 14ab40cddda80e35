"""PURE. Which value of a request is not of its input's data type: tritonserver's words do not say.

It says `attempt to access JSON non-signed-integer as signed-integer`, whatever the input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from serve.errors import shortened

_Fits = Callable[[Any], bool]


def describe_wrong_value(body: bytes) -> str | None:
    """A sentence about the first one; None where there is none to be found."""
    try:
        inputs = json.loads(body)["inputs"]
        return next(filter(None, map(_describe, inputs)), None)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _describe(given: Mapping[str, Any]) -> str | None:
    data_type = given["datatype"]
    fits = _FITS.get(data_type)
    for place, value in _values(given.get("data", [])):
        if fits is not None and not fits(value):
            return (
                f"the input {shortened(given['name'])}: found {_show(value)} at data{place}, "
                f"expected {_EXPECTED[data_type]}"
            )
    return None


def _values(data: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Each value, lists in lists included, with its place."""
    if not isinstance(data, list):
        yield place, data
        return
    for number, value in enumerate(data):
        yield from _values(value, f"{place}[{number}]")


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 40


#: As tritonserver reads them: of 64 bits, whatever the type has.
_INTEGERS: Mapping[str, tuple[int, int]] = {"INT": (-(1 << 63), 1 << 63), "UINT": (0, 1 << 64)}
_NAMES: Mapping[str, str] = {
    f"{kind}{bits}": kind for kind in _INTEGERS for bits in (8, 16, 32, 64)
}


def _is_integer(kind: str) -> _Fits:
    low, end = _INTEGERS[kind]
    return lambda value: type(value) is int and low <= value < end


_FITS: Mapping[str, _Fits] = {
    **{name: _is_integer(kind) for name, kind in _NAMES.items()},
    **{name: lambda value: type(value) in (int, float) for name in ("FP32", "FP64")},
    "BOOL": lambda value: type(value) is bool,
    "BYTES": lambda value: type(value) is str,
}
_EXPECTED: Mapping[str, str] = {
    **{
        name: f"whole numbers{' from 0 on' if kind == 'UINT' else ''} ({name})"
        for name, kind in _NAMES.items()
    },
    **{name: f"numbers ({name})" for name in ("FP32", "FP64")},
    "BOOL": "true or false (BOOL)",
    "BYTES": "strings (BYTES)",
}
