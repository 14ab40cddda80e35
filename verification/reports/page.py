"""A report as one page of HTML, with tables and pictures; it reads its template, nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

_TEMPLATE = Path(__file__).with_name("page.html")


@dataclass(frozen=True)
class Axis:
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


def fill_page(title: str, body: Iterable[str]) -> str:
    """The page, which needs no other file and no network."""
    return Template(_TEMPLATE.read_text()).substitute(title=title, body="\n".join(body))


def write_list(sentences: Iterable[str]) -> Iterator[str]:
    """The sentences as a list; nothing where there are none."""
    items = [f"<li>{escape(sentence.strip())}</li>" for sentence in sentences]
    if items:
        yield f"<ul>{''.join(items)}</ul>"


def write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, which scrolls by itself where it is too wide."""
    yield '<div class="wide"><table>'
    yield f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</table></div>"


def open_picture(x: Axis, y: Axis, x_title: str, y_title: str) -> Iterator[str]:
    """The beginning of a figure: the axes with their titles."""
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


def choose_ticks(low: float, high: float) -> list[float]:
    """Some round numbers between both."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]
