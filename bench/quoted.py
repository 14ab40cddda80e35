"""What README.md and docs/ quote of bench/results.json, as quoted.jinja writes it.

A page has each block between two marks, and `make listings` writes it there anew:

    <!-- figures: how-fast -->
    <!-- end of the figures -->
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from bench.measure import Line
from bench.results import Results
from bench.tables import (
    ENVIRONMENT,
    count_goals,
    describe_run_in_short,
    fill,
    format_median,
    format_ratio,
    list_cells,
    list_columns,
)

#: Up to its own end: where that is missing, nothing is replaced up to the next one's.
MARKS = re.compile(
    r"(<!-- figures: ([\w-]+) -->\n)((?:(?!<!-- figures: ).)*?)(<!-- end of the figures -->)",
    re.DOTALL,
)
_TEMPLATE = ENVIRONMENT.get_template("quoted.jinja")
#: The names that a page may have between its marks.
QUOTES = frozenset(
    name.replace("_", "-") for name in vars(_TEMPLATE.module) if not name.startswith("_")
)


def quote(page: str, results: Results) -> str:
    """The page with the figures of these results. Raises AttributeError for an unknown name."""
    macros = _TEMPLATE.make_module(_list_words(results))

    def write(marks: re.Match[str]) -> str:
        macro = getattr(macros, marks[2].replace("-", "_"))
        return f"{marks[1]}{macro().strip()}\n{marks[4]}"

    return MARKS.sub(write, page)


def _list_words(results: Results) -> dict[str, Any]:
    """What quoted.jinja can say. A label is "row: line"."""

    def line(suite: str, label: str) -> Line:
        return results.line(suite, *label.split(": ", 1))

    def lines(suite: str, prefix: str = "") -> list[Line]:
        rows = results.suites[suite].items()
        return [it for name, row in rows if name.startswith(prefix) for it in row.lines]

    def where(suite: str, prefix: str = "") -> str:
        """A sentence for each run, which names its rows where there are several runs."""
        runs: dict[str, list[str]] = {}
        for name, row in results.suites[suite].items():
            if name.startswith(prefix):
                runs.setdefault(describe_run_in_short(row.measured), []).append(name)
        if len(runs) == 1:
            return fill(f"Measured on {next(iter(runs))}.")
        return "\n".join(
            fill(f"- {', '.join(f'`{name}`' for name in names)}: measured on {run}.", "  ")
            for run, names in runs.items()
        )

    def when(suite: str, rows: Iterable[str]) -> str:
        """The days and the machines."""
        runs = [results.suites[suite][row].measured for row in rows]
        days = sorted({run.date for run in runs})
        machines = sorted({f"{run.facts['cores']} cores of an {run.facts['cpu']}" for run in runs})
        return fill(f"Measured on {', '.join(days)}; {', '.join(machines)}, without a GPU.")

    def fast(caption: str, *labels: str) -> str:
        """A row of values side by side, once where all are the same."""
        cells = [caption]
        for contender in ("rival", "limit", "ours"):
            values = [format_median(line("frontend", label), contender) for label in labels]
            cells.append(" · ".join(values if len(set(values)) > 1 else values[:1]))
        return f"| {' | '.join(cells)} |"

    def span(of_lines: Iterable[Line], end: str) -> str:
        """From the lowest to the highest ratio of the lines whose names end so."""
        ratios = [it.ratio for it in of_lines if it.what.endswith(end) and it.ratio is not None]
        return f"{format_ratio(min(ratios))} to {format_ratio(max(ratios))}"

    return {
        "line": line,
        "lines": lines,
        "where": where,
        "when": when,
        "fast": fast,
        "show": format_median,
        "span": span,
        "ratio": lambda of_line: format_ratio(of_line.ratio),
        "goals": lambda of_lines: f"{count_goals(of_lines)} are reached.",
        "columns": list_columns,
        "cells": list_cells,
    }
