"""What README.md and docs/ quote of bench/results.json, as quoted.jinja writes it. Pure.

A page has each block between two marks, and `make listings` writes it there anew:

    <!-- figures: how-fast -->
    <!-- end of the figures -->
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.measure import Line
from bench.quantities import format_gibibytes, format_quantity, format_ratio
from bench.report import FRONTEND, list_cells, list_columns
from bench.results import Measured, Results

_WIDTH = 100
#: Up to its own end: where that is missing, nothing is replaced up to the next one's.
MARKS = re.compile(
    r"(<!-- figures: ([\w-]+) -->\n)((?:(?!<!-- figures: ).)*?)(<!-- end of the figures -->)",
    re.DOTALL,
)
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        _WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


_ENVIRONMENT.filters["fill"] = _fill
_TEMPLATE = _ENVIRONMENT.get_template("quoted.jinja")
#: By the name that a page has between its marks.
QUOTES = {name.replace("_", "-"): write for name, write in _TEMPLATE.blocks.items()}
_EXPORTS = ("dense", "ragged", "session", "two_workflows", "wide")
_FITTED = {"fit_dense": "dense", "fit_dense_alone": "dense, workflow alone", "fit_wide": "wide"}


def quote(page: str, results: Results) -> str:
    """The page with the figures of these results. Raises KeyError for a name that is none."""
    context = _TEMPLATE.new_context(_Quotable(results).names())

    def write(marks: re.Match[str]) -> str:
        return f"{marks[1]}{''.join(QUOTES[marks[2]](context)).strip()}\n{marks[4]}"

    return MARKS.sub(write, page)


class _Quotable:
    """The words of quoted.jinja: a public method is one of them. A place is "row: what"."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def names(self) -> dict[str, Any]:
        """By which quoted.jinja knows them."""
        methods = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        return {
            **methods,
            "show": _show,
            "ratio": lambda line: format_ratio(line.ratio),
            "cells": lambda line: list_cells(line, FRONTEND.contenders),
            "frontend_head": list_columns(FRONTEND.contenders),
            "exports": _EXPORTS,
        }

    def line(self, suite: str, place: str) -> Line:
        """One line of a suite."""
        return self._results.line(suite, *place.split(": ", 1))

    def lines(self, suite: str, prefix: str = "") -> list[Line]:
        """Of all rows whose names begin so."""
        rows = self._results.suites[suite].items()
        return [line for name, row in rows if name.startswith(prefix) for line in row.lines]

    def fast(self, caption: str, *places: str) -> str:
        """A row of README's table of speed: values side by side, once where there is none."""
        lines = [self.line("frontend", place) for place in places]
        columns = [[_show(line, name) for line in lines] for name in FRONTEND.contenders]
        return _row(caption, *(" · ".join(c if len(set(c)) > 1 else c[:1]) for c in columns))

    def saved(self, caption: str, place: str) -> str:
        """A row of README's first table."""
        line = self.line("workflows", place)
        return _row(caption, _show(line, "executor"), _show(line, "compiled"))

    def values(self, export: str, form: str, *titles: str) -> str:
        """Cells of one form of an export."""
        places = (f"workflow_{export}: {export}, {title}" for title in titles)
        return " | ".join(_show(self.line("workflows", place), form) for place in places)

    def changes(self, place: str, *titles: str) -> str:
        """Cells: the executor's value, ours, and their ratio."""
        lines = [self.line("workflows", f"{place}, {title}") for title in titles]
        return " | ".join(
            f"{_show(line, 'executor')} → {_show(line, 'compiled')} ({format_ratio(line.ratio)})"
            for line in lines
        )

    def fitted(self, caption: str, title: str) -> str:
        """A row of how many fit: NVTabular, then compiled."""
        places = (f"{row}: {subject}: {title}" for row, subject in _FITTED.items())
        lines = [self.line("workflows", place) for place in places]
        return _row(
            caption, *(f"{_show(it, 'ensemble')} → {_show(it, 'compiled')}" for it in lines)
        )

    def exports_of(self, row: str) -> list[str]:
        """The exports that a row measures."""
        return list(
            dict.fromkeys(it.what.partition(", ")[0] for it in self.lines("workflows", row))
        )

    def where(self, suite: str, prefix: str = "") -> str:
        """A sentence for each run, which names its rows where there are several runs."""
        runs: dict[str, list[str]] = {}
        for name, row in self._results.suites[suite].items():
            if name.startswith(prefix):
                runs.setdefault(_describe(row.measured), []).append(name)
        if len(runs) == 1:
            return _fill(f"Measured on {next(iter(runs))}.")
        return "\n".join(
            _fill(f"- {', '.join(f'`{name}`' for name in names)}: measured on {run}.", "  ")
            for run, names in runs.items()
        )

    def when(self, suite: str, rows: Iterable[str]) -> str:
        """In short: the days and the machines."""
        runs = [self._results.suites[suite][row].measured for row in rows]
        days = sorted({run.date for run in runs})
        machines = sorted({f"{run.facts['cores']} cores of an {run.facts['cpu']}" for run in runs})
        return _fill(f"Measured on {', '.join(days)}; {', '.join(machines)}, without a GPU.")

    def goals(self, lines: Iterable[Line]) -> str:
        """How many are reached."""
        judged = [line.reached for line in lines if line.reached is not None]
        return f"{sum(judged)} of {len(judged)} goals are reached."


def _describe(measured: Measured) -> str:
    facts = measured.facts
    machine = [f"{facts['cores']} cores of an {facts['cpu']}"]
    if facts["memory_bytes"]:
        machine.append(format_gibibytes(facts["memory_bytes"]))
    return (
        f"{measured.date}, {', '.join(machine)}; tritonserver {facts['tritonserver']}, Python "
        f"{facts['python']}, wrk {facts['wrk']}; {measured.rounds} × "
        f"{measured.round_seconds:g} s, at commit {facts['commit']}"
    )


def _show(line: Line, contender: str) -> str:
    return format_quantity(line.median(contender), line.unit)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
