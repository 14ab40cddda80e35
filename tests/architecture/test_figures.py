"""Figures of the pages: made of bench/results.json, or said to be measured otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.measure import Line
from bench.quoted import MARKS, QUOTES, quote
from bench.results import PATH, Results, format_results, read_results
from bench.rows import SUITES
from tests.architecture.listings import BEGIN, END, ROOT
from tests.architecture.test_docs import PAGES, each_page, relative

RESULTS = read_results()
#: A time, a size, a rate, a share.
FIGURE = re.compile(r"\d[\d.,]*\s?(?:ms|µs|s|seconds?|[KMGT]i?B|%|/s)(?![\w/])")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
#: The pages that tell how fast it is, and the figures in them that are limits, settings, sizes of
#: what is sent, or how long tritonserver sleeps.
LIMITS: Mapping[str, set[str]] = {
    "README.md": set(),
    "docs/archives.md": {"20 GB", "64 MB", "256 MB"},
    "docs/how-it-works.md": {"6 s", "8 s", "12 s", "25 s"},
    "docs/install.md": {"1.4 GB"},
    "docs/metrics.md": {"80 ms", "100 ms", "200 MB", "4 seconds", "16 MB", "1 MiB"},
    "docs/performance.md": set(),
}


@each_page
def test_quoted_figures_are_those_of_the_results(page: Path) -> None:
    """`make listings` would write what stands there."""
    assert quote(page.read_text(), RESULTS) == page.read_text()


@pytest.mark.parametrize("name", LIMITS)
def test_other_figures_say_when_they_were_measured(name: str) -> None:
    """Beside what is quoted a section has limits, and figures with the day of their measurement."""
    for section in _sections(_without_what_is_made((ROOT / name).read_text())):
        found = set(FIGURE.findall(section)) - LIMITS[name]
        assert not found or DATE.search(section), (section.splitlines()[0], found)


def test_limits_are_still_in_their_pages() -> None:
    """None of them lets a figure pass that came later."""
    for name, limits in LIMITS.items():
        found = FIGURE.findall(_without_what_is_made((ROOT / name).read_text()))
        assert limits <= set(found), name


def test_every_quotation_stands_in_a_page() -> None:
    """And the README's tables are quotations."""
    quoted = {
        relative(page): [name for _, name, _, _ in MARKS.findall(page.read_text())]
        for page in PAGES
    }
    assert {name for names in quoted.values() for name in names} == set(QUOTES)
    assert quoted["README.md"] == ["what-it-saves", "how-fast"]


def test_a_changed_result_changes_the_pages() -> None:
    """The test above would fail for each line that the README quotes."""
    readme = (ROOT / "README.md").read_text()
    for suite, row, what in (
        ("frontend", "unload", "unload of a compiled export, until everything is free"),
        ("frontend", "small_json_p50", "small JSON, 1 connection, p50"),
        ("workflows", "workflow_dense", "dense, transform, memory"),
    ):
        assert quote(readme, _changed(suite, row, what)) != readme, what


def test_the_results_are_what_the_bench_writes() -> None:
    """Rows and lines of names that it knows, in the form in which it records them."""
    assert format_results(RESULTS) == PATH.read_text("utf-8")
    for suite, rows in RESULTS.suites.items():
        assert list(rows) == [row.name for row in SUITES[suite].rows if row.name in rows]
        for name, row in rows.items():
            titles = [line.what for line in row.lines]
            assert len(set(titles)) == len(titles), name


def _changed(suite: str, row: str, what: str) -> Results:
    """With the values of one line doubled."""

    def doubled(line: Line) -> Line:
        if line.what != what:
            return line
        return replace(
            line,
            values={name: [2 * value for value in found] for name, found in line.values.items()},
        )

    rows = dict(RESULTS.suites[suite])
    rows[row] = replace(rows[row], lines=tuple(map(doubled, rows[row].lines)))
    return Results({**RESULTS.suites, suite: rows})


def _without_what_is_made(page: str) -> str:
    """Neither quotations nor listings, nor what stands as code."""
    listings = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    for made in (MARKS, listings, code):
        page = made.sub("", page)
    return page


def _sections(page: str) -> Iterator[str]:
    yield from re.split(r"^(?=##+ )", page, flags=re.MULTILINE)
