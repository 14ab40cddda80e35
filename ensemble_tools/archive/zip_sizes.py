"""Reads a zip archive's central directory alone: names and sizes, nothing unpacked.

TorchScript files are such archives. Those of torch.jit.save hold what they say byte for byte; torch
takes as much memory for an entry as this directory says, however little is stored of it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import read_with

#: The largest directory that is read: some hundred thousand entries.
_MAX_DIRECTORY = 16 * 1024 * 1024
#: The end record with the longest comment, and the locator of the wide one in front of it.
_LONGEST_END = 22 + 65535 + 20
_END, _LOCATOR, _WIDE_END, _ENTRY = b"PK\5\6", b"PK\6\7", b"PK\6\6", b"PK\1\2"
_IN_EXTRA = 2**32 - 1


def measure_unpacked(path: Path) -> int | None:
    """Bytes of all entries, as the archive says; 0 for what is no such archive, or is cut off.

    None where there is no file, or its directory is too long. Raises as read_with does.
    """
    return read_with(path, _read)


def holds_entry(path: Path, name: str) -> bool:
    """Whether an entry has that name, in whatever folder; False for what is no such archive."""
    encoded = name.encode()

    def read(file: BinaryIO) -> bool:
        try:
            names = _names(_read_directory(file) or b"")
        except (struct.error, ValueError, OverflowError):
            return False
        return any(entry.rpartition(b"/")[2] == encoded for entry in names)

    return read_with(path, read) or False


def _read(file: BinaryIO) -> int | None:
    try:
        directory = _read_directory(file)
        return None if directory is None else _sum_entries(directory)
    except (struct.error, ValueError, OverflowError):
        return 0


def _names(directory: bytes) -> Iterator[bytes]:
    offset = 0
    while directory[offset : offset + 4] == _ENTRY and len(directory) >= offset + 46:
        name, extra, comment = struct.unpack_from("<HHH", directory, offset + 28)
        yield directory[offset + 46 : offset + 46 + name]
        offset += 46 + name + extra + comment


def _read_directory(file: BinaryIO) -> bytes | None:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _LONGEST_END))
    tail = file.read(_LONGEST_END)
    end = tail.rfind(_END)
    if end < 0:
        return b""
    size, start = struct.unpack_from("<II", tail, end + 12)
    if tail[max(0, end - 20) : end].startswith(_LOCATOR):
        file.seek(struct.unpack_from("<Q", tail, end - 12)[0])
        wide = file.read(56)
        if wide.startswith(_WIDE_END):
            size, start = struct.unpack_from("<QQ", wide, 40)
    if start + size > length:
        return b""
    if size > _MAX_DIRECTORY:
        return None
    file.seek(start)
    return file.read(size)


def _sum_entries(directory: bytes) -> int:
    total = offset = 0
    while directory[offset : offset + 4] == _ENTRY:
        size, name, extra, comment = struct.unpack_from("<I HHH", directory, offset + 24)
        fields = directory[offset + 46 + name : offset + 46 + name + extra]
        total += _read_wide_size(fields) if size == _IN_EXTRA else size
        offset += 46 + name + extra + comment
    return total


def _read_wide_size(fields: bytes) -> int:
    """The size in an entry's extra fields, which have it where 32 bits do not suffice."""
    offset = 0
    while offset + 12 <= len(fields):
        kind, length = struct.unpack_from("<HH", fields, offset)
        if kind == 1:
            return int(struct.unpack_from("<Q", fields, offset + 4)[0])
        offset += 4 + length
    return _IN_EXTRA
