"""report.html: one file that opens from a disk, without a script and without another file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench import figures, quantities
from bench.measure import Line, Outcome
from bench.report import Report, cells
from simulator.replay.plots import with_variables

_STYLE = Path(__file__).with_name("report.css")


def page(report: Report) -> str:
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
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.suite.title)}</title><style>{with_variables(_STYLE)}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _failures(report: Report) -> str:
    rows = (
        f'<p class="bad"><b>{escape(row)} could not be measured</b>: {escape(said)}</p>'
        for row, said in report.failures.items()
    )
    return "".join(rows)


def _table(report: Report) -> str:
    names = report.head
    numbers = (*report.suite.contenders, "ratio")
    head = "".join(
        f'<th{_number(name in numbers)} scope="col">{escape(name)}</th>' for name in names
    )
    body = "".join(_table_row(line, report) for line in report.lines)
    return (
        f'<div class="wide"><table class="lines"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _table_row(line: Line, report: Report) -> str:
    numbers = (*report.suite.contenders, "ratio")
    first, *rest = cells(line, report.suite.contenders)
    colour = {True: "good", False: "bad", None: "faint"}[line.reached]
    others = "".join(
        f'<td data-name="{escape(name)}"'
        + (f' class="{colour}"' if name == "reached" else _number(name in numbers))
        + f">{escape(cell)}</td>"
        for name, cell in zip(report.head[1:], rest, strict=True)
    )
    return f'<tr><th scope="row">{escape(first)}</th>{others}</tr>'


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _goals(lines: Sequence[Line]) -> str:
    if not any(figures.distance(line) is not None for line in lines):
        return ""
    return (
        f"<section><h2>Distance to the goals</h2><figure>{figures.goals(lines)}"
        "<figcaption>On a logarithmic axis: the value, or the ratio, over its goal.</figcaption>"
        "</figure></section>"
    )


def _where(report: Report) -> str:
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in report.where
    )
    table = f'<table class="facts"><tbody>{"".join(rows)}</tbody></table>'
    curves = _curves(report.lines)
    return f"<section><h2>Machine and versions</h2>{table}{curves}</section>"


def _curves(lines: Sequence[Line]) -> str:
    drawn = "".join(
        f"<figure><h3>{escape(title)}</h3>{svg}</figure>" for title, svg in figures.curves(lines)
    )
    return f'<div class="curves">{drawn}</div>' if drawn else ""


def _outcome(outcome: Outcome) -> str:
    profile = ""
    if outcome.profile:
        said = f"<b>Where it goes, as profiled on two cores:</b> {escape(outcome.profile)}"
        profile = f'<p class="caption">{said}</p>'
    return (
        f'<section class="row"><h3>{escape(outcome.title)} '
        f"<code>{escape(outcome.name)}</code></h3>"
        f"{''.join(map(_line, outcome.lines))}"
        f'<p class="how">{escape(outcome.how)}</p>{profile}</section>'
    )


def _line(line: Line) -> str:
    facts = [f"ratio to {line.against} {quantities.ratio(line.ratio)}"] if line.against else []
    facts += [line.note] if line.note else []
    caption = f'<p class="caption">{escape("; ".join(facts))}</p>' if facts else ""
    return f"<div><h4>{escape(line.what)}</h4>{figures.bars(line)}{caption}</div>"
