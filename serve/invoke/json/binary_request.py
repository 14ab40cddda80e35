"""An inference request in JSON as the same request with binary tensors. No I/O.

tritonserver reads large JSON slowly, and binary tensors hardly at all. Only the long lists of data
are taken out of the text; what is left, the envelope, is read in full. tritonserver's rules for it
(ParseJsonTritonIO and ParseJsonTritonParams in http_server.cc) are followed where they are certain.
Anything else is NotTaken, and the request goes to tritonserver as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import orjson

from serve.invoke.json.tensor_json import DATA_TYPES, NotTaken, Steps, read_data

#: A list of data shorter than this stays in the envelope, in bytes.
_LEAST_LIST = 512
#: With less than this for each of them, in bytes, lists are not worth it, unless the whole text
#: is short.
_LEAST_ON_AVERAGE, _SHORT = 2048, 8 * 1024
#: The longest envelope that is read, in bytes; the most lists of data, inputs or outputs, and the
#: most dimensions, that a request may have to be read here. They bound how long that takes.
_LONGEST_ENVELOPE = 32 * 1024
_MOST_LISTS = 1000
_MOST_DIMENSIONS = 32

#: Bytes that are searched for one byte in one step.
_SEARCHED_AT_ONCE = 1024 * 1024

_KEY = b'"data"'
#: Behind a key: a list, in a group, as far as its first element.
_LIST = re.compile(rb"[ \t\r\n]{0,80}:[ \t\r\n]{0,80}(\[[\[ \t\r\n]{0,800})")
#: In front of the key of an object's first member.
_FIRST_MEMBER = re.compile(rb'[ \t\r\n]{0,80}\{(?=[ \t\r\n]{0,80}")')
#: Behind an input's list: its next member, or its end.
_AFTER_LIST = re.compile(rb'[ \t\r\n]{0,80}(?:,[ \t\r\n]{0,80}"|\})')
#: How many brackets inside strings are looked at for the end of their list before that is given up.
_MOST_GUESSES = 1000
#: Stands in the envelope where a list was: a string that JSON can hold only with its escape, which
#: must not be in the text itself.
_MARK, _MARK_WRITTEN = "\0data ", rb"\u0000data "
_MARKS_ESCAPE = rb"\u0000"

#: What an input says when its data are elsewhere than in its JSON.
_ELSEWHERE = {
    "binary_data_size",
    "shared_memory_region",
    "shared_memory_byte_size",
    "shared_memory_offset",
}


@dataclass(frozen=True)
class BinaryRequest:
    """The request's JSON part and its tensors, in the order of the inputs."""

    head: bytes
    tensors: list[bytes]
    #: The outputs that come back as binary tensors and that the caller wants in JSON; None for
    #: every output.
    in_json: frozenset[str] | None


def make_binary_request(text: bytes, answer_is_large: bool = False) -> Steps[BinaryRequest]:
    """Take the data out of a request; raises NotTaken.

    answer_is_large: it is worth it for the answer alone.
    """
    if len(text) > _SHORT and (yield from _has_many(text, len(text) // _LEAST_ON_AVERAGE)):
        # tritonserver is faster at many short lists, but not at writing a long one.
        if not answer_is_large:
            raise NotTaken
        return BinaryRequest(_ask_whole_for_binary(text), [], None)
    lists = yield from _find_lists(text)
    envelope = _read_envelope(text, lists)
    inputs = envelope.get("inputs")
    if not isinstance(inputs, list) or len(inputs) > _MOST_LISTS:
        raise NotTaken
    if not all(isinstance(each, dict) for each in inputs):
        raise NotTaken
    marked = [each for each in inputs if str(each.get("data")).startswith(_MARK)]
    if [each["data"] for each in marked] != [f"{_MARK}{n}" for n in range(len(lists))]:
        raise NotTaken  # a list that is not an input's data
    tensors: list[bytes] = []
    for each, (start, end) in zip(marked, lists, strict=True):
        tensors += yield from move_data(each, _count_elements(each), text, start, end)
    in_json = _ask_for_binary(envelope)
    return BinaryRequest(dump_envelope(envelope), tensors, in_json)


def move_data(
    each: dict[str, Any], elements: int, text: bytes, start: int, end: int
) -> Steps[list[bytes]]:
    """The data of an input, the list text[start:end], as a binary tensor, as it then says.

    elements: how many its shape has. Raises NotTaken.
    """
    pieces, count = yield from read_data(text, start, end, each["datatype"])
    if count != elements:
        raise NotTaken
    del each["data"]
    each["parameters"] = {**_parameters(each), "binary_data_size": sum(map(len, pieces))}
    return pieces


def _has_many(text: bytes, keys: int) -> Steps[bool]:
    """Whether there are more than so many."""
    count = 0
    for window in range(0, len(text), _SEARCHED_AT_ONCE):
        count += text.count(_KEY, window, window + _SEARCHED_AT_ONCE)
        if count > keys:
            return True
        yield
    return False


def _ask_whole_for_binary(text: bytes) -> bytes:
    """The same text with one parameter in front; NotTaken where that may not be the same request.

    Without a backslash no key is written in another way, and none stands inside a string.
    """
    if b"\\" in text or b'"parameters"' in text or b'"outputs"' in text:
        raise NotTaken
    start = _FIRST_MEMBER.match(text)
    if start is None:
        raise NotTaken
    return b'{"parameters":{"binary_data_output":true},' + text[start.end() :]


def _find_lists(text: bytes) -> Steps[list[tuple[int, int]]]:
    """Where the long lists stand that may be an input's data."""
    lists: list[tuple[int, int]] = []
    position = quote = brace = 0
    guesses = iter(range(_MOST_GUESSES))
    for _ in range(_MOST_LISTS):
        key = yield from _find_token(text, _KEY, position)
        if key == len(text):
            return lists
        position = key + len(_KEY)
        opening = _LIST.match(text, position)
        if opening is None:
            continue
        start, first = opening.span(1)
        if text[first : first + 1] == b'"':
            position = _end_of_strings(text, start, guesses)
        else:
            # Neither can stand in a list of numbers; each is looked for once, however many keys.
            if quote < start:
                quote = yield from _find_token(text, b'"', start)
            if brace < start:
                brace = yield from _find_token(text, b"}", start)
            position = text.rfind(b"]", start, min(quote, brace)) + 1
            if not position:
                raise NotTaken  # a list of numbers that does not end
        if position - start >= _LEAST_LIST:
            lists.append((start, position))
    raise NotTaken


def _find_token(text: bytes, token: bytes, start: int) -> Steps[int]:
    for window in range(start, len(text), _SEARCHED_AT_ONCE):
        position = text.find(token, window, window + _SEARCHED_AT_ONCE + len(token) - 1)
        if position >= 0:
            return position
        yield
    return len(text)


def _end_of_strings(text: bytes, start: int, guesses: Iterator[int]) -> int:
    """Behind the first bracket that may end a list of strings; NotTaken if there is none.

    A wrong guess shows: the list, or what is left of the envelope, then is no JSON.
    """
    position = start
    for _ in guesses:
        position = text.find(b"]", position) + 1
        if not position:
            break
        if _AFTER_LIST.match(text, position) and _ends(text, position - 1):
            return position
    raise NotTaken


def _ends(text: bytes, bracket: int) -> bool:
    """Whether a string or a list ends in front of this bracket, and not a number."""
    before = text[max(0, bracket - 80) : bracket].rstrip()
    return before.endswith((b'"', b"]"))


def _read_envelope(text: bytes, lists: list[tuple[int, int]]) -> dict[str, Any]:
    pieces: list[bytes] = []
    position = 0
    for number, (start, end) in enumerate(lists):
        pieces += (text[position:start], b'"%s%d"' % (_MARK_WRITTEN, number))
        position = end
    pieces.append(text[position:])
    if sum(map(len, pieces)) > _LONGEST_ENVELOPE:
        raise NotTaken
    if any(_MARKS_ESCAPE in piece for piece in pieces[::2]):
        raise NotTaken
    try:
        # A number that is no integer stays the text that it is.
        envelope = json.loads(
            b"".join(pieces).decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=lambda number: orjson.Fragment(number),
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError) as error:
        raise NotTaken from error
    if not isinstance(envelope, dict):
        raise NotTaken
    return envelope


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        raise NotTaken  # tritonserver takes the first of two
    return unique


def _refuse(constant: str) -> Any:
    raise NotTaken


def _count_elements(each: dict[str, Any]) -> int:
    """How many elements an input's shape declares."""
    shape, parameters = each.get("shape"), _parameters(each)
    datatype = each.get("datatype")
    if not isinstance(each.get("name"), str) or not isinstance(datatype, str):
        raise NotTaken
    if datatype not in DATA_TYPES or _ELSEWHERE & set(parameters):
        raise NotTaken
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
        raise NotTaken
    if not all(type(size) is int and 0 < size < 1 << 63 for size in shape):
        raise NotTaken
    return prod(shape)


def _parameters(of: dict[str, Any]) -> dict[str, Any]:
    parameters = of.get("parameters", {})
    if not isinstance(parameters, dict):
        raise NotTaken
    return parameters


def _ask_for_binary(envelope: dict[str, Any]) -> frozenset[str] | None:
    """Ask for every output as a binary tensor; the outputs that the caller wants in JSON."""
    outputs = envelope.get("outputs", [])
    if not isinstance(outputs, list) or len(outputs) > _MOST_LISTS:
        raise NotTaken
    if outputs:
        in_json = frozenset(name for each in outputs for name in _asked_for_binary(each))
        if len({each["name"] for each in outputs}) != len(outputs):
            raise NotTaken  # tritonserver takes the first of two
        return in_json
    parameters = _parameters(envelope)
    binary = parameters.get("binary_data_output", False)
    if type(binary) is not bool:
        raise NotTaken
    envelope["parameters"] = {**parameters, "binary_data_output": True}
    return frozenset() if binary else None


def _asked_for_binary(output: Any) -> Iterator[str]:
    if not isinstance(output, dict) or not isinstance(output.get("name"), str):
        raise NotTaken
    parameters = _parameters(output)
    if "classification" in parameters:
        raise NotTaken  # classes are strings, as many as the caller asked for
    if "shared_memory_region" in parameters:
        return
    binary = parameters.get("binary_data", False)
    if type(binary) is not bool:
        raise NotTaken
    if not binary:
        output["parameters"] = {**parameters, "binary_data": True}
        yield output["name"]


def dump_envelope(envelope: dict[str, Any]) -> bytes:
    """The request without what was moved; raises NotTaken."""
    try:
        return orjson.dumps(envelope)
    except TypeError as error:  # an integer of more than 64 bits, a lone surrogate
        raise NotTaken from error
