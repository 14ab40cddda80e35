"""Numbers for people: durations, sizes, shares. Three digits, more where they are whole. Pure."""

from __future__ import annotations


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
