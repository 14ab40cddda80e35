"""Columns whose values are not to be written: other values stand in their places.

A request stays one that can be asked: names, shapes and data types are kept. A string and an
integer of 32 bits and more become a hash of theirs, keyed by a salt that this process alone has:
equal values stay equal until it ends, and nobody can find them by trying. All other numbers become
0, since they have too few values for that.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from math import prod
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from serve.invoke.request_types import ELEMENT_SIZES

#: Bits of a hash that any number of the type has room for, and numpy's name of the type.
_HASHED = {"INT32": (31, "<i4"), "UINT32": (31, "<u4"), "INT64": (63, "<i8"), "UINT64": (63, "<u8")}
#: Behind a list column's name, Merlin's suffix of its values; how many there are is kept.
_LIST_VALUES = "__values"
_BINARY_SIZE = "binary_data_size"
#: What a request and an answer have; tritonserver reads nothing else.
_TENSORS = ("inputs", "outputs")
_MEMBERS = ("id", "model_name", "model_version", "parameters", *_TENSORS)
#: What is kept of a tensor that is hidden, and of any other.
_DESCRIPTION = ("name", "shape", "datatype", "parameters")
_TENSOR_MEMBERS = (*_DESCRIPTION, "data")
_DIGEST_SIZE, _LENGTH_SIZE = 8, 4
#: Names that a column of SERVE_CAPTURE_OMIT is compared with, if nothing has its name.
_MOST_WRITTEN = 1000
#: After so many hashes, a tenth of a millisecond, whoever answers callers gets the interpreter.
_HASHES_AT_ONCE, _PAUSE_S = 64, 0.0001

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_parameters = msgspec.json.Decoder(dict[str, Any]).decode
_decode_tensors = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_shape = msgspec.json.Decoder(list[int]).decode
_decode_name = msgspec.json.Decoder(str).decode
_decode = msgspec.json.decode
_encode = msgspec.json.encode


class NotUnderstood(Exception):
    """Nobody can say where in a body the values of a column lie."""


class ColumnHider:
    """columns: names of tensors, of requests and of answers; a list column by its plain name."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = {*columns, *(name + _LIST_VALUES for name in columns)}
        self._salt, self._hashes = secrets.token_bytes(32), 0
        self._unmet, self._written = {*columns}, set[str]()

    def take_unmet(self) -> dict[str, str]:
        """Columns that nothing has had so far, each with a written one like it or "". Only once."""
        unmet, written = sorted(self._unmet), sorted(self._written)
        self._unmet, self._written = set(), set()
        known = {name.casefold(): name for name in written}
        alike = {name: get_close_matches(name.casefold(), known, 1) for name in unmet}
        return {name: known[found[0]] if found else "" for name, found in alike.items()}

    def hide(self, text: bytes, tensors: bytes = b"") -> tuple[bytes, bytes]:
        """A request or an answer of the v2 protocol without the columns' values.

        text: its JSON. tensors: what lies behind that. Raises NotUnderstood.
        """
        try:
            return self._hide(text, tensors)
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotUnderstood(str(error)) from error

    def _hide(self, text: bytes, tensors: bytes) -> tuple[bytes, bytes]:
        members = _decode_members(text)
        kinds = [kind for kind in _TENSORS if kind in members]
        if not kinds:
            raise NotUnderstood("no tensors")
        written = self._pick(members, _MEMBERS)
        pieces, start = [], 0
        for kind in kinds:
            written[kind] = []
            for given in _decode_tensors(members[kind]):
                size, tensor = _read_binary_size(given), self._pick(given, _TENSOR_MEMBERS)
                data, start = tensors[start : start + size], start + size
                if len(data) != size:
                    raise NotUnderstood("tensors end too early")
                name = _read_name(_decode_name(tensor["name"]))
                if name in self._columns:
                    self._unmet -= {name, name.removesuffix(_LIST_VALUES)}
                    tensor, data = self._hide_tensor(tensor, data)
                elif self._unmet and len(self._written) < _MOST_WRITTEN:
                    self._written.add(name.removesuffix(_LIST_VALUES))
                written[kind].append(tensor)
                pieces.append(data)
        if start != len(tensors):
            raise NotUnderstood("bytes behind the tensors")
        return _encode(written), b"".join(pieces)

    def _pick(self, given: dict[str, Raw], members: Sequence[str]) -> dict[str, Any]:
        """These members; of `parameters` those that do not have a column's name."""
        picked: dict[str, Any] = {name: given[name] for name in members if name in given}
        if "parameters" in picked:
            parameters = _decode_members(given["parameters"])
            columns = {name: _read_name(name) for name in parameters}
            self._unmet -= {*columns.values()}
            picked["parameters"] = {
                name: value
                for name, value in parameters.items()
                if columns[name] not in self._columns
            }
        return picked

    def _hide_tensor(self, tensor: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        """data: of a binary tensor, else empty."""
        hidden: dict[str, Any] = {name: tensor[name] for name in _DESCRIPTION if name in tensor}
        if "data" not in tensor and not data:  # an output that is asked for
            return hidden, data
        datatype = _decode(tensor["datatype"])
        if data:
            data = self._hide_bytes(datatype, data)
            hidden["parameters"] = {_BINARY_SIZE: len(data)}
        elif datatype == "BYTES" or datatype in _HASHED:
            hidden["data"] = self._hide_values(datatype, _decode(tensor["data"]))
        else:
            hidden["data"] = _write_zeros(datatype, tensor)
        return hidden, data

    def _hide_values(self, datatype: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._hide_values(datatype, each) for each in value]
        if datatype == "BYTES":
            return self._hash(str(value).encode()).hex()
        return self._hash_integer(value, _HASHED[datatype][0])

    def _hide_bytes(self, datatype: str, data: bytes) -> bytes:
        if datatype == "BYTES":
            digests = (self._hash(text).hex().encode() for text in _read_strings(data))
            return b"".join(len(it).to_bytes(_LENGTH_SIZE, "little") + it for it in digests)
        if datatype in _HASHED:
            bits, kind = _HASHED[datatype]
            values = np.frombuffer(data, kind).tolist()
            hashes = np.array([self._hash_integer(it, bits) for it in values], kind)
            return bytes(hashes.data)
        if datatype not in ELEMENT_SIZES:
            raise NotUnderstood(datatype)
        return bytes(len(data))

    def _hash_integer(self, value: int, bits: int) -> int:
        digest = self._hash(str(value).encode())
        return int.from_bytes(digest, "little") & ((1 << bits) - 1)

    def _hash(self, value: bytes) -> bytes:
        self._hashes += 1
        if self._hashes % _HASHES_AT_ONCE == 0:
            time.sleep(_PAUSE_S)
        return blake2b(value, key=self._salt, digest_size=_DIGEST_SIZE).digest()


def _read_name(name: str) -> str:
    """As tritonserver has it, whose names end at a NUL."""
    return name.partition("\0")[0]


def _read_binary_size(tensor: dict[str, Raw]) -> int:
    """Bytes behind the JSON; 0 of a tensor that has none there."""
    if "parameters" not in tensor:
        return 0
    return int(_decode_parameters(tensor["parameters"]).get(_BINARY_SIZE, 0))


def _write_zeros(datatype: str, tensor: dict[str, Any]) -> Raw:
    """As many as the shape says, flat; what they were is not even read, since it can be long."""
    count = prod(_decode_shape(tensor["shape"]))
    if count > memoryview(tensor["data"]).nbytes:
        raise NotUnderstood("more values than there are bytes of them")
    zero = b"false" if datatype == "BOOL" else b"0"
    return Raw(b"[%b]" % b",".join([zero] * count))


def _read_strings(data: bytes) -> Iterator[bytes]:
    """Of a BYTES tensor: a length in front of each."""
    start = 0
    while start < len(data):
        begin = start + _LENGTH_SIZE
        start = begin + int.from_bytes(data[start:begin], "little")
        if start > len(data):
            raise NotUnderstood("a string ends too early")
        yield data[begin:start]
