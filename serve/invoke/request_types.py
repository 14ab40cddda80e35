"""PURE. An inference request of the v2 protocol by the types that its fields must have.

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
_COMPLAINT = re.compile(r"(?P<said>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`")
_PLACE, _AROUND = re.compile(r"\(byte (\d+)\)"), 16
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")


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
        raise _complaint(str(error)) from error
    except RecursionError as error:
        raise BadRequest("the body", "JSON that is nested too deeply", EXPECTED) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(str(error).removeprefix("JSON is malformed: "), text) from error


def _malformed(said: str, text: bytes) -> BadRequest:
    """With the place shown; what stands behind whole JSON is tensors, most often."""
    at = _PLACE.search(said)
    if at is None:
        return BadRequest("the body", f"no JSON ({said})", EXPECTED)
    place = int(at[1])
    if said.startswith("trailing characters"):
        return _trailing(text[: place - 1])  # it counts the first of them in
    around = text[max(0, place - _AROUND) : place], text[place : place + _AROUND]
    shown = " >>> ".join(part.decode("ascii", "backslashreplace") for part in around)
    error = BadRequest("the body", f"no JSON ({said}: {shown!r})", EXPECTED)
    error.without_values = str(BadRequest("the body", f"no JSON ({said})", EXPECTED))
    return error


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


def _complaint(said: str) -> BadRequest:
    """msgspec's sentence as ours."""
    parts = _COMPLAINT.fullmatch(said)
    place = (parts and parts["place"]) or ""
    missing, wrong = _MISSING.match(said), _WRONG_TYPE.match(said)
    if missing:
        field = f"{place}.{missing['field']}".lstrip(".")
        return BadRequest(f"the field `{field}`", "nothing", EXPECTED if place else SHORTEST)
    where = f"the field `{place}`" if place else "the body"
    if wrong:
        known = EXPECTED if place else SHORTEST
        return BadRequest(where, wrong["found"], f"{wrong['expected']} ({known})")
    sentence = parts["said"] if parts else said
    if sentence.startswith("Number"):  # out of range
        return BadRequest(where, "a number that no 64 bits hold", "a smaller one")
    return BadRequest(where, "what is not allowed there", sentence.replace("Expected ", "", 1))
