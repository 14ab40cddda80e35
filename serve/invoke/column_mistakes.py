"""What is wrong with the columns of a request at which a model of Merlin's failed. No I/O.

Compiled workflows and generated steps say it themselves. NVTabular and Merlin's executor raise
something else for the same request, so it is looked for once they have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from serve.errors import BadRequest, shortened
from serve.invoke.json.tensor_json import find_leaves
from serve.invoke.request_types import ELEMENT_SIZES, LongInput, decode_long, read_leniently

#: Of a request's data that are read again, in bytes; shapes are whatever the size. Nobody is served
#: meanwhile: some hundredths of a second at most.
_MOST_READ = 128 * 1024
#: Binary tensors of more bytes are not put together.
_MOST_COPIED = 4 * 1024 * 1024
#: What is raised for data that are not what their type says.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, struct.error)
_OFFSETS, _VALUES = "__offsets", "__values"
#: How many values each row has, which older exports have instead of offsets.
_LENGTHS = "__nnzs"
_FORMATS = {"INT32": "i", "INT64": "q"}


def find_mistake(body: Sequence[bytes], json_size: int | None = None) -> str | None:
    """The first one, in the words of compiled workflows; None where there is none to be found.

    body: the request's, in pieces. json_size: of the JSON in the first one, before binary tensors;
    None where all of it is JSON.
    """
    if not body:
        return None
    text = body[0][:json_size]
    binary = [memoryview(body[0])[len(text) :], *(memoryview(piece) for piece in body[1:])]
    tensors = b"".join(binary) if sum(map(len, binary)) <= _MOST_COPIED else b""
    try:
        inputs = {tensor.name: tensor for tensor in read_leniently(decode_long, text)[1].inputs}
        return next(_find_mistakes(inputs, _read_data(inputs, tensors)), None)
    except (BadRequest, RecursionError, *_UNREADABLE):
        return None


def _read_data(inputs: Mapping[str, LongInput], tensors: bytes) -> dict[str, list[Any]]:
    """Of each column's offsets and texts what is short enough to be read."""
    data, start, left = {}, 0, _MOST_READ
    for name, given in inputs.items():
        parameters = {} if given.parameters is msgspec.UNSET else given.parameters
        size = int(parameters.get("binary_data_size") or 0)
        tensor, text = tensors[start : start + size], bytes(given.data)
        start += size
        length = len(tensor) or len(text)
        if not (name.endswith(_OFFSETS) or given.datatype == "BYTES") or not 0 < length <= left:
            continue
        left -= length
        data[name] = (
            _read_tensor(given.datatype, tensor)
            if tensor
            else [*find_leaves(msgspec.json.decode(text))]
        )
    return data


def _read_tensor(datatype: str, tensor: bytes) -> list[Any]:
    if datatype != "BYTES":
        count = len(tensor) // ELEMENT_SIZES[datatype]
        return [*struct.unpack(f"<{count}{_FORMATS[datatype]}", tensor)]
    texts, start = [], 0
    while start < len(tensor):
        (length,) = struct.unpack_from("<I", tensor, start)
        start += 4 + length
        texts.append(tensor[start - length : start])
    return texts


def _find_mistakes(inputs: Mapping[str, LongInput], data: Mapping[str, list[Any]]) -> Iterator[str]:
    for name in inputs:
        if name.endswith(_OFFSETS):
            values = inputs[name.removesuffix(_OFFSETS) + _VALUES].shape[0]
            offsets = data.get(name, []) if inputs[name].shape[0] else []
            if offsets or not inputs[name].shape[0]:
                yield from _find_wrong_offsets(name.removesuffix(_OFFSETS), offsets, values)
        elif any(not each.isascii() for each in data.get(name, ())):
            yield (
                f"column {shortened(name.removesuffix(_VALUES))}: a string is not ASCII, which is "
                "all that merlin-systems reads"
            )
    yield from _find_wrong_rows(dict(_count_rows(inputs)))


def _count_rows(inputs: Mapping[str, LongInput]) -> Iterator[tuple[str, int]]:
    """Each column and how many rows it has."""
    for name, tensor in inputs.items():
        column = name.removesuffix(_VALUES)
        if name.endswith(_OFFSETS):
            yield name.removesuffix(_OFFSETS), tensor.shape[0] - 1
        elif column == name or inputs.keys().isdisjoint((column + _OFFSETS, column + _LENGTHS)):
            yield name, tensor.shape[0]


def _find_wrong_rows(rows: Mapping[str, int]) -> Iterator[str]:
    (first, expected), *others = rows.items()
    for name, count in others:
        if count != expected:
            yield (
                f"column {shortened(name)} has {count} rows, and column {shortened(first)} has "
                f"{expected}; a request's columns are of one length"
            )
    if expected < 1:
        yield "the request has no rows: one at least is needed"


def _find_wrong_offsets(column: str, offsets: Sequence[int], values: int) -> Iterator[str]:
    if not offsets or offsets[-1] != values:
        yield (
            f"column {shortened(column)}: the last offset is "
            f"{offsets[-1] if offsets else 'missing'}, and there are {values} values; they must be "
            "the same"
        )
    for before, after in pairwise(offsets):
        if after < before:
            yield (
                f"column {shortened(column)}: the offset {after} comes after {before}; offsets may "
                "not become smaller"
            )
