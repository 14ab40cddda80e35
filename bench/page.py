"""report.html: one file that opens from a disk, without a script and without another file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from bench import figures
from bench.measure import Line, Outcome
from bench.report import Report, list_cells
from merlin_simulator.measuring.page import (
    NUMBER,
    write_cell,
    write_facts,
    write_figure,
    write_page,
    write_row_head,
    write_table,
)
from merlin_simulator.measuring.quantities import format_ratio

_STYLE = Path(__file__).with_name("report.css")


def write_report_page(report: Report) -> str:
    """The whole page."""
    parts = (
        f"<h1>{escape(report.suite.title)}</h1>",
        f'<p class="verdict">{escape(report.verdict)}.</p>',
        f'<p class="faint">{escape(report.suite.reading)}</p>',
        f'<p class="bad">{escape(report.caution)}</p>' if report.caution else "",
        _failures(report),
        _table(report),
        '<div class="columns">' + _goals(report.lines) + _where(report) + "</div>",
        "<h2>Row by row</h2>",
        '<p class="faint">Bars are medians, thin lines reach from the lowest to the highest round, '
        "the dashed line is the goal.</p>",
        f'<div class="rows">{"".join(map(_outcome, report.outcomes))}</div>',
    )
    return write_page(report.suite.title, "".join(parts), _STYLE)


def _failures(report: Report) -> str:
    rows = (
        f'<p class="bad"><b>{escape(row)} could not be measured</b>: {escape(reason)}</p>'
        for row, reason in report.failures.items()
    )
    return "".join(rows)


def _table(report: Report) -> str:
    head = (
        write_cell("th", name, {**_number(name, report), "scope": "col"}) for name in report.head
    )
    return write_table(head, (_cells(line, report) for line in report.lines), "lines")


def _cells(line: Line, report: Report) -> Iterator[str]:
    first, *rest = list_cells(line, report.suite.contenders)
    colour = {True: "good", False: "bad", None: "faint"}[line.reached]
    yield write_row_head(first)
    for name, cell in zip(report.head[1:], rest, strict=True):
        kind = {"class": colour} if name == "reached" else _number(name, report)
        yield write_cell("td", cell, {"data-name": name, **kind})


def _number(name: str, report: Report) -> Mapping[str, str]:
    return NUMBER if name in (*report.suite.contenders, "ratio") else {}


def _goals(lines: Sequence[Line]) -> str:
    if not any(figures.distance(line) is not None for line in lines):
        return ""
    caption = "On a logarithmic axis: the value, or the ratio, over its goal."
    figure = write_figure(figures.draw_goals(lines), caption=caption)
    return f"<section><h2>Distance to the goals</h2>{figure}</section>"


def _where(report: Report) -> str:
    table = write_facts(report.where)
    curves = _curves(report.lines)
    return f"<section><h2>Machine and versions</h2>{table}{curves}</section>"


def _curves(lines: Sequence[Line]) -> str:
    drawn = "".join(write_figure(svg, title) for title, svg in figures.draw_curves(lines))
    return f'<div class="curves">{drawn}</div>' if drawn else ""


def _outcome(outcome: Outcome) -> str:
    profile = ""
    if outcome.profile:
        where = f"<b>Where it goes, as profiled on two cores:</b> {escape(outcome.profile)}"
        profile = f'<p class="caption">{where}</p>'
    return (
        f'<section class="row"><h3>{escape(outcome.title)} '
        f"<code>{escape(outcome.name)}</code></h3>"
        f"{''.join(map(_line, outcome.lines))}"
        f'<p class="how">{escape(outcome.how)}</p>{profile}</section>'
    )


def _line(line: Line) -> str:
    facts = [f"ratio to {line.against} {format_ratio(line.ratio)}"] if line.against else []
    facts += [line.note] if line.note else []
    caption = f'<p class="caption">{escape("; ".join(facts))}</p>' if facts else ""
    return f"<div><h4>{escape(line.what)}</h4>{figures.draw_bars(line)}{caption}</div>"
