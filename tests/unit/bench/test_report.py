"""The report of a made-up run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import quantities
from bench.machine import Facts
from bench.measure import Line, Outcome, Unit, ratio_at_least, ratio_at_most, value_at_most
from bench.report import WORKFLOWS, Report, format_markdown, format_table

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
LOADS = Line("loads", "load of the 3rd", "s", {"ours": [0.1], "first 5": [0.1]}, against="first 5")

REPORT = Report(
    FACTS,
    1_700_000_000.0,
    61.0,
    True,
    3,
    0.7,
    (
        Outcome("small", "Small", "By <hand>.", 4.0, (LATENCY,), "into <pockets>."),
        Outcome("others", "Others", "Somehow.", 4.0, (RATE, BEYOND, LOADS)),
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
    for write in (format_table, format_markdown):
        assert "load average 1.2" in write(busy)
        assert "busy" not in write(REPORT)


def test_people_are_told_where_it_was_measured() -> None:
    """Machine, versions, commit, whether it was dirty, date, rounds, how, and the spread."""
    text = format_markdown(REPORT)
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
        "rival 190 µs … 210 µs",
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
    assert quantities.format_quantity(value, unit) == read


def test_where_it_goes_is_said() -> None:
    """A row's profile stands behind how it was measured."""
    assert "Where it goes, as profiled on two cores: into <pockets>." in format_markdown(REPORT)


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
    written = format_markdown(FORMS)
    assert "SERVE_REWRITE=executor" in written
    assert "rival" not in written


@pytest.mark.parametrize(("value", "words"), [(0.05, "0.050"), (1.5, "1.50"), (None, "–")])
def test_a_ratio_has_three_digits_where_it_is_small(value: float | None, words: str) -> None:
    """A dash where there is none."""
    assert quantities.format_ratio(value) == words


def test_memory_of_a_machine_is_in_gibibytes() -> None:
    """One digit after the point, zero or not."""
    assert quantities.format_gibibytes(2**33) == "8.0 GiB"
