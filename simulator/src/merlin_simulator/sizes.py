"""Sizes as people write them: 4GB, 512MB."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


_MOST = 2.0**60
#: Of a memory or a disk nobody means less with a number alone.
_LEAST_BARE = 1024**2


def read_room(text: str) -> int:
    """As read_size, of a memory or a disk: a number alone that is next to nothing is refused."""
    size = read_size(text)
    if size < _LEAST_BARE and text.strip()[-1].isdigit():
        raise ValueError(f"found {text!r}, which is {size} bytes: did you mean {text.strip()}GB?")
    return size


def read_size(text: str) -> int:
    """Bytes; GB is 2**30, as docker has it. Raises ValueError with a sentence."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(f"found {text!r}, expected a size such as 4GB or 512MB")
    amount = float(found[1]) * _UNITS[found[2].upper()]
    if amount >= _MOST:
        raise ValueError(f"found {text[:40]!r}, expected less than a million TB")
    size = int(amount)
    if size <= 0:
        raise ValueError(f"found {text!r}, expected more than nothing")
    return size
