"""The drift of some models as one page of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from verification.drift.measures import ColumnDrift
from verification.reports.drift_report import (
    HEAD,
    ModelDrift,
    describe,
    list_columns,
    list_models,
    name_column,
)
from verification.reports.page import (
    Axis,
    choose_ticks,
    fill_page,
    open_picture,
    write_list,
    write_table,
)

_TITLE = "What came, and what the workflows were fitted to"
#: Pictures: of each model the worst columns that have a vocabulary, and of all the worst models.
_OF_A_MODEL, _OF_ALL = 6, 60


def write_drift_page(models: Sequence[ModelDrift]) -> str:
    """The page, which needs no other file and no network."""
    return fill_page(_TITLE, _write_body(models))


def _write_body(models: Sequence[ModelDrift]) -> Iterator[str]:
    drifting = [model.title for model in models if model.drifting]
    unknown = sum(all(it.severity is None for it in model.columns) for model in models)
    verdict = f"drift in {len(drifting)} of {len(models)} models"
    verdict += f"; nothing is measured of {unknown}" if unknown else ""
    of_verdict = "bad" if drifting else "plain" if unknown else "good"
    yield f'<p class="{of_verdict}">{verdict}</p>'
    yield from write_list(drifting if len(models) > 1 else [])
    if len(models) > 1:
        yield from write_table(*list_models(models))
    left = _OF_ALL
    for model in models:
        yield f"<h2>{escape(model.title)}</h2><p>{escape(describe(model))}</p>"
        shown = model.columns if len(models) == 1 else model.drifting
        if shown:
            yield from write_table(HEAD, list_columns(model, shown))
        yield '<div class="pictures">'
        drawn = [it for it in shown if it.psi is not None][: min(_OF_A_MODEL, left)]
        for column in drawn:
            yield from _draw_buckets(name_column(model, column), column)
        left -= len(drawn)
        yield "</div>"


def _draw_buckets(name: str, column: ColumnDrift) -> Iterator[str]:
    """A bar for what came of each bucket, and a line for what was fitted."""
    came, fitted = (
        [count / sum(counts) for count in counts] for counts in zip(*column.buckets, strict=True)
    )
    last, top = len(came), max(*came, *fitted)
    x = Axis(0.0, last, 48, 380, [(0.5, "1"), (last - 0.5, str(last))])
    y = Axis(0.0, top, 220, 12, [(share, f"{100 * share:g} %") for share in choose_ticks(0, top)])
    yield from open_picture(x, y, "bucket of the vocabulary, most frequent first", "share")
    bottom = y.place(0.0)
    for number, share in enumerate(came):
        left, right, height = x.place(number + 0.1), x.place(number + 0.9), y.place(share)
        yield (
            f'<path class="bar first" d="M{left} {bottom} V{height} H{right} V{bottom}">'
            f"<title>{number + 1}: {100 * share:.2f} % came, {100 * fitted[number]:.2f} % fitted"
            "</title></path>"
        )
    steps = "".join(f" V{y.place(share)} H{x.place(at)}" for at, share in enumerate(fitted, 1))
    yield f'<path class="second" d="M{x.place(0)} {bottom}{steps}"/></svg>'
    yield (
        f"<figcaption>{escape(name)}: PSI {column.psi:.3f}; blue: what came, orange: what it was "
        "fitted to</figcaption></figure>"
    )
