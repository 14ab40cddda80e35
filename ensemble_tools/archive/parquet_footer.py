"""Reads a parquet file's footer without pyarrow: rows, how long texts are, and types.

The footer is a struct of Thrift's compact protocol: the version, the schema, the number of rows,
the groups of rows with their bytes. A server that has no other use for a library of 50 MB reads
these itself.
"""

from __future__ import annotations

import binascii
import io
import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import read_with

_MAGIC = b"PAR1"
#: pyarrow's PyExtensionType; its metadata are the pickle.
_PICKLED_TYPE = b"arrow.py_extension_type"
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{32,}")
#: A category file has a few columns.
_LONGEST_FOOTER = 16 * 1024 * 1024
#: What is read of it for rows: of a category file's few columns, and a group for a million rows.
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
    """The rows of a file."""

    #: 0 for a file that is no parquet.
    count: int = 0
    #: Bytes of all columns, where one holds texts.
    text_bytes: int = 0


def count_rows(path: Path) -> Rows:
    """The rows that the footer tells of. Raises as read_with does."""
    return read_with(path, _read_rows) or Rows()


def names_pickle(path: Path) -> bool:
    """Whether its schema names a type that is a pickle, or is too long to be looked at.

    pyarrow before 14.0.1 unpickles such a type when it reads the file (CVE-2023-47248); Merlin
    23.08 goes with 12.0.1. Arrow's schema stands in the footer as base64. Raises as read_with does.
    """
    return read_with(path, _find_pickle) or False


def _open_footer(file: BinaryIO) -> int:
    """The bytes of the footer, which is read next; 0 for what is no such file."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - 8))
    end = file.read(8)
    if len(end) < 8 or not end.endswith(_MAGIC):
        return 0
    size = int(struct.unpack("<I", end[:4])[0])
    file.seek(max(0, length - 8 - size))
    return size


def _read_rows(file: BinaryIO) -> Rows:
    size = _open_footer(file)
    try:
        return _find_rows(io.BytesIO(file.read(min(size, _MOST_BYTES)))) if size else Rows()
    except (ValueError, IndexError):
        return Rows()


def _find_pickle(file: BinaryIO) -> bool:
    size = _open_footer(file)
    if size > _LONGEST_FOOTER:
        return True
    footer = file.read(size)
    return _PICKLED_TYPE in footer or any(
        _PICKLED_TYPE in _decode(match.group()[shift:])
        for match in _BASE64.finditer(footer)
        for shift in range(4)  # what stands in front of it may look like base64
    )


def _decode(text: bytes) -> bytes:
    return binascii.a2b_base64(text[: len(text) // 4 * 4])


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
