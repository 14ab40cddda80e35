"""A shared library of functions of a few instructions, made without a compiler."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

_BASE, _PAGE = 64, 0x1000
_EXPORTED, _ANY_SECTION = 0x12, 1  # STB_GLOBAL | STT_FUNC; any index but 0 is a definition
_HASH, _STRINGS, _SYMBOLS, _STRINGS_SIZE, _SYMBOL_SIZE = 4, 5, 6, 10, 11  # DT_… of elf.h


def returning(number: int) -> bytes:
    """The code of a function that returns it."""
    return b"\xb8" + struct.pack("<i", number) + b"\xc3"  # mov eax, number; ret


def write_library(path: Path, functions: Mapping[str, bytes], behind: bytes = b"") -> Path:
    """Write one for x86_64, which the loader loads. functions: the code of each, by its name.

    behind: what else the file holds.
    """
    names = b"\0".join([b"", *(name.encode() for name in functions), b""])
    code_at = _BASE + 2 * 56
    strings_at = code_at + sum(map(len, functions.values()))
    symbols_at = _aligned(strings_at + len(names))
    symbols, place = bytes(24), code_at
    for name, code in functions.items():
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        symbols += struct.pack("<IBBHQQ", at, _EXPORTED, 0, _ANY_SECTION, place, len(code))
        place += len(code)
    hash_at = symbols_at + len(symbols)
    count = len(functions)
    chain = [0, *range(2, count + 1), 0]  # one bucket: from each symbol to the next
    table = struct.pack(f"<{3 + len(chain)}I", 1, count + 1, 1, *chain)
    dynamic_at = _aligned(hash_at + len(table))
    entries = (
        (_HASH, hash_at),
        (_STRINGS, strings_at),
        (_SYMBOLS, symbols_at),
        (_STRINGS_SIZE, len(names)),
        (_SYMBOL_SIZE, 24),
        (0, 0),
    )
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    end = dynamic_at + len(dynamic)
    content = bytearray(end)
    for start, part in (
        (0, _header()),
        (_BASE, _segment(1, 7, 0, end)),  # PT_LOAD; the loader writes into what is dynamic
        (_BASE + 56, _segment(2, 6, dynamic_at, len(dynamic))),  # PT_DYNAMIC
        (code_at, b"".join(functions.values())),
        (strings_at, names),
        (symbols_at, symbols),
        (hash_at, table),
        (dynamic_at, dynamic),
    ):
        content[start : start + len(part)] = part
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
