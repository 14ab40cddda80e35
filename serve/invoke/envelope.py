"""PURE. An inference request is read here before tritonserver sees it.

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

import json
import re
import struct
from collections.abc import Generator, Iterable, Mapping, Sequence
from math import prod
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Raw, UnsetType

from serve.errors import BadRequest, BodyTooLarge, shortened

#: Bytes of one element; BYTES has a length of four bytes in front of each.
ELEMENT_SIZES: Mapping[str, int] = {
    "BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2,
    "INT32": 4, "INT64": 8, "FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8, "BYTES": 4,
}  # fmt: skip
#: JSON has no such numbers for tritonserver: they come as binary tensors.
_BINARY_ONLY = {"FP16", "BF16"}
_NUMBERS = frozenset(ELEMENT_SIZES) - _BINARY_ONLY - {"BYTES"}
_ONLY_STRINGS = {str}
#: Up to this many bytes a request's data are built, to count them.
_SHORT = 4096

#: Far above any model's; a great number of either takes tritonserver's time (CVE-2026-24146).
MOST_TENSORS = 4096
#: numpy's limit, and more than any backend's.
_MOST_DIMENSIONS = 32
#: Of one dimension, and of all that are not zero in an empty tensor: what an int counts to.
_LARGEST_DIMENSION = (1 << 31) - 1
#: Bytes of a list of lists that has no values.
_OF_EMPTY_LISTS = b" \t\r\n,[]"
#: Characters of a correlation id (core's STRING_CORRELATION_ID_MAX_LENGTH_BYTES).
_LONGEST_SEQUENCE_ID = 128
_LARGEST_INTEGER = (1 << 64) - 1
#: Of a request without its data, in bytes, where it is read member by member: 4,096 inputs with
#: names of 80 characters have half of it.
_LONGEST_ENVELOPE = 1024 * 1024
#: The longest JSON that is read here, in bytes: a tenth of a second in which nobody is served.
#: What is longer is for binary tensors; long lists of JSON come here as such (translation.py).
_LONGEST_JSON = 16 * 1024 * 1024
#: Why so long an inference comes here, as far as a sentence can tell (binary_request.py,
#: payload.takes_json_only, translation.py).
_WHY_HERE = (
    "that is not turned into binary tensors (it is no plain lists of numbers or strings: a NaN, "
    "a null or mixed values are in it; or it asks for a compressed answer with Accept-Encoding; or "
    "SERVE_TRANSLATE_JSON_FROM is against it)"
)
_INSTEAD = ": send binary tensors, or fewer rows"
#: Strings whose lengths are looked at in one step.
_LENGTHS_AT_ONCE = 1000

#: Some callers' libraries write it; tritonserver passes over it, the parser here does not.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_EXPECTED = "an inference request of the v2 protocol"
_SHARED_MEMORY = "shared_memory_"


#: More parameters than any model has: tritonserver's time grows with their square.
_MOST_PARAMETERS = 100
_Parameters = (
    Annotated[dict[str, str | int | float | bool | None], Meta(max_length=_MOST_PARAMETERS)]
    | UnsetType
)
_Shape = Annotated[
    list[Annotated[int, Meta(ge=0, le=_LARGEST_DIMENSION)]], Meta(max_length=_MOST_DIMENSIONS)
]


class _Input(msgspec.Struct, gc=False):
    """One whose data are built: cheaper than skipping while they are few."""

    name: str
    shape: _Shape
    datatype: str
    data: list[Any] = []  # msgspec copies it
    parameters: _Parameters = UNSET


class _LongInput(msgspec.Struct, gc=False):
    """One whose data are skipped over, and kept as the text that they are."""

    name: str
    shape: _Shape
    datatype: str
    data: Raw = Raw()
    parameters: _Parameters = UNSET


class _Output(msgspec.Struct, gc=False):
    name: str
    parameters: _Parameters = UNSET


_Named = _Input | _LongInput | _Output
_Outputs = Annotated[list[_Output], Meta(max_length=MOST_TENSORS)] | UnsetType


class _Request(msgspec.Struct, gc=False):
    inputs: Annotated[list[_Input], Meta(max_length=MOST_TENSORS)]
    outputs: _Outputs = UNSET
    parameters: _Parameters = UNSET
    id: str | UnsetType = UNSET


class _LongRequest(msgspec.Struct, gc=False):
    inputs: Annotated[list[_LongInput], Meta(max_length=MOST_TENSORS)]
    outputs: _Outputs = UNSET
    parameters: _Parameters = UNSET
    id: str | UnsetType = UNSET


_decode_short = msgspec.json.Decoder(_Request).decode
_decode = msgspec.json.Decoder(_LongRequest).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode

#: How msgspec says what is wrong: "Expected `int`, got `str` - at `$.inputs[0].shape[1]`".
_COMPLAINT = re.compile(r"(?P<said>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")


Strings = tuple[tuple[int, int, int], ...]


def check_request(text: bytes, binary: int = 0) -> Strings:
    """Raise BadRequest for an inference that tritonserver must not be given.

    text: the request's JSON. binary: bytes of binary tensors behind it. Answers with (start, end,
    elements) of each binary tensor of strings, start and end counted from the first byte behind the
    text: for check_strings.
    """
    if not binary and len(text) <= _SHORT and _is_plain(text):
        return ()
    return _check_long(text, binary)


def _is_plain(text: bytes) -> bool:
    """Whether it is a request of nothing but inputs with few data, and right: most are."""
    try:
        request = _decode_short(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    members = 1
    for tensor in request.inputs:
        elements = prod(tensor.shape)
        if len(tensor.data) != elements or not elements or tensor.parameters is not UNSET:
            return False
        datatype = tensor.datatype
        if datatype not in _NUMBERS and (datatype != "BYTES" or not _are_strings(tensor.data)):
            return False
        members += 4
    if request.outputs is not UNSET:
        members += 1 + len(request.outputs)
        if any(output.parameters is not UNSET for output in request.outputs):
            return False
        if not _are_unique(request.outputs):
            return False
    if request.parameters is not UNSET:
        return False
    if request.id is not UNSET:
        members += 1
    # Each member has a colon. One more stands in a string, in what no rule reads, or in a second
    # member of the same name.
    return text.count(b":") == members and _are_unique(request.inputs)


def _are_strings(data: list[Any]) -> bool:
    return {*map(type, data)} == _ONLY_STRINGS


def _check_long(text: bytes, binary: int) -> Strings:
    if len(text) > _LONGEST_JSON:
        raise BodyTooLarge(f"{len(text)} bytes of JSON {_WHY_HERE}", _LONGEST_JSON, _INSTEAD)
    text, request = _read_leniently(_decode, text)
    strings: list[tuple[int, int, int]] = []
    members, position = 1, 0
    for tensor in request.inputs:
        members += 3 + bool(tensor.data)
        size = None
        if tensor.parameters is not UNSET:
            members += 1 + len(tensor.parameters)
            size = _binary_size(tensor, tensor.parameters)
        if size is None:
            _check_data(tensor, bytes(tensor.data))
            continue
        _check_binary(tensor, size)
        if tensor.datatype == "BYTES":
            strings.append((position, position + size, prod(tensor.shape)))
        position += size
    _check_names("inputs", request.inputs)
    if request.outputs is not UNSET:
        members += 1 + _check_outputs(request.outputs)
    if request.parameters is not UNSET:
        members += 1 + len(request.parameters)
        _check_parameters(request.parameters)
    members += request.id is not UNSET
    if position != binary:
        raise BadRequest(
            "the body",
            f"{binary} bytes behind the JSON",
            f"{position}, which the inputs' `binary_data_size` add up to",
        )
    if text.count(b":") != members:  # as in _is_plain
        _check_unique(text, request)
    return tuple(strings)


def check_object(text: bytes) -> None:
    """Raise BadRequest unless it is a JSON object; for generate, which knows its members itself."""
    if len(text) > _LONGEST_JSON:
        raise BodyTooLarge(f"{len(text)} bytes of JSON", _LONGEST_JSON)
    text, _ = _read_leniently(_decode_object, text)
    if len(text) > _LONGEST_ENVELOPE:
        return
    _unique_members(text)


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


def _plain(text: bytes) -> bytes:
    """Without what tritonserver's parser takes and JSON has not: a byte order mark, NaN, infinity.

    Numbers stand in the place of the latter, as long as they are. They do so in strings as well,
    where nothing depends on it but names, and those in our eyes alone.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    for word in (b"NaN", b"Infinity", b"Inf"):
        if word in text:
            text = text.replace(word, b"0".ljust(len(word)))
    return text


def _read_leniently(decode: Any, text: bytes) -> tuple[bytes, Any]:
    """The text as it was read, perhaps made plain, and what it says."""
    try:
        return text, decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        text = _plain(text)
        return text, _read(decode, text)


def _read(decode: Any, text: bytes) -> Any:
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise _complaint(str(error)) from error
    except RecursionError as error:
        raise BadRequest("the body", "JSON that is nested too deeply", _EXPECTED) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = str(error).removeprefix("JSON is malformed: ")
        raise BadRequest("the body", f"no JSON ({found})", _EXPECTED) from error


def _complaint(said: str) -> BadRequest:
    """msgspec's sentence as ours."""
    parts = _COMPLAINT.fullmatch(said)
    place = (parts and parts["place"]) or ""
    missing, wrong = _MISSING.match(said), _WRONG_TYPE.match(said)
    if missing:
        field = f"{place}.{missing['field']}".lstrip(".")
        return BadRequest(f"the field `{field}`", "nothing", _EXPECTED)
    where = f"the field `{place}`" if place else "the body"
    if wrong:
        return BadRequest(where, wrong["found"], f"{wrong['expected']} ({_EXPECTED})")
    sentence = parts["said"] if parts else said
    if sentence.startswith("Number"):  # out of range
        return BadRequest(where, "a number that no 64 bits hold", "a smaller one")
    return BadRequest(where, "what is not allowed there", sentence.replace("Expected ", "", 1))


# -- inputs


def _check_data(tensor: _LongInput, data: bytes) -> None:
    """Hold the shape against data in JSON."""
    elements = 1
    for size in tensor.shape:
        elements *= size
    datatype = tensor.datatype
    if datatype == "BYTES":
        found = _count_strings(data)
    elif datatype in ELEMENT_SIZES:
        # A list has one comma less than values, however it is nested; tritonserver counts anew.
        found = data.count(b",") + 1 if data else 0
    else:
        raise _unknown_type(tensor)
    if datatype in _BINARY_ONLY and data:
        raise BadRequest(
            f"the input {shortened(tensor.name)}",
            f"{datatype} in JSON",
            f"{datatype} as a binary tensor, or FP32",
        )
    if found != elements or elements < 2:  # no value has as many commas as one
        _check_count(tensor, elements, found, data)


def _check_count(tensor: _LongInput, elements: int, found: int, data: bytes) -> None:
    if tensor.datatype != "BYTES" and data:  # an empty list has one comma more than values
        found -= data.translate(None, b" \t\r\n").count(b"[]")
    if not elements:
        _check_empty(tensor)
        if not found and data.translate(None, _OF_EMPTY_LISTS):  # numbers where strings belong
            found = 1
    if found != elements:
        raise BadRequest(
            f"the input {shortened(tensor.name)}",
            f"{found} values",
            f"{elements}, which its shape {_shown(tensor.shape)} has",
        )


def _count_strings(data: bytes) -> int:
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data.count(b'"') // 2


def _binary_size(tensor: _LongInput, parameters: Mapping[str, Any]) -> int | None:
    """Of a binary tensor, in bytes; None for data in JSON."""
    _refuse_shared_memory("input", tensor.name, parameters)
    size = parameters.get("binary_data_size", UNSET)
    if size is UNSET:
        return None
    if type(size) is not int or not 0 <= size <= _LARGEST_INTEGER:
        raise BadRequest(
            f"the input {shortened(tensor.name)}: the parameter `binary_data_size`",
            _typed(size),
            "a whole number of bytes",
        )
    if tensor.data:
        raise BadRequest(
            f"the input {shortened(tensor.name)}",
            "`data` and `binary_data_size`",
            "one of them",
        )
    return size


def _check_binary(tensor: _LongInput, size: int) -> None:
    """Hold the shape against the bytes that are said to lie behind the JSON."""
    if tensor.datatype not in ELEMENT_SIZES:
        raise _unknown_type(tensor)
    elements = prod(tensor.shape)
    if not elements:
        _check_empty(tensor)
    least = elements * ELEMENT_SIZES[tensor.datatype]
    if size != least and (tensor.datatype != "BYTES" or size < least or not elements):
        kind = "at least " if tensor.datatype == "BYTES" and elements else ""
        raise BadRequest(
            f"the input {shortened(tensor.name)}: the parameter `binary_data_size`",
            f"{size} bytes",
            f"{kind}{least}, which {tensor.datatype} of its shape {_shown(tensor.shape)} has",
        )


def _check_empty(tensor: _LongInput) -> None:
    """The other dimensions of an empty tensor are believed by whoever reads it."""
    if prod(size or 1 for size in tensor.shape) > _LARGEST_DIMENSION:
        raise BadRequest(
            f"the input {shortened(tensor.name)}",
            f"the shape {_shown(tensor.shape)}",
            f"dimensions beside the empty one of at most {_LARGEST_DIMENSION} together",
        )


def _are_unique(tensors: Sequence[_Named]) -> bool:
    return len(tensors) < 2 or len({tensor.name for tensor in tensors}) == len(tensors)


def _check_names(what: str, tensors: Sequence[_Named]) -> None:
    if not _are_unique(tensors):
        twice = shortened(_twice(tensor.name for tensor in tensors))
        raise BadRequest(f"the {what}", f"{twice} twice", "each name once")


def _twice(names: Iterable[str]) -> str:
    """The first name that stands there a second time; in one pass, since there can be many."""
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


# -- outputs and parameters


def _check_outputs(outputs: Sequence[_Output]) -> int:
    """How many members all of them have."""
    members = 0
    for output in outputs:
        members += 1
        if output.parameters is not UNSET:
            members += 1 + len(output.parameters)
            _check_output(output.name, output.parameters)
    _check_names("outputs", outputs)
    return members


def _check_output(name: str, parameters: Mapping[str, Any]) -> None:
    _refuse_shared_memory("output", name, parameters)
    binary = parameters.get("binary_data", False)
    if type(binary) is not bool:
        raise BadRequest(
            f"the output {shortened(name)}: the parameter `binary_data`",
            _typed(binary),
            "true or false",
        )
    if "classification" in parameters:
        # tritonserver dies of classes of strings, and of those of an output that happens to be
        # empty (seen on 2.36 and 2.51); what a Python model answers, no config promises.
        raise BadRequest(
            f"the output {shortened(name)}: the parameter `classification`",
            "a wish that can end tritonserver",
            "no such parameter: ask for the scores, and sort them",
        )


def _check_parameters(parameters: Mapping[str, Any]) -> None:
    """The request's own (ParseJsonTritonParams); names that are the model's may hold any scalar."""
    for name, value in parameters.items():
        expected = _fit(name, value)
        if expected:
            raise BadRequest(f"the parameter {shortened(name)}", _typed(value), expected)


def _fit(name: str, value: object) -> str:
    """What was expected where the value does not fit; empty where it does."""
    kind = type(value)
    if name in ("sequence_start", "sequence_end", "binary_data_output"):
        return "" if kind is bool else "true or false"
    if name == "sequence_id" and kind is str:
        fits = len(str(value).encode(errors="surrogatepass")) <= _LONGEST_SEQUENCE_ID
        return "" if fits else f"at most {_LONGEST_SEQUENCE_ID} bytes"
    if name in ("priority", "timeout", "sequence_id"):
        fits = isinstance(value, int) and kind is int and 0 <= value <= _LARGEST_INTEGER
        return "" if fits else f"a whole number from 0 to {_LARGEST_INTEGER}"
    if name.startswith(_SHARED_MEMORY):
        return "tensors in the body: shared memory is not for callers"
    return "" if kind in (str, int, float, bool) else "a string, a number, true or false"


def _refuse_shared_memory(what: str, name: str, parameters: Mapping[str, Any]) -> None:
    for key in parameters:
        if key.startswith(_SHARED_MEMORY):
            raise BadRequest(
                f"the {what} {shortened(name)}",
                f"the parameter {shortened(key)}",
                "its tensor in the body: shared memory is not for callers",
            )


# -- members of one name


def _check_unique(text: bytes, request: _LongRequest) -> None:
    """Read the envelope, the data cut out, member by member; raise BadRequest for two of a name."""
    base = _address(text)
    pieces, position = [], 0
    for tensor in request.inputs:
        if tensor.data:
            start = _address(tensor.data) - base
            pieces.append(text[position:start])
            position = start + len(bytes(tensor.data))
    pieces.append(text[position:])
    envelope = b"0".join(pieces)
    if len(envelope) > _LONGEST_ENVELOPE:
        raise BadRequest(
            "the body",
            f"{len(envelope)} bytes beside the inputs' data",
            f"at most {_LONGEST_ENVELOPE}",
        )
    _unique_members(envelope)


def _address(buffer: bytes | Raw) -> int:
    """Where the bytes lie; what the parser skipped over lies inside the text that it read."""
    address: int = np.frombuffer(buffer, np.uint8).ctypes.data
    return address


def _unique_members(envelope: bytes) -> None:
    try:
        json.loads(envelope, object_pairs_hook=_unique, parse_int=_skipped, parse_float=_skipped)
    except (ValueError, RecursionError) as error:  # a byte that is no UTF-8, in a name
        raise BadRequest("the body", f"no JSON ({error})", _EXPECTED) from error


def _skipped(number: str) -> int:
    """In place of a number, which could be of a million digits."""
    return 0


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        twice = shortened(_twice(name for name, _ in members))
        raise BadRequest("the body", f"the member {twice} twice in one object", "one")
    return unique


# -- words


def _unknown_type(tensor: _LongInput) -> BadRequest:
    return BadRequest(
        f"the input {shortened(tensor.name)}: the field `datatype`",
        shortened(tensor.datatype),
        f"one of {', '.join(ELEMENT_SIZES)}",
    )


def _typed(value: object) -> str:
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(value)[:40]
    return "an object" if isinstance(value, dict) else "a list"


def _shown(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"[:200]
