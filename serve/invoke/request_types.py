"""An inference request of the v2 protocol by the types that its fields must have. No I/O.

Read by a parser that knows them, which says what is wrong; the data of long requests are skipped
over and kept as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from serve.errors import BadRequest

#: Bytes of one element; BYTES has a length of four bytes in front of each.
ELEMENT_SIZES: Mapping[str, int] = {
    "BOOL": 1,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "UINT64": 8,
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FP16": 2,
    "BF16": 2,
    "FP32": 4,
    "FP64": 8,
    "BYTES": 4,
}
#: JSON has no such numbers for tritonserver: they come as binary tensors.
BINARY_ONLY = {"FP16", "BF16"}
NUMBERS = frozenset(ELEMENT_SIZES) - BINARY_ONLY - {"BYTES"}

#: Far above any model's; a great number of either takes tritonserver's time (CVE-2026-24146).
MOST_TENSORS = 4096
#: numpy's limit, and more than any backend's.
_MOST_DIMENSIONS = 32
#: Of one dimension, and of all that are not zero in an empty tensor: what an int counts to.
LARGEST_DIMENSION = (1 << 31) - 1

#: Some callers' libraries write it; tritonserver passes over it, the parser here does not.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

EXPECTED = "an inference request of the v2 protocol"
SHORTEST = (
    f"{EXPECTED}, such as "
    '{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0.5]}]}'
)

#: More parameters than any model has: tritonserver's time grows with their square.
_MOST_PARAMETERS = 100
Parameters = (
    Annotated[dict[str, str | int | float | bool | None], Meta(max_length=_MOST_PARAMETERS)]
    | UnsetType
)
_Shape = Annotated[
    list[Annotated[int, Meta(ge=0, le=LARGEST_DIMENSION)]], Meta(max_length=_MOST_DIMENSIONS)
]


class ShortInput(msgspec.Struct, gc=False):
    """One whose data are built: cheaper than skipping while they are few."""

    name: str
    shape: _Shape
    datatype: str
    data: list[Any] = []  # msgspec copies it
    parameters: Parameters = UNSET


class LongInput(msgspec.Struct, gc=False):
    """One whose data are skipped over, and kept as the text that they are."""

    name: str
    shape: _Shape
    datatype: str
    data: Raw = Raw()
    parameters: Parameters = UNSET


class Output(msgspec.Struct, gc=False):
    """One that is asked for."""

    name: str
    parameters: Parameters = UNSET


Named = ShortInput | LongInput | Output
Outputs = Annotated[list[Output], Meta(max_length=MOST_TENSORS)] | UnsetType


class ShortRequest(msgspec.Struct, gc=False):
    """With inputs whose data are built."""

    inputs: Annotated[list[ShortInput], Meta(max_length=MOST_TENSORS)]
    outputs: Outputs = UNSET
    parameters: Parameters = UNSET
    id: str | UnsetType = UNSET


class LongRequest(msgspec.Struct, gc=False):
    """With inputs whose data are skipped over."""

    inputs: Annotated[list[LongInput], Meta(max_length=MOST_TENSORS)]
    outputs: Outputs = UNSET
    parameters: Parameters = UNSET
    id: str | UnsetType = UNSET


class OutputsText(msgspec.Struct, gc=False):
    """A request of which nothing is read but where its outputs stand."""

    outputs: Raw = Raw()


decode_outputs = msgspec.json.Decoder(Outputs).decode
decode_outputs_text = msgspec.json.Decoder(OutputsText).decode
decode_short = msgspec.json.Decoder(ShortRequest).decode
decode_long = msgspec.json.Decoder(LongRequest).decode
decode_object = msgspec.json.Decoder(dict[str, Raw]).decode

#: How msgspec says what is wrong: "Expected `int`, got `str` - at `$.inputs[0].shape[1]`".
_COMPLAINT = re.compile(r"(?P<said>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`")
_POSITION, _AROUND = re.compile(r"\(byte (\d+)\)"), 16
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")


#: msgspec's words for what stands where an object is expected.
_IN_WORDS: Mapping[str, str] = {
    "int": "a number",
    "float": "a number",
    "str": "a string; was it written as JSON twice?",
    "array": "a list",
    "bool": "true or false",
}
#: How bodies begin that are something else.
_BEGINNINGS: tuple[tuple[tuple[bytes, ...], str], ...] = (
    ((b"\x1f\x8b",), "gzip: send the header Content-Encoding: gzip with it"),
    ((b"x\x9c", b"x\x01", b"x\xda"), "zlib: send the header Content-Encoding: deflate with it"),
    ((b"\x28\xb5\x2f\xfd",), "zstd is not read; gzip and deflate are"),
    ((b"\x93NUMPY", b"PK\x03\x04"), "npy, npz and zip files are not read; binary tensors are"),
    ((b"PAR1", b"ARROW1"), "Parquet and Arrow are not read"),
    ((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), "pickles are not read"),
    ((b"\x89PNG", b"\xff\xd8\xff"), "images are not read"),
    ((b"\xff\xfe", b"\xfe\xff", b"{\x00", b"\x00{"), "UTF-16 and UTF-32 are not read; UTF-8 is"),
    ((b"--",), "multipart/form-data is not read"),
    ((b"<",), "XML and HTML are not read"),
)
#: As Python and JavaScript write them.
_FOREIGN_WORD = re.compile(
    rb"(?<!\w)(?:(?:None|True|False|undefined|nan|NAN|nil|NULL|Null|inf|INF|infinity)(?!\w)|')"
)
_LONGEST_WORD = 10
#: A line of values with commas, or the line of a form.
_CSV = re.compile(
    rb"[^\x00-\x08\n-\x1f{}\[\]:]{1,2000},[^\x00-\x08\n\x0e-\x1f{}\[\]]{0,2000}(?:\n|\Z)"
)
_FORM = re.compile(rb"[\w.%+-]{1,100}=")


def find_foreign_kind(text: bytes) -> str:
    """Names the format of a body that is no JSON, by its beginning; empty if it is not known."""
    begun = bytes(text[:4096]).removeprefix(_BYTE_ORDER_MARK).lstrip()
    for beginnings, kind in _BEGINNINGS:
        if begun.startswith(beginnings):
            return kind
    if _CSV.match(begun):
        return "text/csv is not read"
    return "forms are not read" if _FORM.match(begun) else ""


def _plain(text: bytes) -> bytes:
    """Without what tritonserver's parser takes and JSON has not: a byte order mark, NaN, infinity.

    Replaces the latter by numbers of the same length, in strings too: only names are read there.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    for word in (b"NaN", b"Infinity", b"Inf"):
        if word in text:
            text = text.replace(word, b"0".ljust(len(word)))
    return text


def read_leniently(decode: Any, text: bytes) -> tuple[bytes, Any]:
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
        raise _describe_mistake(str(error), text) from error
    except RecursionError as error:
        raise BadRequest("the body", "JSON that is nested too deeply", EXPECTED) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _describe_malformed(str(error).removeprefix("JSON is malformed: "), text) from error


def _describe_malformed(complaint: str, text: bytes) -> BadRequest:
    """With the position shown; what stands behind whole JSON is tensors, most often."""
    if kind := find_foreign_kind(text):
        return BadRequest("the body", f"no JSON object ({kind})", SHORTEST)
    at = _POSITION.search(complaint)
    if at is None:
        return BadRequest("the body", f"no JSON ({complaint})", EXPECTED)
    position = int(at[1])
    if complaint.startswith("trailing characters"):
        position -= 1  # it counts the first of them in
        if text[position:].lstrip().startswith(b"{"):
            return BadRequest("the body", "more than one JSON object", "one request")
        return _trailing(text[:position])
    if text.startswith(_BYTE_ORDER_MARK, position):
        complaint = f"a byte order mark at byte {position}"
        return BadRequest("the body", f"no JSON ({complaint})", f"{EXPECTED}, without it")
    if word := _find_foreign_word(text, position):
        expected = "null, true, false, NaN, Infinity and double quotes, as JSON has them"
        return BadRequest("the body", f"no JSON ({word} at byte {position})", expected)
    around = text[max(0, position - _AROUND) : position], text[position : position + _AROUND]
    shown = " >>> ".join(part.decode(errors="replace") for part in around)
    error = BadRequest("the body", f"no JSON ({complaint}: {shown!r})", EXPECTED)
    error.without_values = str(BadRequest("the body", f"no JSON ({complaint})", EXPECTED))
    return error


def _find_foreign_word(text: bytes, position: int) -> str:
    """The word of another language, such as None, that stands there; empty for none."""
    start = max(0, position - _LONGEST_WORD)
    for match in _FOREIGN_WORD.finditer(text, start, position + _LONGEST_WORD):
        if match.start() <= position <= match.end():
            return match[0].decode()
    return ""


def _trailing(read: bytes) -> BadRequest:
    """read: the JSON, and white space behind it, which may be a tensor's first bytes."""
    json = read.rstrip(b" \t\n\r")
    size = str(len(json)) if len(json) == len(read) else "<bytes of JSON>"
    return BadRequest(
        "the body",
        "more behind its JSON",
        "none; or, where binary tensors follow, the Content-Type "
        f"application/vnd.sagemaker-triton.binary+json;json-header-size={size}",
    )


def _describe_mistake(complaint: str, text: bytes) -> BadRequest:
    """msgspec's sentence as ours."""
    parts = _COMPLAINT.fullmatch(complaint)
    path = (parts and parts["path"]) or ""
    missing, wrong = _MISSING.match(complaint), _WRONG_TYPE.match(complaint)
    if missing:
        field = f"{path}.{missing['field']}".lstrip(".")
        return BadRequest(f"the field `{field}`", "nothing", EXPECTED if path else SHORTEST)
    where = f"the field `{path}`" if path else "the body"
    if wrong and not path:
        kind = find_foreign_kind(text) or f"it is {_IN_WORDS.get(wrong['found'], wrong['found'])}"
        return BadRequest(where, f"no JSON object ({kind})", SHORTEST)
    if wrong:
        return BadRequest(where, wrong["found"], f"{wrong['expected']} ({EXPECTED})")
    sentence = parts["said"] if parts else complaint
    if sentence.startswith("Number"):  # out of range
        return BadRequest(where, "a number that no 64 bits hold", "a smaller one")
    return BadRequest(where, "what is not allowed there", sentence.replace("Expected ", "", 1))
