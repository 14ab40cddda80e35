"""Lists of plain strings, all of them at once: JSON text to BYTES data, and back. No I/O.

Plain is what JSON writes as it is: no backslash, no quote, no control character. Strings that are
not plain, or where the arrays cannot prove that they have read what is there, are left to
tensor_json.py, which goes from string to string.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

_QUOTE, _COMMA, _SPACE, _BACKSLASH = b'", \\'
#: A string's length in front of it, little-endian (the protocol's binary extension), in bytes.
_HEAD = 4
#: Strings that are longer than this on average, in bytes, are cut out one by one.
_LONG = 256
#: All that stands in JSON as it is, and the quotes around it. Which bytes are UTF-8 is not asked:
#: tritonserver writes what there is.
_WRITTEN_AS_IT_IS = bytes(byte for byte in range(0x20, 0x100) if byte != _BACKSLASH)


def read_plain(chunk: bytes) -> tuple[bytes, int] | None:
    """The data of the list of strings that a text is, and how many; None if it is not plain."""
    text = np.frombuffer(chunk, np.uint8)
    quotes = np.flatnonzero(text == _QUOTE)
    if not len(quotes) or len(quotes) % 2 or _BACKSLASH in chunk or (text < _SPACE).any():
        return None
    if chunk[: quotes[0]].strip() != b"[" or chunk[quotes[-1] + 1 :].strip() != b"]":
        return None
    starts: _Array = quotes[0::2] + 1
    ends: _Array = quotes[1::2]
    if not _are_separated(text, starts, ends) or not _is_utf8(chunk):
        return None
    lengths = ends - starts
    if len(text) > _LONG * len(lengths):
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        strings = [chunk[start:end] for start, end in spans]
        return b"".join(_put_lengths(strings)), len(strings)
    data: _Array = np.empty(int(lengths.sum()) + _HEAD * len(lengths), np.uint8)
    heads = np.cumsum(lengths + _HEAD) - lengths - _HEAD
    is_text: _Array = np.ones(len(data), np.bool_)
    for byte in range(_HEAD):
        data[heads + byte] = lengths >> (8 * byte)
        is_text[heads + byte] = False
    steps: _Array = np.zeros(len(text), np.int8)
    steps[starts] = 1
    steps[ends] -= 1  # an empty string starts where it ends
    data[is_text] = text[np.cumsum(steps, dtype=np.int8).view(np.bool_)]
    return data.tobytes(), len(lengths)


def write_plain(window: bytes, *, last: bool) -> tuple[bytes, int, int] | None:
    """JSON for the strings at the start of a piece of BYTES data.

    window starts with a string's length; unless it is the last of the data it may end anywhere.
    Returns the strings with commas between them, how many bytes they take in the window, and how
    many they are; None when they are not plain, or when that cannot be proved.
    """
    data = np.frombuffer(window, np.uint8)
    zero = data == 0
    # The length of a string below 256 is one byte and three zeros. Following the lengths from one
    # of these to the next proves that they are the lengths, and all of them.
    heads = np.flatnonzero(zero[1:-2] & zero[2:-1] & zero[3:])
    if not len(heads) or heads[0] != 0:
        return None
    following = heads + _HEAD + data[heads]
    if not (following[:-1] == heads[1:]).all():
        return None
    if not last:
        heads = heads[:-1]
        following = following[:-1]
    elif following[-1] != len(data):
        return None
    if not len(heads):
        return None
    used = int(following[-1])
    # Of the four bytes of a length three become `","`, and one goes.
    text = data[:used].copy()
    text[heads + 1] = text[heads + 3] = _QUOTE
    text[heads + 2] = _COMMA
    written = np.delete(text, heads).tobytes()[2:] + b'"'
    if written.count(b'"') != 2 * len(heads) or written.translate(None, _WRITTEN_AS_IT_IS):
        return None
    return written, used, len(heads)


def _put_lengths(strings: list[bytes]) -> Iterator[bytes]:
    for string in strings:
        yield len(string).to_bytes(_HEAD, "little")
        yield string


def _are_separated(text: _Array, starts: _Array, ends: _Array) -> bool:
    """Whether between all strings there is a comma, and the same space or none behind it."""
    commas: _Array = ends[:-1] + 1
    gaps = starts[1:] - 1 - commas
    if not (text[commas] == _COMMA).all():
        return False
    return bool((gaps == 1).all() or ((gaps == 2).all() and (text[commas + 1] == _SPACE).all()))


def _is_utf8(chunk: bytes) -> bool:
    if chunk.isascii():
        return True
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return False
    return True
