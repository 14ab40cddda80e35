"""The file that the pages' figures are made of."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import main, write_files
from bench.measure import Line, ratio_at_most
from bench.quoted import quote
from bench.report import Report
from bench.results import Measured, Results, format_results, read_results
from bench.rows import SUITES
from tests.unit.bench.test_report import FACTS

FIRST = Measured("2026-11-24", 5, 2.0, FACTS)
LATER = replace(FIRST, date="2026-11-26")
PAGE = "before\n<!-- figures: observing -->\nstale\n<!-- end of the figures -->\nafter\n"


def row(name: str, ours: float) -> dict[str, list[Line]]:
    """A row of one line."""
    values = {"nothing": [2e-4], "ours": [ours], "every line": [3e-4], "captured": [2.2e-4]}
    line = Line(f"{name}, p50", "s", values, ratio_at_most(1.1), against="nothing")
    return {name: [line]}


def recorded(
    measured: Measured, rows: dict[str, list[Line]], before: Results | None = None
) -> Results:
    """In an order that is not that of the measurements."""
    return (before or Results({})).with_rows(
        "observing", measured, rows, ("observed_b", "observed_a")
    )


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Goals and the machine with it."""
    results = recorded(FIRST, row("observed_a", 2.5e-4) | row("observed_b", 2e-4))
    file = tmp_path / "results.json"
    file.write_text(format_results(results), "utf-8")
    assert read_results(file) == results


def test_a_row_that_is_measured_again_takes_its_own_place() -> None:
    """The others stay, with the day on which they were measured."""
    results = recorded(FIRST, row("observed_a", 2.5e-4) | row("observed_b", 2e-4))
    again = recorded(LATER, row("observed_a", 2.1e-4), before=results)
    assert again.line("observing", "observed_a", "observed_a, p50").values["ours"] == [2.1e-4]
    days = {name: row.measured.date for name, row in again.suites["observing"].items()}
    assert list(days.items()) == [("observed_b", "2026-11-24"), ("observed_a", "2026-11-26")]


def test_a_line_that_was_not_measured_is_named() -> None:
    """A page cannot quote it."""
    results = recorded(FIRST, row("observed_a", 2.5e-4))
    with pytest.raises(KeyError, match="observing, observed_a: throughput"):
        results.line("observing", "observed_a", "throughput")


def test_a_page_gets_the_figures_between_its_marks() -> None:
    """With where they were measured; the rest of the page stays. A second time changes nothing."""
    page = quote(PAGE, recorded(FIRST, row("observed_a", 2.5e-4)))
    assert page.startswith("before\n<!-- figures: observing -->\nMeasured on 2026-11-24, ")
    assert "| observed_a, p50 | 200 µs | 250 µs | 300 µs | 220 µs |\n" in page
    assert "stale" not in page
    assert page.endswith("<!-- end of the figures -->\nafter\n")
    assert quote(page, recorded(FIRST, row("observed_a", 2.5e-4))) == page


def test_a_lost_end_takes_nothing_with_it() -> None:
    """What stands up to the next quotation is the page's own."""
    broken = PAGE.replace("<!-- end of the figures -->", "prose") + PAGE
    page = quote(broken, recorded(FIRST, row("observed_a", 2.5e-4)))
    assert page.startswith("before\n<!-- figures: observing -->\nstale\nprose\nafter\nbefore\n")
    assert page.count("Measured on") == 1


def test_rows_of_several_runs_are_told_apart() -> None:
    """Each with the day of its own run."""
    results = recorded(FIRST, row("observed_a", 2.5e-4) | row("observed_b", 2e-4))
    page = quote(PAGE, recorded(LATER, row("observed_a", 2.1e-4), before=results))
    assert "- `observed_b`: measured on 2026-11-24, 2 cores" in page
    assert "- `observed_a`: measured on 2026-11-26, 2 cores" in page


def test_a_runs_own_file_is_like_the_recorded_one(tmp_path: Path) -> None:
    """results.json of --out has the rows of the run, each with every round."""
    suite = SUITES["observing"]
    name = suite.rows[0].name
    report = Report(suite, FIRST, row(name, 2e-4), {})
    write_files(report, Namespace(out=tmp_path, suite="observing"))
    found = read_results(tmp_path / "results.json")
    assert found.line("observing", name, f"{name}, p50").values["ours"] == [2e-4]
    assert found.suites["observing"][name].measured == FIRST
    assert "1 of 1 goals reached" in (tmp_path / "report.md").read_text("utf-8")


def test_a_short_run_is_not_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    """It measures a part of each row."""
    with pytest.raises(SystemExit) as ended:
        main(["--short", "--record"])
    assert ended.value.code == 2
    assert "not with --short" in capsys.readouterr().err
