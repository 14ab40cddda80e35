"""The page that reports share."""

from __future__ import annotations

from pathlib import Path

from merlin_simulator.measuring.page import (
    NUMBER,
    write_cell,
    write_facts,
    write_figure,
    write_page,
    write_row_head,
    write_table,
)


def test_a_reports_own_rules_stand_after_the_common_ones(tmp_path: Path) -> None:
    """So that they prevail; the title is escaped, the body is HTML already."""
    style = tmp_path / "own.css"
    style.write_text("p { color: red }")
    page = write_page("a <b>", "<p>body</p>", style)
    assert "<title>a &lt;b&gt;</title>" in page
    assert "<body><main><p>body</p></main></body>" in page
    assert 0 < page.index("--s1:") < page.index("p { color: red }") < page.index("</style>")
    assert "<style>" in write_page("plain", "")


def test_cells_are_escaped_and_tables_are_not() -> None:
    """A table is made of cells that are HTML already."""
    cell = write_cell("td", "<1>", {**NUMBER, "data-name": 'a"b'})
    assert cell == '<td class="number" data-name="a&quot;b">&lt;1&gt;</td>'
    table = write_table([write_cell("th", "x")], [[write_row_head("y"), cell]], "lines")
    assert table == (
        '<div class="wide"><table class="lines"><thead><tr><th>x</th></tr></thead>'
        f'<tbody><tr><th scope="row">y</th>{cell}</tr></tbody></table></div>'
    )


def test_facts_are_pairs() -> None:
    """A row for each name."""
    assert write_facts([("CPU", "A & B")]) == (
        '<table class="facts"><tbody><tr><th scope="row">CPU</th><td>A &amp; B</td></tr></tbody>'
        "</table>"
    )


def test_a_figure_has_what_is_given() -> None:
    """Title and caption only where there are some."""
    assert write_figure("<svg/>") == "<figure><svg/></figure>"
    assert write_figure("<svg/>", "<t>", "c") == (
        "<figure><h3>&lt;t&gt;</h3><svg/><figcaption>c</figcaption></figure>"
    )
