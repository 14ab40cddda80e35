"""Whether a parquet file names a type that is a pickle: its footer alone is read, without pyarrow.

pyarrow before 14.0.1 unpickles such a type when it reads the file (CVE-2023-47248); Merlin 23.08
goes with 12.0.1. Arrow's schema stands in the footer as base64.
"""

from __future__ import annotations

import binascii
import os
import re
import struct
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import read_with

_MAGIC = b"PAR1"
#: pyarrow's PyExtensionType; its metadata are the pickle.
_TYPE = b"arrow.py_extension_type"
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{32,}")
#: A category file has a few columns.
_LONGEST_FOOTER = 16 * 1024 * 1024


def names_pickle(path: Path) -> bool:
    """Whether its schema names the type, or is too long to be looked at; raises as read_with."""
    return read_with(path, _read) or False


def _read(file: BinaryIO) -> bool:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - 8))
    end = file.read(8)
    if len(end) < 8 or not end.endswith(_MAGIC):
        return False
    size = struct.unpack("<I", end[:4])[0]
    if size > _LONGEST_FOOTER:
        return True
    file.seek(max(0, length - 8 - size))
    footer = file.read(size)
    return _TYPE in footer or any(
        _TYPE in _decode(match.group()[shift:])
        for match in _BASE64.finditer(footer)
        for shift in range(4)  # what stands in front of it may look like base64
    )


def _decode(text: bytes) -> bytes:
    return binascii.a2b_base64(text[: len(text) // 4 * 4])
