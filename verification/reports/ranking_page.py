"""A comparison of two archives as one page of HTML; it reads its template, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

import numpy as np

from ensemble_tools.answers.tensors import Array
from verification.ranking.tally import Tally, name_overlap
from verification.reports.ranking_report import RankingReport
from verification.reports.ranking_text import (
    COST_HEAD,
    conclude,
    describe_archives,
    describe_costs,
    describe_lists,
    describe_requests,
    describe_target,
    list_figures,
)
from verification.reports.text_report import clean, format_cost

_TEMPLATE = Path(__file__).with_name("ranking_page.html")
#: Of more items, some are drawn, evenly chosen.
_MOST_POINTS = 2000
_TITLE = "Two archives, asked the same"


@dataclass(frozen=True)
class _Axis:
    """Numbers to places in a picture; ticks are numbers with their labels."""

    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[tuple[float, str]]

    def place(self, number: float) -> str:
        """The coordinate of a number."""
        part = (number - self.low) / (self.high - self.low)
        return f"{self.start + part * (self.end - self.start):.1f}"


def write_ranking_page(report: RankingReport) -> str:
    """The page, which needs no other file and no network."""
    body = "\n".join(_write_body(report))
    return Template(_TEMPLATE.read_text()).substitute(title=_TITLE, body=body)


def _write_body(report: RankingReport) -> Iterator[str]:
    first, *reasons = conclude(report)
    yield f'<p class="{"good" if report.is_within else "bad"}">{escape(first)}</p>'
    yield from _write_list(reasons)
    yield from _write_list([*describe_archives(report), *describe_requests(report)])
    for tally, own in report.compared:
        yield f"<h2>{escape(clean(tally.target.name))}</h2>"
        yield f"<p>{escape(describe_lists(tally))}</p>"
        yield from _write_table(*list_figures(tally, own, report))
        yield from _write_list(describe_target(tally, report))
        yield '<div class="pictures">'
        yield from _draw_overlaps(tally, own if report.chance else None)
        yield from _draw_scores(tally)
        yield "</div>"
    if report.costs:
        yield "<h2>Time and memory</h2>"
        yield from _write_table(COST_HEAD, [format_cost(cost) for cost in report.costs])
        yield from _write_list(describe_costs(report))


def _write_list(sentences: Iterable[str]) -> Iterator[str]:
    items = [f"<li>{escape(sentence.strip())}</li>" for sentence in sentences]
    if items:
        yield f"<ul>{''.join(items)}</ul>"


def _write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield '<div class="wide"><table>'
    yield f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</table></div>"


def _draw_overlaps(tally: Tally, own: Tally | None) -> Iterator[str]:
    """The mean overlap of the first k by k, on a logarithmic axis."""
    curves = [(tally, "first", "NEW"), *([(own, "second", "OLD again")] if own else [])]
    places = [k for k in tally.places if tally.summarize(name_overlap(k)).lists]
    if not places:
        return
    span = math.log(max(places[-1], 2))
    x = _Axis(0.0, span, 48, 380, [(math.log(k), str(k)) for k in places])
    y = _Axis(0.0, 1.0, 220, 12, [(part / 4, f"{part / 4:g}") for part in range(5)])
    yield from _open_picture(x, y, "k", "overlap@k")
    for curve, style, title in curves:
        points = []
        for k in places:
            summary = curve.summarize(name_overlap(k))
            if summary.lists:
                points.append((x.place(math.log(k)), y.place(summary.mean)))
                yield (
                    f'<circle class="{style}" r="3.5" cx="{points[-1][0]}" cy="{points[-1][1]}">'
                    f"<title>{title}: overlap@{k} {summary.mean:.4f}, lists: {summary.lists}"
                    "</title></circle>"
                )
        line = " L".join(f"{left} {top}" for left, top in points)
        yield f'<path class="{style}" d="M{line}"/>' if points else ""
    also = "; orange: OLD with its own second answer" if own else ""
    caption = f"The mean overlap of the first k items, by k{also}"
    yield f"</svg><figcaption>{caption}</figcaption></figure>"


def _draw_scores(tally: Tally) -> Iterator[str]:
    """A point for each item: OLD's score to the right, NEW's upwards."""
    old, new = tally.shifts.scores
    if not len(old):
        return
    low, high = float(min(old.min(), new.min())), float(max(old.max(), new.max()))
    if not high - low > 1e-9 * max(abs(low), abs(high)):
        low, high = low - (abs(low) or 1), high + (abs(high) or 1)
    ticks = [(number, f"{number:g}") for number in _choose_ticks(low, high)]
    x, y = _Axis(low, high, 64, 380, ticks), _Axis(low, high, 220, 12, ticks)
    drawn: Array = np.arange(len(old))
    if len(old) > _MOST_POINTS:
        drawn = np.random.default_rng(0).choice(len(old), _MOST_POINTS, replace=False)
    yield from _open_picture(x, y, "OLD's score", "NEW's score")
    yield '<g class="cloud">'
    for left, top in zip(old[drawn].tolist(), new[drawn].tolist(), strict=True):
        yield f'<circle class="first" r="2.5" cx="{x.place(left)}" cy="{y.place(top)}"/>'
    ends = (x.place(low), y.place(low), x.place(high), y.place(high))
    yield '</g><path class="same" d="M{} {} L{} {}"/></svg>'.format(*ends)
    by_lot = f", by lot, of {tally.shifts.items}" if len(drawn) < tally.shifts.items else ""
    yield (
        f"<figcaption>Scores of {len(drawn)} items{by_lot}; those on the dashed line are the same"
        "</figcaption></figure>"
    )


def _open_picture(x: _Axis, y: _Axis, x_title: str, y_title: str) -> Iterator[str]:
    yield f'<figure><svg viewBox="0 0 400 270" role="img" aria-label="{y_title} by {x_title}">'
    for number, label in x.ticks:
        at = x.place(number)
        yield f'<path class="grid" d="M{at} {y.start} V{y.end}"/>'
        yield f'<text x="{at}" y="238" text-anchor="middle">{label}</text>'
    for number, label in y.ticks:
        at = y.place(number)
        yield f'<path class="grid" d="M{x.start} {at} H{x.end}"/>'
        yield f'<text x="{x.start - 6}" y="{at}" dy="4" text-anchor="end">{label}</text>'
    yield f'<text x="{(x.start + x.end) / 2}" y="260" text-anchor="middle">{x_title}</text>'
    yield f'<text x="{x.start}" y="9" text-anchor="start">{y_title}</text>'


def _choose_ticks(low: float, high: float) -> list[float]:
    """Some round numbers between both."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]
