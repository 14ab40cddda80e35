"""Numbers for people, and sizes from them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


_MOST = 2.0**60
#: Of a memory or a disk nobody means less with a number alone.
_LEAST_BARE = 1024**2


def read_capacity(text: str) -> int:
    """As read_size, of a memory or a disk: a number alone that is next to nothing is refused."""
    size = read_size(text)
    if size < _LEAST_BARE and text.strip()[-1].isdigit():
        raise ValueError(f"found {text!r}, which is {size} bytes: did you mean {text.strip()}GB?")
    return size


def read_size(text: str) -> int:
    """Bytes; GB is 2**30, as docker has it. Raises ValueError with a sentence."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"found {text!r}, expected a size such as 4GB or 512MB")
    amount = float(match[1]) * _UNITS[match[2].upper()]
    if amount >= _MOST:
        raise ValueError(f"found {text[:40]!r}, expected less than a million TB")
    size = int(amount)
    if size <= 0:
        raise ValueError(f"found {text!r}, expected more than nothing")
    return size


def format_seconds(value: float) -> str:
    """A duration: 0.0042 -> 4.2 ms."""
    if abs(value) < 0.9995e-3:
        return f"{_three(value * 1e6)} µs"
    return f"{_three(value * 1e3)} ms" if abs(value) < 0.9995 else f"{_three(value)} s"


def format_size(value: float) -> str:
    """Bytes, in powers of 1024: 4 * 2**30 -> 4 GiB, which is --memory 4GB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 999.5:
            return f"{_three(value)} {unit}"
        value /= 1024
    return f"{_three(value)} TiB"


def format_share(value: float) -> str:
    """A part of one: 0.873 -> 87.3 %."""
    return f"{_three(value * 100)} %"


def _three(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}"
