"""What is wrong with a request, where tritonserver's words do not say: which input, which value.

Of a wrong value it says `attempt to access JSON non-signed-integer as signed-integer`, whatever the
input. Callers' own words stand in its messages, so nothing here takes longer than their length. No
I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from serve.errors import shortened
from serve.triton.diagnosis.verdicts import MANY_ANSWERS

_Fits = Callable[[Any], bool]
#: Bodies up to here are read again, which takes some ms; most longer ones are translated.
_LONGEST_BODY = 64 * 1024
#: Names in one sentence.
_MOST = 20
#: Of the model's, names that one of a request's is compared with, and characters of that.
_MOST_ALIKE, _LONGEST_NAME = 500, 100

_WRONG_DATA = "Unable to parse 'data': "
_ID, _ID_END, _LONGEST_ID = "[request id: ", "] ", 300
_GOT = re.compile(r"expected \d+ inputs but got \d+ inputs for model '[^']*'\. Got input\(s\) \[")
_MISSING = "], but missing required input(s) "
_NO_OUTPUT = "unexpected inference output '"
_UNKNOWN = re.compile(r"unexpected inference input '")
_OF_MODEL = "' for model '"
#: Characters of a value, and indices of its position, that a sentence has.
_LONGEST_VALUE = 40
_MOST_INDICES = 4
#: Longer data are not read again, in bytes.
_LONGEST_DATA = 64 * 1024
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Explanation:
    """A mistake in a request."""

    said: str  # the sentence for the caller
    logged: str = ""  # the same without his values; empty for none


def explain_refusal(
    message: str,
    body: Sequence[bytes],
    find_inputs: Callable[[], Mapping[str, bool]],
    streaming: str,
    find_outputs: Callable[[], Collection[str]] = tuple,
) -> Explanation:
    """The sentence for a caller; the message itself where it is clear, or not known here.

    body: the request's, in pieces. find_inputs: the names of the model's and whether a request
    must have them; none where they are not known. streaming: what makes an endpoint answer in
    streams, in words. find_outputs: the names of its outputs; none where unknown.
    """
    if message.startswith(_WRONG_DATA) and sum(map(len, body)) <= _LONGEST_BODY:
        return find_wrong_value(b"".join(body)) or Explanation(message)
    if message.startswith(MANY_ANSWERS):
        return Explanation(
            "the model is decoupled: it answers in as many pieces as it likes, and an answer here "
            f"is one; {streaming} makes an endpoint that answers in streams"
        )
    rest = _remove_id(message)
    if rest.startswith(_NO_OUTPUT) and (there := find_outputs()):
        meant = _guess(rest.removeprefix(_NO_OUTPUT).rpartition(_OF_MODEL)[0], there)
        return Explanation(f"{message}; expected one of {_list(there)}{meant}")
    return Explanation(_explain_names(message, find_inputs) or message)


def find_wrong_value(body: bytes) -> Explanation | None:
    """The first wrong value; None where none is found. Behind JSON there may be tensors."""
    try:
        text = body.decode(errors="replace").removeprefix(_BYTE_ORDER_MARK)
        inputs = json.JSONDecoder().raw_decode(text)[0]["inputs"]
        return next(filter(None, map(_describe, inputs)), None)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def find_wrong_in(name: str, data_type: str, data: bytes) -> Explanation | None:
    """The first wrong value in the data of one input; None for none, and where they are long."""
    if len(data) > _LONGEST_DATA:
        return None
    try:
        return _describe_wrong(name, data_type, json.loads(data))
    except (ValueError, RecursionError):
        return None


def _explain_names(message: str, find_inputs: Callable[[], Mapping[str, bool]]) -> str | None:
    rest = _remove_id(message)
    if got := _GOT.match(rest):
        names, given, _ = rest[got.end() :].rpartition(_MISSING)
        if given:
            return _describe_inputs(names.strip("'").split("','"), find_inputs())
    if unknown := _UNKNOWN.match(rest):
        name, given, _ = rest[unknown.end() :].rpartition(_OF_MODEL)
        if given:
            return _describe_inputs([name], find_inputs(), are_all=False)
    return None


def _remove_id(message: str) -> str:
    """A long id, which may hold anything, is left where it is: the message is then not known."""
    if not message.startswith(_ID):
        return message
    end = message.find(_ID_END, len(_ID), _LONGEST_ID)
    return message[end + len(_ID_END) :] if end >= 0 else message


def _describe_inputs(
    got: Sequence[str], inputs: Mapping[str, bool], *, are_all: bool = True
) -> str | None:
    """got: names of a request's inputs. are_all: whether it has no others."""
    if not inputs:
        return None
    there = {*got}
    unknown = [name for name in got if name and name not in inputs]
    lacking = [name for name, is_required in inputs.items() if is_required and name not in there]
    described = [
        *([f"{_list(unknown)}, which the model has not"] if unknown else []),
        *([f"nothing for {_list(lacking)}"] if lacking and are_all else []),
    ]
    if not described:
        return None
    meant = _guess(unknown[0], inputs) if unknown else ""
    return f"the inputs: found {', and '.join(described)}; expected {_list(inputs)}{meant}"


def _guess(name: str, names: Collection[str]) -> str:
    """Guesses what an unknown name was meant to be, if one of the model's is like it."""
    mark = f"; a byte order mark stands in front of {shortened(name)}" * name.startswith("\ufeff")
    known = {each.casefold(): each for each in [*names][:_MOST_ALIKE]}
    plain = name[:_LONGEST_NAME].strip("\ufeff \t\r\n").casefold()
    alike = get_close_matches(plain, known, 1)
    return mark + (f"; did you mean {shortened(known[alike[0]])}?" if alike else "")


def _list(names: Collection[str]) -> str:
    shown = [shortened(name) for name in [*names][:_MOST]]
    return ", ".join(shown) + (", …" if len(names) > _MOST else "")


def _describe(tensor: Mapping[str, Any]) -> Explanation | None:
    return _describe_wrong(tensor["name"], tensor["datatype"], tensor.get("data", []))


def _describe_wrong(name: str, data_type: str, data: Any) -> Explanation | None:
    fits = _FITS.get(data_type)
    wrong = _find(data, fits) if fits is not None else None
    if wrong is None:
        return None
    indices, value = wrong
    where, expected = f"the input {shortened(name)}", _EXPECTED[data_type]
    return Explanation(
        f"{where}: found {_show(value)} at data{indices}, expected {expected}",
        f"{where}: found another value at data{indices}, expected {expected}",
    )


def _find(data: Any, fits: _Fits) -> tuple[str, Any] | None:
    """The first value that does not fit, lists in lists included, and where it stands."""
    levels: list[Iterator[Any]] = [iter([data])]
    indices = [-1]
    while levels:
        for value in levels[-1]:
            indices[-1] += 1
            if isinstance(value, list):
                levels.append(iter(value))
                indices.append(-1)
                break
            if not fits(value):
                return _write_indices(indices[1:]), value
        else:
            levels.pop()
            indices.pop()
    return None


def _write_indices(indices: list[int]) -> str:
    shown = "".join(f"[{index}]" for index in indices[:_MOST_INDICES])
    return f"{shown}…" if len(indices) > _MOST_INDICES else shown


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
