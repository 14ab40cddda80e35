"""Quantities in a few characters. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from ensemble_tools.commands.progress import human_size

_BLOCKS = "▁▂▃▄▅▆▇█"
#: A line has room for so many blocks.
_MOST_BLOCKS = 60
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))


def show_bytes(count: int) -> str:
    """In powers of 1000, as S3 and ECR are billed: 8.8 MB."""
    return human_size(count)


def show_count(count: int) -> str:
    """With commas."""
    return f"{count:,}"


def show_ms(milliseconds: float) -> str:
    """In ms, from a second on in s."""
    if milliseconds < 1000:
        return f"{_three_digits(milliseconds)} ms"
    return f"{_three_digits(milliseconds / 1000)} s"


def show_duration(seconds: float) -> str:
    """In its largest unit: 3 d."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def sparkline(values: Sequence[int]) -> str:
    """A block for each value, the highest for the largest; neighbours are added up to fit a line.

    A value that is not 0 is never drawn as 0.
    """
    width = -(-len(values) // _MOST_BLOCKS) or 1
    sums = [sum(values[start : start + width]) for start in range(0, len(values), width)]
    most = max(sums, default=0)
    if not most:
        return _BLOCKS[0] * len(sums)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-one * steps // most)] for one in sums)


def _three_digits(number: float) -> str:
    """Or all of those before the point."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"
