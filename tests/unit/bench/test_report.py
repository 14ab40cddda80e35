"""The report of a made-up run."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from bench import figures, quantities
from bench.machine import Facts
from bench.measure import Line, Outcome, Unit, ratio_at_least, ratio_at_most, value_at_most
from bench.page import write_report_page
from bench.report import WORKFLOWS, Report, format_markdown, format_table, to_json

FACTS: Facts = {
    "cpu": "Some <CPU> & Co",
    "cores": 2,
    "memory_bytes": 8 * 2**30,
    "load_before": 0.05,
    "system": "Linux 6.1",
    "tritonserver": "2.51.0",
    "python": "3.11.7",
    "commit": "0123456789ab",
    "dirty": True,
    "wrk": "4.1.0",
}

LATENCY = Line(
    "small",
    "small JSON, p50",
    "s",
    {"rival": [2e-4, 2.1e-4, 1.9e-4], "limit": [1e-4], "ours": [3e-4, 3.1e-4, 2.9e-4]},
    ratio_at_most(1.6),
    note="70 bytes",
)
RATE = Line(
    "rate",
    "throughput",
    "requests/s",
    {"rival": [10_000.0], "ours": [7_000.0]},
    ratio_at_least(0.8),
)
BEYOND = Line("start", "start", "s", {"ours": [-0.01]}, value_at_most(0.7), against=None)
LOADS = Line(
    "loads",
    "load of the 3rd",
    "s",
    {"ours": [0.1], "first 5": [0.1]},
    against="first 5",
    series={"each load": [0.1, 0.1, 0.1]},
)
SIZES = tuple(
    Line(
        "json",
        f"JSON FP32 {size}, p50",
        "s",
        {"rival": [1.0], "limit": [1.0], "ours": [0.3]},
        series={"request_bytes": [float(size)]},
    )
    for size in (10**5, 10**6)
)

REPORT = Report(
    FACTS,
    1_700_000_000.0,
    61.0,
    True,
    3,
    0.7,
    (
        Outcome("small", "Small", "By <hand>.", 4.0, (LATENCY,), "into <pockets>."),
        Outcome("others", "Others", "Somehow.", 4.0, (RATE, BEYOND, LOADS, *SIZES)),
    ),
    {"broken": "found 500, expected 200"},
)


def test_table_has_every_line() -> None:
    """Both absolute values, the ratio, the goal and whether it is reached; then what failed."""
    printed = format_table(REPORT).splitlines()
    small = next(line for line in printed if line.startswith("small JSON"))
    assert small.split()[3:] == [
        "200",
        "µs",
        "100",
        "µs",
        "300",
        "µs",
        "rival",
        "1.50",
        "≤",
        "1.6",
        "yes",
    ]
    rate = next(line for line in printed if line.startswith("throughput"))
    assert rate.split()[1:] == ["10,000/s", "–", "7,000/s", "rival", "0.70", "≥", "0.8", "no"]
    assert "first 5: 100 ms" in format_table(REPORT)
    assert "failed: broken: found 500, expected 200" in printed
    assert printed[-1] == "2 of 3 goals reached; could not be measured: broken"


def test_busy_machine_is_told_of() -> None:
    """Figures that something else on the machine may have spoilt are marked."""
    busy = replace(REPORT, facts={**FACTS, "load_before": 1.2})
    for write in (format_table, format_markdown, write_report_page):
        assert "load average 1.2" in write(busy)
        assert "busy" not in write(REPORT)


def test_json_has_every_round() -> None:
    """Unrounded, and it survives being written."""
    written = json.loads(json.dumps(to_json(REPORT)))
    (line,) = written["rows"][0]["lines"]
    assert line["values"]["rival"] == [2e-4, 2.1e-4, 1.9e-4]
    assert line["ratio"] == pytest.approx(1.5)
    assert line["reached"] is True
    assert line["goal"] == {"of": "ratio", "direction": "at most", "bound": 1.6}
    assert written["facts"]["commit"] == "0123456789ab"
    assert written["failures"] == {"broken": "found 500, expected 200"}


@pytest.mark.parametrize("write", [format_markdown, write_report_page])
def test_people_are_told_where_it_was_measured(write: object) -> None:
    """Machine, versions, commit, whether it was dirty, date, rounds, how, and the spread."""
    assert callable(write)
    text = str(write(REPORT))
    for fact in (
        "2 cores",
        "8.0 GiB",
        "2.51.0",
        "3.11.7",
        "4.1.0",
        "2023-11-14 22:13 UTC",
        "0123456789ab with changes that are not committed",
        "3 rounds of 0.7 s",
        "Somehow.",
    ):
        assert fact in text
    assert "found 500, expected 200" in text


class _Tags(HTMLParser):
    """Counts tags, and holds that each one that opens is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "rect", "line", "path", "use"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line", "path", "use"):
            assert self.open.pop() == tag


def test_page_is_whole_and_alone() -> None:
    """Every tag is closed, what was measured is escaped, and nothing is fetched from elsewhere."""
    text = write_report_page(REPORT)
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.seen.count("svg") == len(REPORT.lines) + 3  # goals, loads, sizes
    assert "Some &lt;CPU&gt; &amp; Co" in text
    assert "By &lt;hand&gt;." in text
    assert "into &lt;pockets&gt;." in text
    assert "<script" not in text
    assert " src=" not in text
    assert "<link" not in text


@pytest.mark.parametrize("line", REPORT.lines, ids=lambda line: line.what)
def test_bars_are_within_the_picture(line: Line) -> None:
    """Also where a difference came out below zero."""
    svg = ElementTree.fromstring(figures.draw_bars(line))
    rows = svg.findall("{http://www.w3.org/2000/svg}rect")
    assert len(rows) == len(line.values)
    for bar in rows:
        assert float(bar.attrib["width"]) > 0
        assert float(bar.attrib["x"]) + float(bar.attrib["width"]) <= 300


def test_distance_is_one_at_the_goal() -> None:
    """Below one is reached, whichever way the goal points."""
    for line in (LATENCY, RATE, BEYOND):
        far = figures.distance(line)
        assert far is not None
        assert (far <= 1) is line.reached
    assert figures.distance(LOADS) is None


@pytest.mark.parametrize(
    ("value", "unit", "read"),
    [
        (0.000205, "s", "205 µs"),
        (0.0032, "s", "3.20 ms"),
        (0.0264, "s", "26.4 ms"),
        (0.412, "s", "412 ms"),
        (1.344, "s", "1.34 s"),
        (17_912.3, "requests/s", "17,912/s"),
        (83.24, "MB", "83.2 MB"),
        (240.4, "MB", "240 MB"),
        (None, "s", "–"),
    ],
)
def test_quantities_are_readable(value: float | None, unit: Unit, read: str) -> None:
    """Three digits that matter."""
    assert quantities.format_quantity(value, unit) == read


def test_where_it_goes_is_said_in_each_form() -> None:
    """A row's profile stands behind how it was measured."""
    assert "Where it goes, as profiled on two cores: into <pockets>." in format_markdown(REPORT)
    assert [row["profile"] for row in to_json(REPORT)["rows"]] == ["into <pockets>.", ""]


def test_curves_are_of_latencies_alone() -> None:
    """A throughput of the same payload has no place among them."""
    rate = Line("others", "JSON FP32 1 MB, 16 connections, throughput", "requests/s", {"ours": [9]})
    outcome = Outcome("others", "Others", "Somehow.", 4.0, (*SIZES, rate))
    assert "JSON of FP32 by its size" in write_report_page(replace(REPORT, outcomes=(outcome,)))


FORMS = replace(
    REPORT,
    suite=WORKFLOWS,
    failures={},
    outcomes=(
        Outcome(
            "workflow",
            "Workflow",
            "Somehow.",
            4.0,
            (
                Line(
                    "workflow",
                    "transform, p50",
                    "s",
                    {"executor": [0.012], "compiled": [0.0006]},
                    ratio_at_most(0.15),
                    "compiled",
                    "executor",
                ),
                Line(
                    "fit",
                    "loaded at once",
                    "models",
                    {"ensemble": [16.0], "compiled": [31.0]},
                    None,
                    "compiled",
                    "ensemble",
                    series={
                        "ensemble at": [0, 1],
                        "ensemble": [0, 16],
                        "compiled at": [0, 1],
                        "compiled": [0, 31],
                    },
                ),
                Line("fit", "right", "share", {"compiled": [0.996]}, None, "compiled", None),
            ),
        ),
    ),
)


def test_columns_are_those_of_the_suite() -> None:
    """Each with the form's values; the title and how to read it are the suite's too."""
    head, _, transform, fits, right, *_ = format_table(FORMS).splitlines()
    assert head.split()[1:4] == ["executor", "ensemble", "compiled"]
    assert transform.split()[2:] == [
        "12.0",
        "ms",
        "–",
        "600",
        "µs",
        "executor",
        "0.050",
        "≤",
        "0.15",
        "yes",
    ]
    assert fits.split()[3:] == ["–", "16", "31", "ensemble", "1.94", "–", "–"]
    assert "99.6 %" in right
    for written in (write_report_page(FORMS), format_markdown(FORMS)):
        assert "SERVE_REWRITE=executor" in written
        assert "rival" not in written


def test_what_was_loaded_is_drawn_over_time() -> None:
    """A line for each form."""
    ((title, svg),) = figures.draw_curves(FORMS.lines)
    assert title == "loaded at once"
    assert "compiled" in svg
    assert "ensemble" in svg
