"""How many rows a parquet file says that it has, and how long its texts are: its footer's first
fields, without pyarrow.

The footer is a struct of Thrift's compact protocol: the version, the schema, the number of rows,
the groups of rows with their bytes. A server that has no other use for a library of 50 MB reads
these itself.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import read_with

_MAGIC = b"PAR1"
#: Of the footer; a category file has a few columns, and a group for a million rows.
_MOST_BYTES, _DEEPEST = 64 * 1024, 8
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
#: Of a group: its bytes before they are compressed.
_GROUP_BYTES = 2
#: Of a column: its type is the first field; this one is that of texts.
_TYPE, _BYTE_ARRAY = 1, 6
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE = (1, 2), 3, (4, 5, 6), 7
_TEXT, _LISTS, _STRUCT = 8, (9, 10), 12


@dataclass(frozen=True)
class Rows:
    """count: 0 for what is no such file. text_bytes: of all columns, where one holds texts."""

    count: int = 0
    text_bytes: int = 0


def count_rows(path: Path) -> Rows:
    """What the footer says. Raises as read_with does."""
    return read_with(path, _read) or Rows()


def _read(file: BinaryIO) -> Rows:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - 8))
    end = file.read(8)
    if len(end) < 8 or not end.endswith(_MAGIC):
        return Rows()
    size = struct.unpack("<I", end[:4])[0]
    file.seek(max(0, length - 8 - size))
    try:
        return _find_rows(io.BytesIO(file.read(min(size, _MOST_BYTES))))
    except (ValueError, IndexError):
        return Rows()


def _find_rows(data: io.BytesIO) -> Rows:
    field, texts = 0, False
    while True:
        delta, kind = divmod(data.read(1)[0], 16)
        field = field + delta if delta else _read_integer(data)
        if field == _ROWS and kind in _INTEGERS:
            return Rows(max(0, _read_integer(data)), _sum_groups(data) if texts else 0)
        if field >= _ROWS:
            return Rows()
        if field == _SCHEMA and kind in _LISTS:
            texts = _BYTE_ARRAY in [*_read_integers(data, _TYPE)]
        else:
            _skip(data, kind, _DEEPEST)


def _sum_groups(data: io.BytesIO) -> int:
    """Bytes of the groups, which stand behind the number of rows; of those that were read."""
    delta, kind = divmod(data.read(1)[0], 16)
    size = 0
    if delta == _GROUPS - _ROWS and kind in _LISTS:
        with suppress(ValueError, IndexError):
            for group in _read_integers(data, _GROUP_BYTES):
                size += max(0, group)
    return size


def _read_integers(data: io.BytesIO, needed: int) -> Iterator[int]:
    """The integer in the field of this number, of each struct in a list that has it."""
    count, of = divmod(data.read(1)[0], 16)
    if of != _STRUCT:
        raise ValueError("neither columns nor groups are a list of anything else")
    for _ in range(_read_varint(data) if count == 15 else count):
        field = 0
        while inside := data.read(1)[0]:
            delta, kind = divmod(inside, 16)
            field = field + delta if delta else _read_integer(data)
            if field == needed and kind in _INTEGERS:
                yield _read_integer(data)
            else:
                _skip(data, kind, _DEEPEST)


def _read_varint(data: io.BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = data.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("no number is so long")


def _read_integer(data: io.BytesIO) -> int:
    value = _read_varint(data)
    return value >> 1 ^ -(value & 1)


def _skip(data: io.BytesIO, kind: int, deepest: int) -> None:
    if not deepest:
        raise ValueError("no schema is so deep")
    if kind in _INTEGERS:
        _read_varint(data)
    elif kind in (_BYTE, _DOUBLE, _TEXT):
        length = {_BYTE: 1, _DOUBLE: 8}.get(kind) or _read_varint(data)
        if len(data.read(min(length, _MOST_BYTES))) < length:
            raise ValueError("it is cut off")
    elif kind in _LISTS:
        count, of = divmod(data.read(1)[0], 16)
        for _ in range(_read_varint(data) if count == 15 else count):
            _skip(data, _BYTE if of in _BOOLEANS else of, deepest - 1)
    elif kind == _STRUCT:
        while inside := data.read(1)[0]:
            if not inside >> 4:
                _read_integer(data)
            _skip(data, inside & 15, deepest - 1)
    elif kind not in _BOOLEANS:
        raise ValueError("no schema has such a field")
