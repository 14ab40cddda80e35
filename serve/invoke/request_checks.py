"""Checks an inference request before tritonserver sees it. No I/O.

tritonserver believes what a request says of itself. A shape that the data do not have makes it take
the memory of that shape, or overflow; deep nesting ends its stack; either kills it, and with it the
models of every other tenant (docs/security.md has the list). So each request is read by a parser
that knows what it must hold: names, data types, shapes and parameters by their declared types, the
data skipped over without being built. Then the shape is held against the data.

What follows from a request that passes: tritonserver takes no more memory for an input than eight
times its text; no two members of an object bear one name, so that tritonserver reads the same as
was read here (it takes the first of two, this parser the last); no nesting ends a stack. Whether
inputs fit the model is tritonserver's to say. Source of its rules: ParseJsonTritonIO,
ReadDataFromJson and ParseJsonTritonParams in http_server.cc, releases 23.06 to 24.10.

The check is on the hot path: an answer of 70 bytes allows it two microseconds.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Generator, Sequence
from math import prod
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from serve.errors import BadRequest, BodyTooLarge, CallerError
from serve.invoke.json.exact_doubles import GivenInput
from serve.invoke.request_types import (
    NUMBERS,
    LongRequest,
    ShortRequest,
    decode_long,
    decode_object,
    decode_short,
    read_leniently,
)
from serve.invoke.tensor_checks import (
    are_unique,
    check_binary,
    check_data,
    check_names,
    check_outputs,
    check_parameters,
    read_binary_size,
)
from serve.invoke.unique_members import (
    LONGEST_ENVELOPE,
    check_members,
    check_unique,
    find_data_spans,
)

_ONLY_STRINGS = {str}
_ONLY_NUMBERS = {int, float}
#: Exponents that tritonserver may refuse, as it does that of 0e309. A search that begins with one
#: letter takes a twentieth of the time of one that begins with either.
_LARGE_EXPONENTS = (re.compile(rb"e\+?[0-9]{3}"), re.compile(rb"E\+?[0-9]{3}"))
#: Up to this many bytes a request's data are built, to count them, which is faster where each input
#: has few; and up to so many where that is likely, since so many lists begin in its first bytes.
_SHORT, _SHORT_INPUTS = 4096, 64 * 1024
_LISTS, _FIRST = 8, 1024
#: The longest JSON that is read here, in bytes: a tenth of a second in which nobody is served.
#: What is longer is for binary tensors; long lists of JSON come here as such (translation.py).
LONGEST_JSON = 16 * 1024 * 1024
_INSTEAD = ": send binary tensors, or fewer rows"
#: Strings whose lengths are looked at in one step.
_LENGTHS_AT_ONCE = 1000


class CheckedRequest(NamedTuple):
    """A request that tritonserver may be given, and the work that is left with it."""

    #: For check_strings: (start, end, elements) of each binary tensor of strings, counted from the
    #: first byte behind the text.
    strings: tuple[tuple[int, int, int], ...] = ()
    #: For read_exact_doubles: all inputs, where JSON has FP64 in it; else none.
    with_doubles: tuple[GivenInput, ...] = ()
    #: The request with its FP64 as binary tensors, JSON first, where that is done already: of one
    #: that is plain and short.
    written: tuple[bytes, ...] = ()

    @property
    def has_doubles(self) -> bool:
        """Whether JSON has FP64 in it, which tritonserver would round wrongly."""
        return bool(self.written or self.with_doubles)


_NOTHING_LEFT = CheckedRequest()


def check_request(text: bytes, binary: int = 0, threshold: str = "the threshold") -> CheckedRequest:
    """Raise BadRequest for an inference that tritonserver must not be given.

    text: the request's JSON. binary: bytes of binary tensors behind it. threshold: what sets the
    size from which on JSON is translated, as a message names it.
    """
    if not binary and (len(text) <= _SHORT or _has_short_inputs(text)):
        try:
            request = decode_short(text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return _check_long(text, binary, threshold)
        if _is_plain(request, text):
            if all(tensor.datatype != "FP64" for tensor in request.inputs):
                return _NOTHING_LEFT
            if written := _write_doubles(request, text):
                return CheckedRequest(written=written)
    return _check_long(text, binary, threshold)


def _has_short_inputs(text: bytes) -> bool:
    """Whether its data are few for each input, as far as its beginning shows, and flat lists."""
    return (
        len(text) <= _SHORT_INPUTS
        and text.count(b"[", 0, _FIRST) >= _LISTS
        and text.find(b"[[", 0, _FIRST) < 0
    )


def _is_plain(request: ShortRequest, text: bytes) -> bool:
    """Whether it is a request of nothing but inputs with few data, and right: most are."""
    members, lists = 1, 1 + 2 * len(request.inputs)
    for tensor in request.inputs:
        elements = prod(tensor.shape)
        if len(tensor.data) != elements or not elements or tensor.parameters is not UNSET:
            return False
        datatype = tensor.datatype
        if datatype not in NUMBERS and (datatype != "BYTES" or not _are_strings(tensor.data)):
            return False
        members += 4
    if request.outputs is not UNSET:
        members += 1 + len(request.outputs)
        lists += 1
        if any(output.parameters is not UNSET for output in request.outputs):
            return False
        if not are_unique(request.outputs):
            return False
    if request.parameters is not UNSET:
        return False
    if request.id is not UNSET:
        members += 1
    # Each member has a colon. One more stands in a string, in what no rule reads, or in a second
    # member of the same name. Each list has a bracket: one more stands in a string, or inside of
    # data, where the number of elements is another than that of the outermost ones.
    return text.count(b":") == members and text.count(b"[") == lists and are_unique(request.inputs)


def _write_doubles(request: ShortRequest, text: bytes) -> tuple[bytes, ...]:
    """A plain request with its FP64 as binary tensors (exact_doubles); nothing where that differs.

    The parser has rounded them as it should.
    """
    inputs: list[Any] = []
    tensors: list[bytes] = []
    for tensor in request.inputs:
        if tensor.datatype != "FP64":
            inputs.append(tensor)
            continue
        if not {*map(type, tensor.data)} <= _ONLY_NUMBERS:
            return ()
        if 0 in tensor.data and any(large.search(text) for large in _LARGE_EXPONENTS):
            return ()
        try:
            tensors.append(struct.pack(f"<{len(tensor.data)}d", *tensor.data))
        except (OverflowError, struct.error):  # an integer that is too large
            return ()
        size = {"binary_data_size": len(tensors[-1])}
        described = {"name": tensor.name, "shape": tensor.shape, "datatype": "FP64"}
        inputs.append({**described, "parameters": size})
    request.inputs = inputs
    return msgspec.json.encode(request), *tensors


def _are_strings(data: list[Any]) -> bool:
    return {*map(type, data)} == _ONLY_STRINGS


def _too_long(text: bytes, threshold: str) -> BodyTooLarge:
    """With why it came here, as far as that can be told (binary_request, headers, translation)."""
    return BodyTooLarge(
        f"{len(text)} bytes of JSON that is not turned into binary tensors (it is no plain lists "
        "of numbers or strings: a NaN, a null or mixed values are in it; or it asks for a "
        f"compressed answer with Accept-Encoding; or {threshold} is against it)",
        LONGEST_JSON,
        _INSTEAD,
    )


def _check_long(text: bytes, binary: int, threshold: str) -> CheckedRequest:
    if len(text) > LONGEST_JSON:
        raise _too_long(text, threshold)
    length = len(text)
    text, request = read_leniently(decode_long, text)
    strings: list[tuple[int, int, int]] = []
    sizes: list[int] = []
    members, position = 1, 0
    for tensor in request.inputs:
        members += 3 + bool(tensor.data)
        size = None
        if tensor.parameters is not UNSET:
            members += 1 + len(tensor.parameters)
            size = read_binary_size(tensor, tensor.parameters)
        sizes.append(size or 0)
        try:
            if size is None:
                check_data(tensor, bytes(tensor.data))
                continue
            check_binary(tensor, size)
        except CallerError:
            check_unique(text, request)  # of two shapes the other one may be right
            raise
        if tensor.datatype == "BYTES":
            strings.append((position, position + size, prod(tensor.shape)))
        position += size
    check_names("inputs", request.inputs)
    if request.outputs is not UNSET:
        members += 1 + check_outputs(request.outputs)
    if request.parameters is not UNSET:
        members += 1 + len(request.parameters)
        check_parameters(request.parameters)
    members += request.id is not UNSET
    if position != binary:
        raise BadRequest(
            "the body",
            f"{binary} bytes behind the JSON",
            f"{position}, which the inputs' `binary_data_size` add up to",
        )
    if text.count(b":") != members:  # as in _is_plain
        check_unique(text, request)
    return CheckedRequest(tuple(strings), _with_doubles(text, request, length - len(text), sizes))


def _with_doubles(
    text: bytes, request: LongRequest, skipped: int, sizes: Sequence[int]
) -> tuple[GivenInput, ...]:
    """skipped: bytes in front of the text as it came. sizes: of each input's binary tensor."""
    if not any(tensor.datatype == "FP64" and tensor.data for tensor in request.inputs):
        return ()
    spans = find_data_spans(text, request)
    return tuple(
        GivenInput(
            tensor.datatype,
            prod(tensor.shape),
            (span[0] + skipped, span[1] + skipped) if span else None,
            size,
        )
        for tensor, span, size in zip(request.inputs, spans, sizes, strict=True)
    )


def check_object(text: bytes) -> None:
    """Raise BadRequest unless it is a JSON object; for generate, which knows its members itself."""
    if len(text) > LONGEST_JSON:
        raise BodyTooLarge(f"{len(text)} bytes of JSON", LONGEST_JSON)
    text, _ = read_leniently(decode_object, text)
    if len(text) > LONGEST_ENVELOPE:
        return
    check_members(text)


def check_strings(data: bytes, start: int, end: int, elements: int) -> Generator[None, None, None]:
    """Raise BadRequest unless the bytes from start to end are so many strings; in steps.

    Each has its length in front of it: four bytes, little-endian (the binary extension).
    """
    length = struct.Struct("<I").unpack_from
    position = start
    for number in range(elements):
        if position + 4 > end:
            break
        position += 4 + length(data, position)[0]
        if number % _LENGTHS_AT_ONCE == _LENGTHS_AT_ONCE - 1:
            yield
    else:
        if position == end:
            return
    raise BadRequest(
        "a binary tensor of BYTES",
        f"lengths that do not lead to its end after {elements} strings",
        "each string's length, in four bytes, in front of it, and nothing else",
    )
