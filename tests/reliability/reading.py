"""What a request says, read independently of the server: Python's json and struct alone.

A reading says whether a server must take the request, must refuse it, or may do either where the
protocol (KServe's v2 with Triton's binary extension) leaves it open; and, where it can be told, the
tensors that an identity model must answer with if it is taken.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.support.protocol import BINARY

Must = Literal["take", "refuse", "either"]

SIZES = {"FP32": 4, "INT64": 8, "BOOL": 1, "FP16": 2}
_LARGEST_FP32 = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
#: Inflated beyond this much, it is open whether a server takes it.
_INFLATED = 8 << 20
#: Parameters that mean nothing to Triton, so change no answer.
QUIET = frozenset({"note", "trace", "x"})
_PLAIN_HEADERS = frozenset(
    {"content-type", "content-encoding", "accept", "user-agent", "x-note", "connection"}
)
#: Surrogates, which are a character in pairs alone, and the end of a C string.
_ODD_ESCAPE = re.compile(rb"(?i)\\ud[89a-f]|\\u0000")
#: JSON deeper than this may be refused by limits (Python's own reader ends at about 1,000).
_DEEP = 50


@dataclass(frozen=True)
class Tensor:
    """content: as the binary extension writes it."""

    datatype: str
    shape: tuple[int, ...]
    content: bytes


@dataclass(frozen=True)
class Reading:
    """outputs: None where the answer's values cannot be told. why: for people."""

    must: Must
    why: str = ""
    outputs: Mapping[str, Tensor] | None = None
    id: str | None = None


class _Refuse(Exception):
    """The request is wrong."""


class _Open(Exception):
    """The protocol leaves it open."""


@dataclass
class _Doubts:
    """Why a server may refuse though the values can be told."""

    found: str = ""

    def add(self, why: str) -> None:
        self.found = self.found or why


def read(headers: list[tuple[str, str]], body: bytes, rank: int) -> Reading:
    """The reading of an invocation's headers and body, for an identity of tensors of that rank."""
    doubts = _Doubts()
    try:
        named = _headers(headers, doubts)
        content = _inflated(named.get("content-encoding"), body)
        text, tail = _parts(named.get("content-type", ""), content, doubts)
        request = _json(text, doubts)
        inputs = _inputs(request, tail, rank, doubts)
        wanted = _outputs(request, inputs, doubts)
        given_id = _checked_id(request, doubts)
    except _Refuse as error:
        return Reading("refuse", str(error))
    except _Open as error:
        return Reading("either", str(error))
    answered = {f"OUT_{name[3:]}": tensor for name, tensor in inputs.items()}
    outputs = {name: answered[name] for name in wanted or answered}
    must: Must = "either" if doubts.found else "take"
    return Reading(must, doubts.found, outputs, given_id)


# -- the frame


def _headers(headers: list[tuple[str, str]], doubts: _Doubts) -> dict[str, str]:
    named: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key not in _PLAIN_HEADERS or len(value) > 2000 or not value.isprintable():
            doubts.add(f"the header {name[:20]}")
        if key in named and key in ("content-type", "content-encoding"):
            raise _Open(f"two headers {key}")
        named[key] = value
    return named


def _inflated(encoding: str | None, body: bytes) -> bytes:
    if encoding in (None, "", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise _Open("another Content-Encoding")
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        content = inflater.decompress(body, _INFLATED)
    except zlib.error as error:
        raise _Refuse(f"no {encoding}") from error
    if inflater.unconsumed_tail:
        raise _Open("it inflates to much")
    if inflater.unused_data:
        raise _Open("something behind the compressed body")
    if not inflater.eof:
        raise _Refuse("the compressed body is cut off")
    return content


def _parts(content_type: str, content: bytes, doubts: _Doubts) -> tuple[bytes, bytes | None]:
    media, *parameters = content_type.split(";")
    if media.strip().lower() != BINARY:
        if BINARY in content_type:
            raise _Open("the binary media type in another place")
        return content, None
    if len(parameters) != 1 or not parameters[0].startswith("json-header-size="):
        raise _Open("parameters of the media type")
    size = parameters[0].removeprefix("json-header-size=")
    if not size.isascii() or not size.isdigit():
        raise _Refuse("json-header-size is no number")
    if int(size) > len(content):
        raise _Refuse("json-header-size is beyond the body")
    if size != str(int(size)):
        doubts.add("json-header-size with zeros in front")
    return content[: int(size)], content[int(size) :]


def _json(text: bytes, doubts: _Doubts) -> dict[str, Any]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in found}) < len(found):
            raise _Open("a key twice")
        return dict(found)

    def constant(_: str) -> None:
        raise _Open("NaN or Infinity, which JSON does not have")

    try:
        request = json.loads(text.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except UnicodeDecodeError as error:
        raise _Open("not UTF-8") from error
    except RecursionError as error:
        raise _Refuse("nested too deep") from error
    except ValueError as error:
        if "digits" in str(error):  # Python's own limit for whole numbers
            raise _Open("a number of thousands of digits") from error
        raise _Refuse("no JSON") from error
    if not isinstance(request, dict):
        raise _Refuse("no object")
    if _ODD_ESCAPE.search(text):
        doubts.add("an escape of half a character, or of none")
    if text.count(b"[") + text.count(b"{") > _DEEP and _depth(request) > _DEEP:
        doubts.add("deep")
    return request


def _depth(value: Any) -> int:
    """Levels of lists and objects; never calls itself."""
    level, values = 0, [value]
    while values:
        level += 1
        inner = (v for v in values if isinstance(v, (dict, list)))
        values = [e for v in inner for e in (v.values() if isinstance(v, dict) else v)]
    return level


# -- the tensors


def _inputs(
    request: dict[str, Any], tail: bytes | None, rank: int, doubts: _Doubts
) -> dict[str, Tensor]:
    if set(request) - {"inputs", "outputs", "id", "parameters"}:
        doubts.add("a key that the protocol does not have")
    _quiet(request, doubts, ("binary_data_output",))
    given = request.get("inputs")
    if not isinstance(given, list):
        raise _Refuse("inputs is no list")
    if not given:
        raise _Open("no inputs")
    found: dict[str, Tensor] = {}
    place = 0
    for one in given:
        name, tensor, taken = _input(one, (tail or b"")[place:], tail is not None, rank, doubts)
        if name in found:
            raise _Open("an input twice")
        found[name] = tensor
        place += taken
    if tail is not None and place != len(tail):
        raise _Refuse("more bytes than tensors")
    return found


def _input(
    one: Any, tail: bytes, is_binary: bool, rank: int, doubts: _Doubts
) -> tuple[str, Tensor, int]:
    """Its name, its tensor, and how many bytes of the tail are its own."""
    if not isinstance(one, dict):
        raise _Refuse("an input is no object")
    if set(one) - {"name", "shape", "datatype", "data", "parameters"}:
        doubts.add("a key of an input that the protocol does not have")
    name, datatype = one.get("name"), one.get("datatype")
    if not isinstance(name, str) or name[:3] != "IN_" or name[3:] not in (*SIZES, "BYTES"):
        raise _Refuse("the model has no such input")
    if datatype != name[3:]:
        raise _Refuse("another datatype")
    shape = _shape(one.get("shape"), rank)
    size = _binary_size(one, doubts)
    if size is not None:
        if not is_binary:
            raise _Open("a binary size in plain JSON")
        if "data" in one:
            raise _Open("both data and a binary size")
        return name, Tensor(datatype, shape, _bytes(datatype, shape, size, tail)), size
    content = _content(datatype, shape, one.get("data"), doubts)
    return name, Tensor(datatype, shape, content), 0


def _shape(given: Any, rank: int) -> tuple[int, ...]:
    if not isinstance(given, list):
        raise _Refuse("shape is no list")
    if not all(type(length) is int and 0 <= length < 1 << 63 for length in given):
        raise _Open("an odd length") if _odd(given) else _Refuse("a length is no count")
    if len(given) != rank:
        raise _Refuse("another rank")
    return tuple(given)


def _odd(given: list[Any]) -> bool:
    """Whole numbers written as others, which a server may take for what they are."""
    return all(
        (type(each) is int and 0 <= each < 1 << 63) or (type(each) is float and each.is_integer())
        for each in given
    )


def _binary_size(one: dict[str, Any], doubts: _Doubts) -> int | None:
    _quiet(one, doubts, ("binary_data_size",))
    size = (one.get("parameters") or {}).get("binary_data_size")
    if size is None and "binary_data_size" not in (one.get("parameters") or {}):
        return None
    if type(size) is not int or size < 0:
        raise _Refuse("binary_data_size is no count")
    return size


def _quiet(holder: dict[str, Any], doubts: _Doubts, known: tuple[str, ...]) -> None:
    """Parameters of the holder change nothing, or those known alone; raises otherwise."""
    if "parameters" not in holder:
        return
    parameters = holder["parameters"]
    if not isinstance(parameters, dict):
        raise _Refuse("parameters is no object")
    for key, value in parameters.items():
        if key in known:
            continue
        if key not in QUIET:
            raise _Open(f"the parameter {key[:20]}")
        if not isinstance(value, (str, bool)) and not (type(value) is int and abs(value) < 1 << 62):
            doubts.add("a parameter of another type")


def _content(datatype: str, shape: tuple[int, ...], data: Any, doubts: _Doubts) -> bytes:
    if datatype == "FP16":
        raise _Refuse("FP16 in JSON")
    if not isinstance(data, list):
        raise _Refuse("data is no list")
    values = list(_flat(data))
    if len(values) != math.prod(shape):
        raise _Refuse("another number of values")
    if len(values) != len(data) and not _is_formed(data, shape):
        doubts.add("lists of another form than the shape")
    if 0 in shape:
        doubts.add("an empty tensor")
    return b"".join(_value(datatype, value) for value in values)


def _flat(data: list[Any]) -> Iterator[Any]:
    waiting = [iter(data)]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, list):
                waiting.append(iter(value))
                break
            yield value
        else:
            waiting.pop()


def _is_formed(data: Any, shape: tuple[int, ...]) -> bool:
    if not shape:
        return not isinstance(data, list)
    return (
        isinstance(data, list)
        and len(data) == shape[0]
        and all(_is_formed(each, shape[1:]) for each in data)
    )


def _value(datatype: str, value: Any) -> bytes:
    if datatype == "BYTES":
        return _string(value)
    if datatype == "BOOL":
        return _truth(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Refuse(f"{type(value).__name__} in {datatype}")
    if datatype == "INT64":
        if isinstance(value, float) or not -(1 << 63) <= value < 1 << 63:
            raise _Open("no INT64")
        return struct.pack("<q", value)
    if abs(value) > _LARGEST_FP32:
        raise _Open("beyond FP32")
    return struct.pack("<f", value)


def _string(value: Any) -> bytes:
    if not isinstance(value, str):
        raise _Refuse(f"{type(value).__name__} in BYTES")
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise _Open("half a surrogate") from error
    return struct.pack("<I", len(text)) + text


def _truth(value: Any) -> bytes:
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, (int, float)):
        raise _Open("a number in BOOL")
    raise _Refuse("no BOOL")


def _bytes(datatype: str, shape: tuple[int, ...], size: int, tail: bytes) -> bytes:
    if size > len(tail):
        raise _Refuse("a binary size beyond the body")
    content = tail[:size]
    if datatype == "BYTES":
        _check_strings(content, math.prod(shape))
    elif size != SIZES[datatype] * math.prod(shape):
        raise _Refuse("another binary size than the shape's")
    if datatype == "BOOL" and set(content) - {0, 1}:
        raise _Open("a BOOL that is neither 0 nor 1")
    if 0 in shape:
        raise _Open("an empty tensor")
    return content


def _check_strings(content: bytes, count: int) -> None:
    place = found = 0
    while place < len(content):
        if place + 4 > len(content):
            raise _Refuse("half a length")
        place += 4 + int(struct.unpack_from("<I", content, place)[0])
        found += 1
    if place != len(content) or found != count:
        raise _Refuse("other strings than the shape's")


# -- what is wanted


def _outputs(
    request: dict[str, Any], inputs: Mapping[str, Tensor], doubts: _Doubts
) -> list[str] | None:
    binary = (request.get("parameters") or {}).get("binary_data_output", False)
    if not isinstance(binary, bool):
        raise _Refuse("binary_data_output is no boolean")
    if "outputs" not in request:
        _as_text(inputs, binary)
        return None
    given = request["outputs"]
    if not isinstance(given, list):
        raise _Refuse("outputs is no list")
    names = [_output(one, inputs, binary, doubts) for one in given]
    if len(set(names)) < len(names):
        raise _Open("an output twice")
    if not names:
        raise _Open("no outputs")
    return names


def _output(one: Any, inputs: Mapping[str, Tensor], binary: bool, doubts: _Doubts) -> str:
    if not isinstance(one, dict):
        raise _Refuse("an output is no object")
    if set(one) - {"name", "parameters"}:
        doubts.add("a key of an output that the protocol does not have")
    _quiet(one, doubts, ("binary_data",))
    own = (one.get("parameters") or {}).get("binary_data", binary)
    if not isinstance(own, bool):
        raise _Refuse("binary_data is no boolean")
    name = one.get("name")
    if not isinstance(name, str) or name[:4] != "OUT_" or name[4:] not in (*SIZES, "BYTES"):
        raise _Refuse("the model has no such output")
    given = f"IN_{name[4:]}"
    if given not in inputs:
        raise _Open("an output that the model does not make now")
    _as_text({given: inputs[given]}, own)
    return name


def _as_text(inputs: Mapping[str, Tensor], binary: bool) -> None:
    """Raise where the tensors are to be answered in JSON and cannot."""
    for tensor in () if binary else inputs.values():
        if tensor.datatype == "FP16":
            raise _Refuse("an FP16 output in JSON")
        if tensor.datatype == "FP32" and _has_no_number(tensor.content):
            raise _Open("an output that is no number")
        if tensor.datatype == "BYTES":
            try:
                tensor.content.decode()
            except UnicodeDecodeError as error:
                raise _Open("strings that JSON cannot hold") from error


def _has_no_number(content: bytes) -> bool:
    return not all(math.isfinite(value) for (value,) in struct.iter_unpack("<f", content))


def _checked_id(request: dict[str, Any], doubts: _Doubts) -> str | None:
    given = request.get("id")
    if "id" not in request:
        return None
    if not isinstance(given, str):
        raise _Open("an id that is no text")
    if not given.isprintable() or len(given) > 64:
        doubts.add("an odd id")
    return given


# -- answers


def answered(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Tensor], str | None]:
    """The tensors and the id of a 200; raises ValueError, KeyError, TypeError or zlib.error."""
    if headers.get("content-encoding"):
        body = zlib.decompress(body, wbits=zlib.MAX_WBITS | 32)
    media, _, size = headers.get("content-type", "").partition(";json-header-size=")
    head, tail = (body[: int(size)], body[int(size) :]) if media == BINARY else (body, b"")
    described = json.loads(head)
    found = {}
    for output in described["outputs"]:
        length = output.get("parameters", {}).get("binary_data_size")
        if length is None:
            flat = _flat(output["data"])
            content = b"".join(_again(output["datatype"], value) for value in flat)
        else:
            content, tail = tail[:length], tail[length:]
        found[output["name"]] = Tensor(output["datatype"], tuple(output["shape"]), content)
    if tail:
        raise ValueError("bytes behind the last tensor")
    return found, described.get("id")


def _again(datatype: str, value: Any) -> bytes:
    try:
        return _value(datatype, value)
    except (_Refuse, _Open) as error:
        raise ValueError(f"{value!r} in {datatype}") from error
