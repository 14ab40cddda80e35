"""A shared library of one function that returns a number, made without a compiler."""

from __future__ import annotations

import struct
from pathlib import Path

_BASE, _PAGE = 64, 0x1000
_EXPORTED, _ANY_SECTION = 0x12, 1  # STB_GLOBAL | STT_FUNC; any index but 0 is a definition
_HASH, _STRINGS, _SYMBOLS, _STRINGS_SIZE, _SYMBOL_SIZE = 4, 5, 6, 10, 11  # DT_… of elf.h


def write_library(path: Path, function: str, returns: int, behind: bytes = b"") -> Path:
    """Write one for x86_64, which the loader loads; behind: what else the file holds."""
    code = b"\xb8" + struct.pack("<i", returns) + b"\xc3"  # mov eax, returns; ret
    strings = b"\0" + function.encode() + b"\0"
    code_at = _BASE + 2 * 56
    strings_at = code_at + 8
    symbols_at = _aligned(strings_at + len(strings))
    symbol = struct.pack("<IBBHQQ", 1, _EXPORTED, 0, _ANY_SECTION, code_at, len(code))
    hash_at = symbols_at + 48
    table = struct.pack("<5I", 1, 2, 1, 0, 0)  # one bucket, which begins with symbol 1
    dynamic_at = _aligned(hash_at + len(table))
    entries = (
        (_HASH, hash_at),
        (_STRINGS, strings_at),
        (_SYMBOLS, symbols_at),
        (_STRINGS_SIZE, len(strings)),
        (_SYMBOL_SIZE, 24),
        (0, 0),
    )
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    end = dynamic_at + len(dynamic)
    content = bytearray(end)
    for place, part in (
        (0, _header()),
        (_BASE, _segment(1, 7, 0, end)),  # PT_LOAD; the loader writes into what is dynamic
        (_BASE + 56, _segment(2, 6, dynamic_at, len(dynamic))),  # PT_DYNAMIC
        (code_at, code),
        (strings_at, strings),
        (symbols_at, bytes(24) + symbol),
        (hash_at, table),
        (dynamic_at, dynamic),
    ):
        content[place : place + len(part)] = part
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(content) + behind)
    return path


def _header() -> bytes:
    """ELF, 64 bits, little-endian; a shared object for x86_64 with two program headers."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, _BASE, 0, 0, 64, 56, 2, 64, 0, 0)


def _segment(kind: int, rights: int, start: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, rights, start, start, start, size, size, _PAGE)


def _aligned(place: int) -> int:
    return (place + 7) // 8 * 8
