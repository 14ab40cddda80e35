"""How many rows a parquet file says that it has: its footer's first fields, without pyarrow.

The footer is a struct of Thrift's compact protocol: the version, the schema, the number of rows.
A server that has no other use for a library of 50 MB reads these itself.
"""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import read_with

_MAGIC = b"PAR1"
#: Of the footer, where the rows stand behind the schema; a category file has a few columns.
_MOST_BYTES, _DEEPEST = 64 * 1024, 8
_ROWS = 3
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE = (1, 2), 3, (4, 5, 6), 7
_TEXT, _LISTS, _STRUCT = 8, (9, 10), 12


def count_rows(path: Path) -> int:
    """What the footer says; 0 for what is no such file. Raises as read_with does."""
    return read_with(path, _read) or 0


def _read(file: BinaryIO) -> int:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - 8))
    end = file.read(8)
    if len(end) < 8 or not end.endswith(_MAGIC):
        return 0
    size = struct.unpack("<I", end[:4])[0]
    file.seek(max(0, length - 8 - size))
    try:
        return _find_rows(io.BytesIO(file.read(min(size, _MOST_BYTES))))
    except (ValueError, IndexError):
        return 0


def _find_rows(data: io.BytesIO) -> int:
    field = 0
    while True:
        delta, kind = divmod(data.read(1)[0], 16)
        field = field + delta if delta else _integer(data)
        if field == _ROWS and kind in _INTEGERS:
            return max(0, _integer(data))
        if field >= _ROWS:
            return 0
        _skip(data, kind, _DEEPEST)


def _varint(data: io.BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = data.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("no number is so long")


def _integer(data: io.BytesIO) -> int:
    value = _varint(data)
    return value >> 1 ^ -(value & 1)


def _skip(data: io.BytesIO, kind: int, deepest: int) -> None:
    if not deepest:
        raise ValueError("no schema is so deep")
    if kind in _INTEGERS:
        _varint(data)
    elif kind in (_BYTE, _DOUBLE, _TEXT):
        length = {_BYTE: 1, _DOUBLE: 8}.get(kind) or _varint(data)
        if len(data.read(min(length, _MOST_BYTES))) < length:
            raise ValueError("it is cut off")
    elif kind in _LISTS:
        count, of = divmod(data.read(1)[0], 16)
        for _ in range(_varint(data) if count == 15 else count):
            _skip(data, _BYTE if of in _BOOLEANS else of, deepest - 1)
    elif kind == _STRUCT:
        while inside := data.read(1)[0]:
            if not inside >> 4:
                _integer(data)
            _skip(data, inside & 15, deepest - 1)
    elif kind not in _BOOLEANS:
        raise ValueError("no schema has such a field")
