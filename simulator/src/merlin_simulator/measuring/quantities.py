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


def format_aligned_seconds(value: float) -> str:
    """A duration that stands below others, its zeros kept: 0.0042 -> 4.20 ms."""
    if abs(value) < 0.001:
        return f"{value * 1e6:.0f} µs"
    if abs(value) < 1:
        return f"{value * 1e3:{_digits(value * 1e3)}} ms"
    return f"{value:{_digits(value)}} s"


def format_gibibytes(value: int) -> str:
    """Bytes as GiB: 2**33 -> 8.0 GiB."""
    return f"{value / 2**30:.1f} GiB"


def format_ratio(value: float | None) -> str:
    """Two digits after the point, three below 0.1; a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _three(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


def _digits(value: float) -> str:
    """The format that shows three significant digits of a number of 1 and up."""
    return ".2f" if abs(value) < 10 else ".1f" if abs(value) < 100 else ".0f"
