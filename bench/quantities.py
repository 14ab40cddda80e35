"""What a line of the table says, in the words of its unit. Pure."""

from __future__ import annotations

from bench.measure import Goal, Line, Unit


def format_quantity(value: float | None, unit: Unit) -> str:
    """Three digits that matter, with a unit that fits; a dash for nothing."""
    if value is None:
        return "–"
    if unit == "s":
        return _format_seconds(value)
    if unit == "requests/s":
        return f"{value:,.0f}/s"
    if unit == "models":
        return f"{value:,.0f}"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:,.0f} MB" if value >= 100 else f"{value:.1f} MB"


def format_goal(line: Line) -> str:
    """The bound in words of one sign."""
    if line.goal is None:
        return "–"
    sign = "≤" if line.goal.direction == "at most" else "≥"
    return f"{sign} {_bound(line.goal, line.unit)}"


def format_reached(line: Line) -> str:
    """yes, no, or a dash where there is no goal."""
    return {True: "yes", False: "no", None: "–"}[line.reached]


def format_spread(line: Line, contender: str) -> str:
    """From the lowest to the highest round."""
    found = line.spread(contender)
    if found is None:
        return "–"
    low, high = (format_quantity(value, line.unit) for value in found)
    return low if low == high else f"{low} … {high}"


def format_gibibytes(value: int) -> str:
    """Bytes as GiB: 2**33 -> 8.0 GiB."""
    return f"{value / 2**30:.1f} GiB"


def format_ratio(value: float | None) -> str:
    """Two digits after the point, three below 0.1; a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _format_seconds(value: float) -> str:
    """A duration that stands below others, its zeros kept: 0.0042 -> 4.20 ms."""
    if abs(value) < 0.001:
        return f"{value * 1e6:.0f} µs"
    if abs(value) < 1:
        return f"{value * 1e3:{_digits(value * 1e3)}} ms"
    return f"{value:{_digits(value)}} s"


def _bound(found: Goal, unit: Unit) -> str:
    if found.of == "ratio":
        return f"{found.bound:g}"
    if unit == "s":
        small = found.bound < 0.1
        return f"{found.bound * 1e3:g} ms" if small else f"{found.bound:g} s"
    return f"{found.bound:g} {unit}"


def _digits(value: float) -> str:
    """The format that shows three significant digits of a number of 1 and up."""
    return ".2f" if abs(value) < 10 else ".1f" if abs(value) < 100 else ".0f"
