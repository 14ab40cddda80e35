"""Lists of data to bytes and back: property tests, with chunks as small as they can be."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serve.invoke.json.tensor_json import (
    DATA_TYPES,
    STRINGS_AT_ONCE,
    NotTaken,
    Steps,
    read_data,
    write_data,
)
from tests.support.examples import examples

_T = TypeVar("_T")

#: Bytes in one step; so many that there is no cut; and such that all cuts come about.
_WHOLE = 1 << 30
_CUTS = (0, 1, 2, 3, 5, 7, 16, 40, _WHOLE)

_KINDS = {
    "FP32": "<f4",
    "FP64": "<f8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "BOOL": "?",
}
_SPACE = st.text(" \t\r\n", max_size=2)
_INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1).map(str) | st.integers(-3, 300).map(str)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(
    ["-0.0", "-0", "1E5", "1e-400", "5e-324", "0.10", "1e400", "16777217", "9007199254740993"]
)
_WORDS = st.text(max_size=4).map(json.dumps) | st.text('],["\\{}:a', max_size=6).map(json.dumps)
_BOOLS = st.sampled_from(["true", "false"])
_ELEMENTS = {
    "FP32": _FLOATS | _INTEGERS,
    "FP64": _FLOATS | _INTEGERS,
    "BOOL": _BOOLS,
    "BYTES": _WORDS,
}
_STRANGE = st.sampled_from(
    [
        "null",
        "1",
        '"1"',
        "NaN",
        "Infinity",
        "{}",
        "01",
        "+1",
        ".5",
        "",
        "1 2",
        '"\\ud800"',
        "1.5",
        "tru",
    ]
)


def done(steps: Steps[_T]) -> _T:
    """What the work returns, driven to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def read(text: bytes, datatype: str, at_once: int = _WHOLE) -> tuple[bytes, int] | None:
    """The bytes and the count of a list in the middle of a text; None where it is not taken."""
    whole = b'{"data":' + text + b"}"
    try:
        pieces, count = done(read_data(whole, 8, 8 + len(text), datatype, at_once))
    except NotTaken:
        return None
    return b"".join(pieces), count


def written(raw: bytes, datatype: str, count: int, at_once: int = 8192) -> Any:
    """The list that is written for a tensor."""
    pieces = done(write_data(memoryview(raw), datatype, count, written_at_once=at_once))
    text = b"".join(pieces)
    return json.loads(text.decode("utf-8", "surrogateescape"))


def _flat(values: Any) -> list[Any]:
    if not isinstance(values, list):
        return [values]
    return [leaf for value in values for leaf in _flat(value)]


def _expected(values: list[Any], datatype: str) -> bytes:
    if datatype == "BYTES":
        words = [value.encode() for value in values]
        return b"".join(struct.pack("<I", len(word)) + word for word in words)
    kind = _KINDS[datatype]
    if datatype in ("FP32", "FP64"):
        with np.errstate(over="ignore"):
            doubles = np.array([float(value) for value in values], "<f8")
            return bytes(doubles.astype(kind).data)
    if datatype == "BOOL":
        return bytes(values)
    mask = (1 << 8 * np.dtype(kind).itemsize) - 1
    return b"".join((value & mask).to_bytes(np.dtype(kind).itemsize, "little") for value in values)


@st.composite
def _lists(draw: st.DrawFn) -> tuple[str, str]:
    """A data type and the text of a list: any nesting, any whitespace, and perhaps no JSON."""
    datatype = draw(st.sampled_from(sorted(DATA_TYPES)))
    element = _ELEMENTS.get(datatype, _INTEGERS)
    broken, spaced = draw(st.booleans()), draw(st.booleans())
    if broken:
        element = element | element | element | _STRANGE

    def listed(parts: list[str]) -> str:
        return "[" + ",".join(parts) + "]"

    def padded(text: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(_SPACE, text, _SPACE).map("".join) if spaced else text

    leaves = st.lists(padded(element), max_size=5).map(listed)
    text = draw(
        st.recursive(
            leaves,
            lambda inner: st.lists(padded(inner | inner | element), max_size=4).map(listed),
            max_leaves=12,
        )
        | st.lists(padded(element), min_size=1, max_size=12).map(listed)
    )
    if broken:
        for _ in range(draw(st.integers(0, 3))):
            place = draw(st.integers(1, max(1, len(text) - 1)))
            gone = draw(st.integers(0, 1))
            put = draw(
                st.sampled_from(
                    [*'[],"\\ 1{}:', "", ",,", "[]", " , ", "],[", "\x0b", "\xa0", "\x00"]
                )
            )
            text = text[:place] + put + text[place + gone :]
    return datatype, text


@settings(max_examples=examples(300))
@given(described=_lists())
def test_only_json_is_taken(described: tuple[str, str]) -> None:
    """Wherever a list is cut: no JSON is not taken; what is taken has the values Python reads."""
    datatype, text = described
    encoded = text.encode("utf-8", "surrogatepass")
    try:
        flat = _flat(json.loads(text))
    except ValueError:
        flat = None
    for at_once in _CUTS:
        found = read(encoded, datatype, at_once)
        if found is not None:
            assert flat is not None, (at_once, found)
            assert found == (_expected(flat, datatype), len(flat)), at_once


@pytest.mark.parametrize("word", ['"a\\n"', '"\\u00e9"', '"\\""'])
def test_few_strings_that_are_not_plain(word: str) -> None:
    """One by one; tritonserver is faster at many of them."""
    text = f"[{word},{word}]".encode()
    assert read(text, "BYTES", _WHOLE) == (_expected(json.loads(text), "BYTES"), 2)
    assert read(text, "BYTES", 4) is None


@pytest.mark.parametrize("datatype", sorted(DATA_TYPES))
@pytest.mark.parametrize("at_once", [50, 1000, _WHOLE])
@pytest.mark.parametrize("separator", [b",", b" ,\r\n\t"])
def test_plain_lists_are_taken(datatype: str, at_once: int, separator: bytes) -> None:
    """Flat lists of every data type are taken in as many steps as there are chunks."""
    few: dict[str, list[Any]] = {"BOOL": [True, False], "BYTES": ["a", "bc", ""]}
    values = few.get(datatype, [0, 1, 100, 127]) * 500
    texts = [json.dumps(value).encode() for value in values]
    text = b"[" + separator.join(texts) + b"]"
    taken = read(text, datatype, at_once)
    if datatype == "BYTES" and at_once != _WHOLE and separator != b",":
        assert taken is None  # many strings, and not plainly written
        return
    assert taken == (_expected(values, datatype), len(values))
    steps = sum(1 for _ in read_data(text, 0, len(text), datatype, at_once))
    assert steps == 1 if at_once == _WHOLE else steps >= len(text) / (at_once + 60)


@pytest.mark.parametrize("datatype", sorted(DATA_TYPES - {"BYTES"}))
@pytest.mark.parametrize("at_once", [50, 1000, _WHOLE])
def test_nested_lists_of_numbers_are_taken(datatype: str, at_once: int) -> None:
    """Lists nested as the shape says are taken, cut wherever a comma stands."""
    value: Any = True if datatype == "BOOL" else 1
    values = [[[value] * 4] * 3] * 40
    text = json.dumps(values).encode()
    found = read(text, datatype, at_once)
    if datatype == "BOOL" and at_once != _WHOLE:
        assert found in (None, (_expected([value] * 480, datatype), 480))  # a cut may be uneven
    else:
        assert found == (_expected([value] * 480, datatype), 480)


def test_nothing_between_two_commas() -> None:
    """A chunk of nothing but whitespace is a missing element, however much whitespace it is."""
    assert read(b"[1," + b" " * 70_000 + b",2]", "INT64", 64 * 1024) is None
    assert read(b"[1," + b" " * 70_000 + b"2]", "INT64", 64 * 1024) is not None


@pytest.mark.parametrize(
    ("datatype", "text"),
    [
        ("INT64", "9223372036854775808"),
        ("INT64", "-9223372036854775809"),
        ("UINT64", "18446744073709551616"),
        ("UINT8", "-1"),
        ("INT32", "1.0"),
        ("INT32", "1e2"),
        ("FP32", "123456789012345678901234567890"),
        ("FP64", "1e400"),
        ("FP64", "0e999"),
        ("FP32", "0.0E+0400"),
        ("FP32", "NaN"),
        ("FP32", "Infinity"),
        ("FP64", "nan"),
        ("FP64", "+1"),
        ("FP64", "1."),
        ("FP64", '"NaN"'),
        ("FP64", "null"),
        ("FP64", "1e309"),
        ("FP32", "true"),
        ("BOOL", "1"),
        ("BYTES", "1"),
        ("BYTES", "null"),
        ("BYTES", r'"\ud800"'),
    ],
)
def test_elements_that_are_left_to_tritonserver(datatype: str, text: str) -> None:
    """What is out of 64 bits, of another type or no JSON is not taken, among others too."""
    plain = {"BOOL": "true", "BYTES": '"a"'}.get(datatype, "1")
    assert read(f"[{plain}]".encode(), datatype) is not None
    assert read(f"[{text}]".encode(), datatype) is None
    assert read(f"[{plain},{text},{plain}]".encode(), datatype) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NaN", np.nan),
        ("-NaN", np.nan),
        ("Inf", np.inf),
        ("-Infinity", -np.inf),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("18446744073709551616", 18446744073709551616.0),
        ("0e100", 0.0),
        ("0.00000001e309", 1e301),
        ("1e-400", 0.0),
    ],
)
def test_doubles_that_the_fast_parser_does_not_read(text: str, value: float) -> None:
    """They are read, and so are those beside them, whose last bit tritonserver would change."""
    beside = [0.0, 0.8444218515250481, -1.7976931348623157e308]
    body = json.dumps(beside)[:-1] + f", [{text}, [{text}]]]"
    found = read(body.encode(), "FP64")
    assert found is not None
    np.testing.assert_array_equal(np.frombuffer(found[0], "<f8"), [*beside, value, value])


@pytest.mark.parametrize("depth", [10, 1000, 5000, 200_000])
@pytest.mark.parametrize("datatype", ["FP32", "BOOL", "BYTES"])
def test_depth_is_no_error(depth: int, datatype: str) -> None:
    """However deep lists are nested, they are taken or left; nothing else is raised."""
    plain = {"BOOL": b"true", "BYTES": b'"a"'}.get(datatype, b"1")
    found = read(b"[" * depth + plain + b"]" * depth, datatype)
    assert (
        found is not None if depth == 10 else found in (None, read(b"[" + plain + b"]", datatype))
    )


@pytest.mark.parametrize("datatype", sorted(DATA_TYPES - {"BYTES"}))
@given(raw=st.binary(max_size=400), at_once=st.integers(1, 9))
def test_numbers_are_written_as_they_are(datatype: str, raw: bytes, at_once: int) -> None:
    """Any bytes as a tensor come back from the text bit for bit, NaN as some NaN."""
    kind: np.dtype[Any] = np.dtype(_KINDS[datatype])
    raw = raw[: len(raw) // kind.itemsize * kind.itemsize]
    if datatype == "BOOL":
        raw = bytes(byte & 1 for byte in raw)
    values = written(raw, datatype, len(raw) // kind.itemsize, at_once)
    array = np.frombuffer(raw, kind)
    assert len(values) == len(array)
    if datatype in ("FP32", "FP64"):
        assert all(type(value) in (float, int) for value in values)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            doubles = array.astype("f8")
        bits = np.array(values, "f8").view("u8")
        assert (
            (bits == doubles.view("u8")) | (np.isnan(doubles) & np.isnan(bits.view("f8")))
        ).all()
    else:
        assert values == array.tolist()
        assert all(type(value) is (bool if datatype == "BOOL" else int) for value in values)


@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_what_is_no_number_is_a_word(datatype: str) -> None:
    """NaN, Infinity and -Infinity are written as tritonserver writes them; -0.0 keeps its sign."""
    raw = np.array([math.nan, math.inf, -math.inf, -0.0, 1.5], _KINDS[datatype]).tobytes()
    text = b"".join(done(write_data(memoryview(raw), datatype, 5)))
    assert text == b"[NaN,Infinity,-Infinity,-0.0,1.5]"


@given(words=st.lists(st.binary(max_size=9)), at_once=st.integers(1, 5))
def test_strings_are_written_byte_for_byte(words: list[bytes], at_once: int) -> None:
    """Any strings of bytes come back, also such as are no UTF-8."""
    raw = b"".join(struct.pack("<I", len(word)) + word for word in words)
    values = written(raw, "BYTES", len(words), at_once)
    assert [value.encode("utf-8", "surrogateescape") for value in values] == words


@pytest.mark.parametrize("length", [10, 1000, 100_000])
def test_strings_are_written_in_steps(length: int) -> None:
    """How much is written in one step does not grow with the strings' lengths."""
    count = 2_000_000 // length
    raw = (struct.pack("<I", length) + b'"' * length) * count
    steps = sum(1 for _ in write_data(memoryview(raw), "BYTES", count))
    assert steps >= len(raw) // (STRINGS_AT_ONCE + length + 4)
    assert written(raw, "BYTES", count) == ['"' * length] * count


@pytest.mark.parametrize(
    ("raw", "datatype", "count"),
    [
        (b"\0" * 7, "FP32", 2),
        (b"\0" * 8, "FP32", 1),
        (b"", "FP32", 1),
        (b"\0", "BYTES", 1),
        (b"\1\0\0\0", "BYTES", 1),
        (b"\1\0\0\0a", "BYTES", 2),
        (b"\1\0\0\0a\0", "BYTES", 1),
        (b"\xff\xff\xff\xffa", "BYTES", 1),
        (b"\1\0\0\0a", "BYTES", 0),
    ],
)
def test_bytes_of_another_tensor(raw: bytes, datatype: str, count: int) -> None:
    """Bytes that are not those of so many elements are a ValueError."""
    with pytest.raises(ValueError, match="bytes"):
        written(raw, datatype, count)
