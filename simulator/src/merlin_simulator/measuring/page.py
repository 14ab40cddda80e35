"""A report's page: one file that opens from a disk, without a script and without another file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

_COLOURS = Path(__file__).with_name("colours.css")
_STYLE = Path(__file__).with_name("page.css")

#: Letters that a tile has room for; what is longer has two tiles' room.
_TILE, _LONG = 9, ' class="long"'
#: A picture of its own is so many times as large as a plot's letters need at least.
_LARGER = 1.8

#: The attributes of a cell whose digits stand right.
NUMBER = {"class": "number"}


def write_page(title: str, body: str, style: Path | None = None) -> str:
    """The whole page around its body; style: rules of this report beside the common ones."""
    css = "".join(sheet.read_text("utf-8") for sheet in (_COLOURS, _STYLE, style) if sheet)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{css}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def write_table(head: Iterable[str], rows: Iterable[Iterable[str]], name: str = "") -> str:
    """Of cells that are HTML already; where the page is narrower it scrolls by itself.

    name: the table's class: `lines` makes each row a card on a narrow page.
    """
    named = f' class="{name}"' if name else ""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table{named}><thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def write_numbers(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of numbers under names, behind the name of each row; all of it is escaped."""
    heads = (write_cell("th", name, NUMBER if place else {}) for place, name in enumerate(head))
    cells = (
        (write_row_head(first), *(write_cell("td", cell, NUMBER) for cell in rest))
        for first, *rest in rows
    )
    return write_table(heads, cells)


def write_tiles(tiles: Iterable[tuple[str, str]]) -> str:
    """The few figures that are read first, each under its name."""
    shown = (
        f"<div{_LONG if len(value) > _TILE else ''}><dt>{escape(name)}</dt>"
        f"<dd>{escape(value)}</dd></div>"
        for name, value in tiles
    )
    return f'<dl class="tiles">{"".join(shown)}</dl>'


def write_cell(tag: str, text: str, attributes: Mapping[str, str] | None = None) -> str:
    """A th or td; text is escaped."""
    words = "".join(f' {name}="{escape(value)}"' for name, value in (attributes or {}).items())
    return f"<{tag}{words}>{escape(text)}</{tag}>"


def write_row_head(text: str) -> str:
    """The cell that says what its row is of."""
    return write_cell("th", text, {"scope": "row"})


def write_facts(rows: Iterable[tuple[str, str]]) -> str:
    """Pairs of name and value."""
    cells = (f"<tr>{write_row_head(name)}{write_cell('td', value)}</tr>" for name, value in rows)
    return f'<table class="facts"><tbody>{"".join(cells)}</tbody></table>'


def write_figure(svg: str, title: str = "", caption: str = "") -> str:
    """A plot with what stands above and below it."""
    above = f"<h3>{escape(title)}</h3>" if title else ""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{above}{svg}{below}</figure>"


def write_picture(svg: str) -> str:
    """A plot as a file of its own: with the page's colours, its ground, and a size."""
    sides = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    width, height = (f"{float(side) * _LARGER:.0f}" for side in sides)
    rules = "svg{color:var(--ink);background:var(--ground);font-family:system-ui,sans-serif}"
    style = f"<style>{_COLOURS.read_text('utf-8')}{rules}</style>"
    sized = svg.replace("<svg", f'<svg width="{width}" height="{height}"', 1)
    start = sized.index(">", sized.index("<svg")) + 1
    return f"{sized[:start]}{style}{sized[start:]}\n"
