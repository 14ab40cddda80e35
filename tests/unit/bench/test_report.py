"""The report of a made-up run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import tables
from bench.machine import Facts
from bench.measure import Line, Unit, ratio_at_least, ratio_at_most, value_at_most
from bench.report import Report
from bench.results import Measured
from bench.rows import SUITES

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
    "small JSON, p50",
    "s",
    {"rival": [2e-4, 2.1e-4, 1.9e-4], "limit": [1e-4], "ours": [3e-4, 3.1e-4, 2.9e-4]},
    ratio_at_most(1.6),
    note="70 bytes",
)
RATE = Line(
    "throughput",
    "requests/s",
    {"rival": [10_000.0], "ours": [7_000.0]},
    ratio_at_least(0.8),
)
BEYOND = Line("start", "s", {"ours": [-0.01]}, value_at_most(0.7), against=None)
LOADS = Line("load of the 3rd", "s", {"ours": [0.1], "first 5": [0.1]}, against="first 5")

REPORT = Report(
    SUITES["frontend"],
    Measured("2023-11-14", 3, 0.7, FACTS),
    {"small_json_p50": [LATENCY], "unload": [RATE, BEYOND, LOADS]},
    {"json_190kb": "found 500, expected 200"},
)


def read_table(printed: str) -> dict[str, list[str]]:
    """The cells of each line, by the first."""
    rows = [line.split("|")[1:-1] for line in printed.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in cells] for first, *cells in rows}


def test_table_has_every_line() -> None:
    """Both absolute values, the ratio, the goal and whether it is reached; then what failed."""
    printed = REPORT.format_for_terminal()
    table = read_table(printed)
    assert table["small JSON, p50"] == [
        *("200 µs", "100 µs", "300 µs", "rival", "1.50", "≤ 1.6", "yes"),
    ]
    assert table["throughput"] == ["10,000/s", "–", "7,000/s", "rival", "0.70", "≥ 0.8", "no"]
    assert table["load of the 3rd"][3] == "first 5: 100 ms"
    assert "failed: json_190kb: found 500, expected 200" in printed.splitlines()
    verdict = "2 of 3 goals reached; could not be measured: json_190kb"
    assert printed.splitlines()[-1] == verdict


def test_columns_stand_below_each_other() -> None:
    """On a terminal, too."""
    lines = [it for it in REPORT.format_for_terminal().splitlines() if it.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert read_table(REPORT.format_page()) == read_table(REPORT.format_for_terminal())


def test_busy_machine_is_told_of() -> None:
    """Figures that something else on the machine may have spoilt are marked."""
    busy = replace(REPORT, measured=replace(REPORT.measured, facts={**FACTS, "load_before": 1.2}))
    for write in (Report.format_for_terminal, Report.format_page):
        assert "load average 1.2" in write(busy)
        assert "busy" not in write(REPORT)


def test_people_are_told_where_it_was_measured() -> None:
    """Machine, versions, commit, whether it was dirty, date, rounds, how, and the spread."""
    text = REPORT.format_page()
    for fact in (
        "2 cores",
        "8.0 GiB",
        "2.51.0",
        "3.11.7",
        "4.1.0",
        "2023-11-14",
        "0123456789ab, with changes that are not committed",
        "3 × 0.7 s",
        "wrk, one thread and one connection",
        "- small JSON, p50 (70 bytes). Lowest to highest round: rival 190 µs … 210 µs; limit 100",
    ):
        assert fact in text
    assert "found 500, expected 200" in text


@pytest.mark.parametrize(
    ("value", "unit", "read"),
    [
        (0.000205, "s", "205 µs"),
        (0.0032, "s", "3.20 ms"),
        (0.0264, "s", "26.4 ms"),
        (0.412, "s", "412 ms"),
        (-0.01, "s", "-10.0 ms"),
        (1.344, "s", "1.34 s"),
        (17_912.3, "requests/s", "17,912/s"),
        (83.24, "MB", "83.2 MB"),
        (240.4, "MB", "240 MB"),
        (None, "s", "–"),
    ],
)
def test_quantities_are_readable(value: float | None, unit: Unit, read: str) -> None:
    """Three digits that matter."""
    assert tables.format_quantity(value, unit) == read


FORMS = Report(
    SUITES["workflows"],
    REPORT.measured,
    {
        "workflow_dense": [
            Line(
                "transform, p50",
                "s",
                {"executor": [0.012], "compiled": [0.0006]},
                ratio_at_most(0.15),
                "compiled",
                "executor",
            ),
            Line(
                "loaded at once",
                "models",
                {"ensemble": [16.0], "compiled": [31.0]},
                None,
                "compiled",
                "ensemble",
            ),
            Line("right", "share", {"compiled": [0.996]}, None, "compiled", None),
        ]
    },
    {},
)


def test_columns_are_those_of_the_suite() -> None:
    """Each with the form's values; how to read it is the suite's too."""
    table = read_table(FORMS.format_for_terminal())
    assert table["measured"][:3] == ["executor", "ensemble", "compiled"]
    assert table["transform, p50"] == [
        *("12.0 ms", "–", "600 µs", "executor", "0.050", "≤ 0.15", "yes"),
    ]
    assert table["loaded at once"] == ["–", "16", "31", "ensemble", "1.94", "–", "–"]
    assert table["right"][2] == "99.6 %"
    page = FORMS.format_page()
    assert "SERVE_REWRITE=executor" in page
    assert "rival" not in page


@pytest.mark.parametrize(("value", "words"), [(0.05, "0.050"), (1.5, "1.50"), (None, "–")])
def test_a_ratio_has_three_digits_where_it_is_small(value: float | None, words: str) -> None:
    """A dash where there is none."""
    assert tables.format_ratio(value) == words
