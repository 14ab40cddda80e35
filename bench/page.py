"""report.html: one file that opens from a disk, without a script and without another file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench import figures, quantities
from bench.measure import Line, Outcome
from bench.report import HEAD, READING, Report, cells
from simulator.replay.plots import with_variables

_STYLE = Path(__file__).with_name("report.css")
_TITLE = "Measurements: the container beside Triton's own SageMaker frontend"


def page(report: Report) -> str:
    """The whole page."""
    parts = (
        f"<h1>{_TITLE}</h1>",
        f'<p class="verdict">{escape(report.verdict)}.</p>',
        f'<p class="faint">{escape(READING)}</p>',
        f'<p class="bad">{escape(report.caution)}</p>' if report.caution else "",
        _failures(report),
        _table(report.lines),
        '<div class="columns">' + _goals(report.lines) + _where(report) + "</div>",
        "<h2>Row by row</h2>",
        '<p class="faint">Bars are medians, thin lines reach from the lowest to the highest round, '
        "the dashed line is the goal.</p>",
        f'<div class="rows">{"".join(map(_outcome, report.outcomes))}</div>',
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_TITLE}</title><style>{with_variables(_STYLE)}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _failures(report: Report) -> str:
    rows = (
        f'<p class="bad"><b>{escape(row)} could not be measured</b>: {escape(said)}</p>'
        for row, said in report.failures.items()
    )
    return "".join(rows)


def _table(lines: Sequence[Line]) -> str:
    head = "".join(
        f'<th{_number(place)} scope="col">{escape(name)}</th>' for place, name in enumerate(HEAD)
    )
    body = "".join(map(_table_row, lines))
    return (
        f'<div class="wide"><table class="lines"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _table_row(line: Line) -> str:
    first, *rest = cells(line)
    colour = {True: "good", False: "bad", None: "faint"}[line.reached]
    others = "".join(
        f'<td data-name="{escape(HEAD[place])}"'
        + (f' class="{colour}"' if HEAD[place] == "reached" else _number(place))
        + f">{escape(cell)}</td>"
        for place, cell in enumerate(rest, start=1)
    )
    return f'<tr><th scope="row">{escape(first)}</th>{others}</tr>'


def _number(place: int) -> str:
    return ' class="number"' if HEAD[place] in ("rival", "limit", "ours", "ratio") else ""


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
    return (
        f'<section class="row"><h3>{escape(outcome.title)} '
        f"<code>{escape(outcome.name)}</code></h3>"
        f"{''.join(map(_line, outcome.lines))}"
        f'<p class="how">{escape(outcome.how)}</p></section>'
    )


def _line(line: Line) -> str:
    facts = [f"ratio to {line.against} {quantities.ratio(line.ratio)}"] if line.against else []
    facts += [line.note] if line.note else []
    caption = f'<p class="caption">{escape("; ".join(facts))}</p>' if facts else ""
    return f"<div><h4>{escape(line.what)}</h4>{figures.bars(line)}{caption}</div>"
