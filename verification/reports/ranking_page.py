"""A comparison of two archives as one page of HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

import numpy as np

from ensemble_tools.answers.tensors import Array
from verification.ranking.tally import Tally, name_overlap
from verification.reports.page import (
    Axis,
    choose_ticks,
    fill_page,
    open_picture,
    write_list,
    write_table,
)
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

#: Of more items, some are drawn, evenly chosen.
_MOST_POINTS = 2000
_TITLE = "Two archives, asked the same"


def write_ranking_page(report: RankingReport) -> str:
    """The page, which needs no other file and no network."""
    return fill_page(_TITLE, _write_body(report))


def _write_body(report: RankingReport) -> Iterator[str]:
    first, *reasons = conclude(report)
    yield f'<p class="{"good" if report.is_within else "bad"}">{escape(first)}</p>'
    yield from write_list(reasons)
    yield from write_list([*describe_archives(report), *describe_requests(report)])
    for tally, own in report.compared:
        yield f"<h2>{escape(clean(tally.target.name))}</h2>"
        yield f"<p>{escape(describe_lists(tally))}</p>"
        yield from write_table(*list_figures(tally, own, report))
        yield from write_list(describe_target(tally, report))
        yield '<div class="pictures">'
        yield from _draw_overlaps(tally, own if report.chance else None)
        yield from _draw_scores(tally)
        yield "</div>"
    if report.costs:
        yield "<h2>Time and memory</h2>"
        yield from write_table(COST_HEAD, [format_cost(cost) for cost in report.costs])
        yield from write_list(describe_costs(report))


def _draw_overlaps(tally: Tally, own: Tally | None) -> Iterator[str]:
    """The mean overlap of the first k by k, on a logarithmic axis."""
    curves = [(tally, "first", "NEW"), *([(own, "second", "OLD again")] if own else [])]
    places = [k for k in tally.places if tally.summarize(name_overlap(k)).lists]
    if not places:
        return
    span = math.log(max(places[-1], 2))
    x = Axis(0.0, span, 48, 380, [(math.log(k), str(k)) for k in places])
    y = Axis(0.0, 1.0, 220, 12, [(part / 4, f"{part / 4:g}") for part in range(5)])
    yield from open_picture(x, y, "k", "overlap@k")
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
    ticks = [(number, f"{number:g}") for number in choose_ticks(low, high)]
    x, y = Axis(low, high, 64, 380, ticks), Axis(low, high, 220, 12, ticks)
    drawn: Array = np.arange(len(old))
    if len(old) > _MOST_POINTS:
        drawn = np.random.default_rng(0).choice(len(old), _MOST_POINTS, replace=False)
    yield from open_picture(x, y, "OLD's score", "NEW's score")
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
