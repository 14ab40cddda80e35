"""How a value, a goal and a run are written, in every table and page alike."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.measure import Line, Unit
from bench.results import Measured

_WIDTH = 100
#: The columns around those of the contenders.
_FIRST, _LAST = ("measured",), ("compared with", "ratio", "goal", "reached")


def fill(text: str, indent: str = "") -> str:
    """A paragraph of a page; indent: of the lines after the first."""
    return textwrap.fill(
        " ".join(text.split()),
        _WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters["fill"] = fill


def list_columns(contenders: Sequence[str]) -> tuple[str, ...]:
    """The head of the table."""
    return (*_FIRST, *contenders, *_LAST)


def list_cells(line: Line, contenders: Sequence[str]) -> tuple[str, ...]:
    """A line of the table, under the same columns."""
    against = line.against or "–"
    if line.against not in (None, *contenders):
        against += f": {format_median(line, against)}"
    return (
        line.what,
        *(format_median(line, name) for name in contenders),
        against,
        format_ratio(line.ratio),
        _format_goal(line),
        {True: "yes", False: "no", None: "–"}[line.reached],
    )


def count_goals(lines: Iterable[Line]) -> str:
    """How many of those that there are have been reached."""
    judged = [line.reached for line in lines if line.reached is not None]
    return f"{sum(judged)} of {len(judged)} goals"


def describe_run(measured: Measured) -> str:
    """The day, the machine, the versions, the rounds and the commit."""
    facts = measured.facts
    return (
        f"{describe_machine(measured)}; tritonserver {facts['tritonserver']}, Python "
        f"{facts['python']}, wrk {facts['wrk']}; {measured.rounds} × "
        f"{measured.round_seconds:g} s, at commit {facts['commit']}"
    )


def describe_run_in_short(measured: Measured) -> str:
    """What pages say of a run; results.json has the rest."""
    version = measured.facts["tritonserver"]
    return (
        f"{describe_machine(measured)}; tritonserver {version}, commit {measured.facts['commit']}"
    )


def describe_machine(measured: Measured) -> str:
    """With the day."""
    facts = measured.facts
    machine = f"{measured.date}, {facts['cores']} cores of an {facts['cpu']}"
    if facts["memory_bytes"]:
        machine += f", {facts['memory_bytes'] / 2**30:.1f} GiB"
    return machine


def format_median(line: Line, contender: str) -> str:
    """The contender's value; a dash where it was not measured."""
    return format_quantity(line.median(contender), line.unit)


def format_spread(line: Line, contender: str) -> str:
    """From the lowest to the highest round."""
    rounds = line.values[contender]
    low, high = (format_quantity(value, line.unit) for value in (min(rounds), max(rounds)))
    return low if low == high else f"{low} … {high}"


def format_quantity(value: float | None, unit: Unit) -> str:
    """Three significant digits, with a unit that fits; a dash for nothing."""
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


def format_ratio(value: float | None) -> str:
    """Two digits after the point, three below 0.1; a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _format_goal(line: Line) -> str:
    """The bound behind its sign; that of a ratio has no unit."""
    goal = line.goal
    if goal is None:
        return "–"
    sign = "≤" if goal.direction == "at most" else "≥"
    if goal.of == "ratio":
        return f"{sign} {goal.bound:g}"
    if line.unit == "s" and goal.bound < 0.1:
        return f"{sign} {goal.bound * 1e3:g} ms"
    return f"{sign} {goal.bound:g} {line.unit}"


def _format_seconds(value: float) -> str:
    """With its zeros, since it stands below others: 0.0042 -> 4.20 ms."""
    if abs(value) < 0.001:
        return f"{value * 1e6:.0f} µs"
    amount, unit = (value * 1e3, "ms") if abs(value) < 1 else (value, "s")
    digits = 2 if abs(amount) < 10 else 1 if abs(amount) < 100 else 0
    return f"{amount:.{digits}f} {unit}"
