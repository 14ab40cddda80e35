"""A report's page: one file that opens from a disk, without a script and without another file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

_STYLE = Path(__file__).with_name("page.css")

#: The attributes of a cell whose digits stand right.
NUMBER = {"class": "number"}


def write_page(title: str, body: str, style: Path | None = None) -> str:
    """The whole page around its body; style: rules of this report beside the common ones."""
    css = "".join(sheet.read_text("utf-8") for sheet in (_STYLE, style) if sheet)
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
