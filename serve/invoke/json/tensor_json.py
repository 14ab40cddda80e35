"""The data of one tensor: JSON text to the bytes of the binary protocol, and back. No I/O.

Both ways go chunk by chunk, so that whoever drives them can do something else in between: a chunk
takes about a tenth of a millisecond. What tritonserver would not read, or would read in another way
than the parsers here, is NotTaken: the caller then sends the text as it came.

Sources: ReadDataFromJson and WriteDataToJson in tritonserver's http_server.cc. It reads numbers as
int64, uint64 or double and narrows them with a cast, takes any nesting of lists for the same flat
data, and writes NaN, Infinity and -Infinity as these words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from math import isinf
from struct import Struct
from struct import error as StructError
from typing import Any, Literal, TypeVar

import numpy as np
import orjson
import simdjson

from serve.invoke.json.strings import read_plain, write_plain

_T = TypeVar("_T")

#: Work in steps: at each `yield` others may be let through; it returns the result.
Steps = Generator[None, None, _T]

#: An element that is longer than this, in bytes, would take a step of its own that is too long.
_LONGEST_CHUNK = 256 * 1024
#: Bytes of text that are read in one step; elements, and about how many bytes of strings, that are
#: written in one.
READ_AT_ONCE = 64 * 1024
WRITTEN_AT_ONCE = 4 * 1024
STRINGS_AT_ONCE = 128 * 1024

_Array = np.ndarray[Any, Any]
_Types = dict[str, "np.dtype[Any]"]
_FLOATS: _Types = {"FP32": np.dtype("<f4"), "FP64": np.dtype("<f8")}
_SIGNED: _Types = {f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)}
_UNSIGNED: _Types = {f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)}
_NUMBERS: _Types = {**_FLOATS, **_SIGNED, **_UNSIGNED}
#: What simdjson is asked for, and what it then gives.
_WIDE: dict[str, tuple[Literal["d", "i", "u"], np.dtype[Any]]] = {
    **dict.fromkeys(_FLOATS, ("d", np.dtype("f8"))),
    **dict.fromkeys(_SIGNED, ("i", np.dtype("i8"))),
    **dict.fromkeys(_UNSIGNED, ("u", np.dtype("u8"))),
}
#: The data types whose data may stand in JSON.
DATA_TYPES = frozenset({*_NUMBERS, "BOOL", "BYTES"})

#: How many quotes inside strings are looked at for the end of one before that is given up.
_MOST_GUESSES = 1000
#: The deepest nesting of strings and booleans that is read.
_DEEPEST = 32
_LARGE_EXPONENT = re.compile(rb"[eE]\+?[0-9]{3}")
_BOOL_LETTERS = b"truefals,[] \t\r\n"
_STRINGS_END = re.compile(rb'"[ \t\r\n]*,')

#: tritonserver's words for what JSON has not, as Python's parser takes them.
_CONSTANTS = ((b"Infinity", b"Inf"), (b"Inf", b"Infinity"), (b"-NaN", b"NaN"))
_LARGEST_EXPONENT = 308

_LENGTH = Struct("<I")


class NotTaken(Exception):
    """The text is for tritonserver itself to judge."""


def read_data(
    text: bytes, start: int, end: int, datatype: str, read_at_once: int = READ_AT_ONCE
) -> Steps[tuple[list[bytes], int]]:
    """Read the list text[start:end] as a tensor's data.

    Returns its bytes in pieces, as the binary protocol has them, and the number of elements.
    read_at_once: bytes of text in one step. Raises NotTaken.
    """
    if end - start <= read_at_once:
        piece, count = _read(text[start:end], datatype, read_at_once)
        yield
        return [piece], count
    pieces: list[bytes] = []
    count = 0
    strings = datatype == "BYTES"
    for chunk in _cut_chunks(text, start, end, read_at_once, strings=strings):
        piece, elements = _read(chunk, datatype, read_at_once)
        pieces.append(piece)
        count += elements
        yield
    return pieces, count


def write_data(
    raw: memoryview,
    datatype: str,
    count: int,
    written: Callable[[int], object] | None = None,
    written_at_once: int = WRITTEN_AT_ONCE,
) -> Steps[list[bytes]]:
    """Write a tensor's bytes as a flat JSON list, in pieces.

    written: told how many bytes each step wrote; what it raises ends it. Raises ValueError when
    the bytes are not those of that many elements. written_at_once: elements in one step, but for
    plain strings, of which STRINGS_AT_ONCE bytes are.
    """
    texts = (
        _write_strings(raw, count, written_at_once)
        if datatype == "BYTES"
        else _write_numbers(raw, datatype, count, written_at_once)
    )
    pieces = [b"["]
    for text in texts:
        if len(pieces) > 1:
            pieces.append(b",")
        if written is not None:
            written(len(text) + 1)
        pieces.append(text)
        yield
    pieces.append(b"]")
    return pieces


# Reading.


def _cut_chunks(
    text: bytes, start: int, end: int, read_at_once: int, *, strings: bool
) -> Iterator[bytes]:
    """Cut a list into lists of whole elements that have the same leaves in the same order.

    At each cut a comma goes, the open lists are closed, and are opened again at the start of the
    next chunk. With an element on either side of the comma, the chunks are JSON exactly where the
    text is. So a chunk is one of these:

    1. longer than a step may take: not taken.
    2. without an element on one side of its cuts: not taken, since the lists that are opened and
       closed around it would make JSON of a text that is none.
    3. of strings, where brackets are not counted since strings may hold some: as of a flat list. A
       chunk of a deeper one is no JSON, nor is one whose cut was made inside a string.
    4. of numbers or booleans, where they are: as deep as the text is there.
    5. the last: the text closes its lists itself.
    6. with a cut behind the list's end: not taken.
    7. any other: all lists that are open at its cut are closed.
    """
    opened = 0
    while True:
        cut = _find_cut(text, start + read_at_once, end, strings=strings)
        if cut - start > _LONGEST_CHUNK:  # 1
            raise NotTaken
        chunk = text[start:cut]
        inside = chunk.strip()
        if not inside or (opened and inside.startswith(b"]")):  # 2, at its start
            raise NotTaken
        if cut < end and inside.endswith(b"["):  # 2, at its end
            raise NotTaken
        before = opened
        if strings and opened == 0 and inside.startswith(b"["):  # 3
            opened = 1
        elif not strings:  # 4
            opened += _measure_depth(chunk)
        if cut == end:  # 5
            yield b"[" * before + chunk
            return
        if opened < 1:  # 6
            raise NotTaken
        yield b"[" * before + chunk + b"]" * opened  # 7
        start = cut + 1


def _measure_depth(chunk: bytes) -> int:
    """How many more lists it opens than it closes."""
    if b"[" not in chunk and b"]" not in chunk:
        return 0
    bytes_ = np.frombuffer(chunk, np.uint8)  # counts ten times as fast as bytes do
    return int(np.count_nonzero(bytes_ == ord("[")) - np.count_nonzero(bytes_ == ord("]")))


def _find_cut(text: bytes, start: int, end: int, *, strings: bool) -> int:
    """Where a comma stands that may divide two elements; end if there is none."""
    if not strings:
        comma = text.find(b",", start, end)
        return comma if comma >= 0 else end
    for guess, quote in enumerate(_STRINGS_END.finditer(text, start, end)):
        before = text[max(0, quote.start() - _MOST_GUESSES) : quote.start()]
        if not (len(before) - len(before.rstrip(b"\\"))) % 2:
            return quote.end() - 1
        if guess > _MOST_GUESSES:
            raise NotTaken
    return end


def _read(chunk: bytes, datatype: str, read_at_once: int) -> tuple[bytes, int]:
    try:
        if datatype == "BYTES":
            return read_plain(chunk) or _read_few_strings(chunk, read_at_once)
        if datatype == "BOOL":
            return _read_plain_bools(chunk) or _read_bools(orjson.loads(chunk))
        values = _read_numbers(chunk, datatype)
    except (ValueError, TypeError, RuntimeError) as error:  # simdjson's and orjson's
        raise NotTaken from error
    if values.dtype == _NUMBERS[datatype]:
        return values.tobytes(), len(values)
    with np.errstate(all="ignore"):
        return values.astype(_NUMBERS[datatype]).tobytes(), len(values)


def _read_numbers(chunk: bytes, datatype: str) -> _Array:
    dtype, wide = _WIDE[datatype]
    values: _Array
    try:
        parsed = simdjson.Parser().parse(chunk)
        assert isinstance(parsed, simdjson.Array), "a chunk is a list"
        values = np.frombuffer(parsed.as_buffer(of_type=dtype), wide)
        if dtype == "d" and (values == 0).any() and _is_too_big(chunk):
            raise NotTaken
    except (NotTaken, ValueError, TypeError, RuntimeError):
        if datatype != "FP64":
            raise
        return _read_doubles(chunk)
    return values


def _read_doubles(chunk: bytes) -> _Array:
    """What simdjson does not read: NaN, infinities, integers of more than 64 bits.

    tritonserver would read them, and round the other values wrongly.
    """
    for word, python in _CONSTANTS:
        chunk = chunk.replace(word, python)
    values = [*find_leaves(json.loads(chunk, parse_int=_read_integer, parse_float=_read_double))]
    if {*map(type, values)} - {float}:
        raise NotTaken
    doubles: _Array = np.array(values, dtype="f8")
    return doubles


def find_leaves(values: list[Any]) -> Iterator[Any]:
    """The values, which may stand in lists of lists."""
    for value in values:
        yield from find_leaves(value) if isinstance(value, list) else (value,)


def _read_integer(text: str) -> float:
    return _read_double(text) + 0.0  # an integer has no negative zero


def _read_double(text: str) -> float:
    """Raises NotTaken for a number that tritonserver finds too big, as 1e309 and 0e309 are."""
    value = float(text)
    mantissa, _, exponent = text.lower().partition("e")
    if isinf(value) or int(exponent or 0) > _LARGEST_EXPONENT + len(mantissa.partition(".")[2]):
        raise NotTaken
    return value


def _is_too_big(chunk: bytes) -> bool:
    """Whether an exponent may be one that tritonserver refuses, as it does that of 0e999."""
    return (b"e" in chunk or b"E" in chunk) and _LARGE_EXPONENT.search(chunk) is not None


def _read_plain_bools(chunk: bytes) -> tuple[bytes, int] | None:
    """All at once: JSON of nothing but these letters is of nothing but true and false."""
    if chunk.translate(None, _BOOL_LETTERS):
        return None
    simdjson.Parser().parse(chunk)
    letters = np.frombuffer(chunk, np.uint8)
    is_true = letters == ord("t")
    values = is_true[is_true | (letters == ord("f"))]
    return values.tobytes(), len(values)


def _read_bools(values: list[object]) -> tuple[bytes, int]:
    flat = _flatten(values, bool)
    return bytes(flat), len(flat)


def _read_few_strings(chunk: bytes, read_at_once: int) -> tuple[bytes, int]:
    """Strings that are not plain, one by one; tritonserver is faster at many of them."""
    if len(chunk) >= read_at_once:
        raise NotTaken
    return _read_strings(orjson.loads(chunk))


def _read_strings(values: list[object]) -> tuple[bytes, int]:
    encoded = [*map(str.encode, _flatten(values, str))]
    heads = map(_LENGTH.pack, map(len, encoded))
    return b"".join(chain.from_iterable(zip(heads, encoded, strict=True))), len(encoded)


def _flatten(values: list[object], kind: type[_T]) -> list[_T]:
    for _ in range(_DEEPEST):
        kinds = set(map(type, values))
        if kinds <= {kind}:
            return values  # type: ignore[return-value] # all of them are of that type
        if kinds != {list}:
            raise NotTaken
        values = [*chain.from_iterable(values)]  # type: ignore[arg-type] # lists, all of them
    raise NotTaken


# Writing.


def _write_numbers(raw: memoryview, datatype: str, count: int, at_once: int) -> Iterator[bytes]:
    kind = np.dtype("u1") if datatype == "BOOL" else _NUMBERS[datatype]
    if len(raw) != count * kind.itemsize:
        raise ValueError(f"{len(raw)} bytes, {count} elements of {datatype}")
    values = np.frombuffer(raw, kind)
    for start in range(0, count, at_once):
        part = values[start : start + at_once]
        if datatype == "BOOL":
            yield _dump(part != 0)
        elif datatype in _FLOATS:
            with np.errstate(all="ignore"):  # a signalling NaN; a sum that is too large
                doubles = part.astype("f8")  # tritonserver writes an FP32 as the double that it is
                total = doubles.sum()
            if np.isfinite(total) or np.isfinite(doubles).all():  # a sum is, only if all are
                yield _dump(doubles)
            else:
                yield json.dumps(doubles.tolist(), separators=(",", ":")).encode()[1:-1]
        else:
            yield _dump(part.copy())


def _dump(values: np.ndarray[Any, Any]) -> bytes:
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


def _write_strings(raw: memoryview, count: int, at_once: int) -> Iterator[bytes]:
    whole = bytes(raw)
    position = written = 0
    while position < len(whole):
        window = whole[position : position + STRINGS_AT_ONCE]
        plain = write_plain(window, last=position + len(window) == len(whole))
        text, used, strings = plain or _write_one_by_one(whole, position, at_once)
        position += used
        written += strings
        yield text
    if written != count:
        raise ValueError(f"{len(raw)} bytes of {written} strings, {count} elements")


def _write_one_by_one(whole: bytes, first: int, at_once: int) -> tuple[bytes, int, int]:
    """As write_plain, for any strings."""
    strings: list[bytes] = []
    position = first
    limit = min(len(whole), first + STRINGS_AT_ONCE)
    while position < limit and len(strings) < at_once:
        try:
            start = position + _LENGTH.size
            position = start + _LENGTH.unpack_from(whole, position)[0]
        except StructError as error:
            raise ValueError(f"{len(whole)} bytes that end inside a string's length") from error
        if position > len(whole):
            raise ValueError(f"{len(whole)} bytes that end inside a string")
        strings.append(whole[start:position])
    return _quote(strings), position - first, len(strings)


def _quote(strings: list[bytes]) -> bytes:
    try:
        return orjson.dumps([*map(bytes.decode, strings)])[1:-1]
    except (UnicodeDecodeError, TypeError):
        pass
    # Byte for byte, as tritonserver writes them, where they are not UTF-8.
    texts = [string.decode("latin-1") for string in strings]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode("latin-1")[1:-1]
