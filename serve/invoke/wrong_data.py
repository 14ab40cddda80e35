"""Which value of a request is not of its input's data type: tritonserver's words do not say.

It says `attempt to access JSON non-signed-integer as signed-integer`, whatever the input.

No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from serve.errors import shortened

_Fits = Callable[[Any], bool]
#: Characters of a value, and indices of its place, that a sentence has.
_LONGEST_VALUE = 40
_LONGEST_PLACE = 4
#: Longer data are not read again, in bytes.
_LONGEST_DATA = 64 * 1024
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Explanation:
    """said: the sentence for the caller. logged: the same without his values; empty for none."""

    said: str
    logged: str = ""


def find_wrong_value(body: bytes) -> Explanation | None:
    """The first one; None where there is none to be found. Behind JSON there may be tensors."""
    try:
        text = body.decode(errors="replace").removeprefix(_BYTE_ORDER_MARK)
        inputs = json.JSONDecoder().raw_decode(text)[0]["inputs"]
        return next(filter(None, map(_describe, inputs)), None)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def find_wrong_in(name: str, data_type: str, data: bytes) -> Explanation | None:
    """The first one in the data of one input; None as above, and where they are long."""
    if len(data) > _LONGEST_DATA:
        return None
    try:
        return _describe_wrong(name, data_type, json.loads(data))
    except (ValueError, RecursionError):
        return None


def _describe(tensor: Mapping[str, Any]) -> Explanation | None:
    return _describe_wrong(tensor["name"], tensor["datatype"], tensor.get("data", []))


def _describe_wrong(name: str, data_type: str, data: Any) -> Explanation | None:
    fits = _FITS.get(data_type)
    position = _find(data, fits) if fits is not None else None
    if position is None:
        return None
    place, value = position
    where, expected = f"the input {shortened(name)}", _EXPECTED[data_type]
    return Explanation(
        f"{where}: found {_show(value)} at data{place}, expected {expected}",
        f"{where}: found another value at data{place}, expected {expected}",
    )


def _find(data: Any, fits: _Fits) -> tuple[str, Any] | None:
    """The first value that does not fit, lists in lists included, and its place."""
    levels: list[Iterator[Any]] = [iter([data])]
    places = [-1]
    while levels:
        for value in levels[-1]:
            places[-1] += 1
            if isinstance(value, list):
                levels.append(iter(value))
                places.append(-1)
                break
            if not fits(value):
                return _place(places[1:]), value
        else:
            levels.pop()
            places.pop()
    return None


def _place(indices: list[int]) -> str:
    shown = "".join(f"[{index}]" for index in indices[:_LONGEST_PLACE])
    return f"{shown}…" if len(indices) > _LONGEST_PLACE else shown


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


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
