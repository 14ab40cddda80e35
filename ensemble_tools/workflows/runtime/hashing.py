"""pandas' row-wise hash, which NVTabular's hash-based operators stand on.

pandas.util.hash_pandas_object hashes the values of a series, and with them the row's index: equal
values in different rows of a request have different hashes. Numbers go through the finalizer of
splitmix64, texts through SipHash-2-4 and then the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .columns import INTEGERS, Column, distinct

#: pandas' default key, `0123456789123456`, as two words.
_KEY = (0x3736353433323130, 0x3635343332313938)
#: Longer texts, in bytes, are hashed one after the other.
_LONG_TEXT = 256
_WORD = (1 << 64) - 1
_SIP = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def hash_rows(column: Column) -> Any:
    """The hash of each row, uint64, shape (rows,). The rows are numbered from 0."""
    values = column.values
    index = _mix(np.arange(len(values), dtype=np.int64).view(np.uint64))
    hashes = np.full(len(values), 0x345678, np.uint64)
    multiplier = 1000003
    own = _hash_values(values)
    if column.missing is not None:
        own[column.missing] = np.uint64(_WORD)
    for number, part in enumerate((own, index)):
        hashes ^= part
        hashes *= np.uint64(multiplier)
        multiplier += 82520 + 2 * (2 - number)
    hashes += np.uint64(97531)
    return hashes


def hash_crossed_rows(columns: Sequence[Column]) -> Any:
    """The hashes of the rows of several columns, xored; uint64, shape (rows,)."""
    hashes = hash_rows(columns[0])
    for column in columns[1:]:
        hashes ^= hash_rows(column)
    return hashes


def _hash_values(values: Any) -> Any:
    if values.dtype.kind == "S":
        return _mix(siphash(distinct(values)))
    if values.dtype.kind in (*INTEGERS, "f"):
        return _mix(values.view(f"u{values.dtype.itemsize}").astype(np.uint64))
    return _mix(values.astype(np.uint64))


def _mix(words: Any) -> Any:
    words = words.copy()
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def siphash(texts: Any) -> Any:
    """SipHash-2-4 of each text (`S`, shape (n,)) under pandas' key; uint64, shape (n,)."""
    lengths = np.char.str_len(texts)
    long = np.flatnonzero(lengths > _LONG_TEXT)
    if not len(long):
        return _siphash_together(texts, lengths)
    hashes = _siphash_together(
        np.where(lengths > _LONG_TEXT, b"", texts).astype(f"S{_LONG_TEXT}"),
        np.where(lengths > _LONG_TEXT, 0, lengths),
    )
    for row in long:
        hashes[row] = _siphash_alone(bytes(texts[row]))
    return hashes


def _siphash_together(texts: Any, lengths: Any) -> Any:
    """Hash all texts at once, word by word."""
    lengths = lengths.astype(np.uint64)
    width = (texts.dtype.itemsize // 8 + 1) * 8  # the last word holds the length
    words = texts.astype(f"S{width}").view("<u8").reshape(len(texts), width // 8)
    state = [
        np.full(len(texts), word ^ key, np.uint64) for word, key in zip(_SIP, _KEY * 2, strict=True)
    ]
    whole = lengths // np.uint64(8)
    for number in range(words.shape[1]):
        last = whole == number
        word = words[:, number] | np.where(last, lengths << np.uint64(56), np.uint64(0))
        going = whole >= number
        before = state
        state = _do_rounds([*state[:3], state[3] ^ word], 2)
        state[0] ^= word
        state = [np.where(going, new, old) for new, old in zip(state, before, strict=True)]
    state[2] ^= np.uint64(0xFF)
    state = _do_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _siphash_alone(text: bytes) -> Any:
    """Hash one text in Python's numbers: for thousands of words that is faster than numpy's."""
    state = [word ^ key for word, key in zip(_SIP, _KEY * 2, strict=True)]
    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) % 256])
    for offset in range(0, len(padded), 8):
        word = int.from_bytes(padded[offset : offset + 8], "little")
        state[3] ^= word
        state = _do_plain_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    a, b, c, d = _do_plain_rounds(state, 4)
    return np.uint64(a ^ b ^ c ^ d)


def _do_plain_rounds(state: list[int], number: int) -> list[int]:
    a, b, c, d = state
    for _ in range(number):
        a = (a + b) & _WORD
        b = ((b << 13 | b >> 51) & _WORD) ^ a
        a = (a << 32 | a >> 32) & _WORD
        c = (c + d) & _WORD
        d = ((d << 16 | d >> 48) & _WORD) ^ c
        a = (a + d) & _WORD
        d = ((d << 21 | d >> 43) & _WORD) ^ a
        c = (c + b) & _WORD
        b = ((b << 17 | b >> 47) & _WORD) ^ c
        c = (c << 32 | c >> 32) & _WORD
    return [a, b, c, d]


def _do_rounds(state: list[Any], number: int) -> list[Any]:
    a, b, c, d = state
    for _ in range(number):
        a = a + b
        b = _rotate(b, 13) ^ a
        a = _rotate(a, 32)
        c = c + d
        d = _rotate(d, 16) ^ c
        a = a + d
        d = _rotate(d, 21) ^ a
        c = c + b
        b = _rotate(b, 17) ^ c
        c = _rotate(c, 32)
    return [a, b, c, d]


def _rotate(words: Any, bits: int) -> Any:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
