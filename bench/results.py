"""bench/results.json: what was measured last, row by row, and where. The pages quote it alone.

One row of a suite is one entry, with the machine, the versions and the date of its own run, so that
some rows can be measured again without the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import Facts
from bench.measure import Goal, Line, Outcome

PATH = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Measured:
    """When, with how many rounds of how many seconds of load, and where. date: YYYY-MM-DD."""

    date: str
    rounds: int
    round_seconds: float
    facts: Facts


@dataclass(frozen=True)
class RecordedRow:
    """The lines of one row, as one run measured them."""

    measured: Measured
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Results:
    """All rows, by suite and name."""

    suites: Mapping[str, Mapping[str, RecordedRow]]

    def line(self, suite: str, row: str, what: str) -> Line:
        """Raises KeyError where it was not measured."""
        for line in self.suites[suite][row].lines:
            if line.what == what:
                return line
        raise KeyError(f"{suite}, {row}: {what}")

    def with_rows(
        self, suite: str, measured: Measured, outcomes: Iterable[Outcome], order: Iterable[str]
    ) -> Results:
        """These rows in the place of those that were there; order: the names of the suite's."""
        found = dict(self.suites.get(suite, {}))
        found |= {outcome.name: RecordedRow(measured, outcome.lines) for outcome in outcomes}
        ordered = {name: found[name] for name in order if name in found}
        return Results({**self.suites, suite: ordered})


def read_results(path: Path = PATH) -> Results:
    """What the file holds."""
    suites = json.loads(path.read_text("utf-8"))
    return Results(
        {
            suite: {name: _read_row(name, row) for name, row in rows.items()}
            for suite, rows in suites.items()
        }
    )


def format_results(results: Results) -> str:
    """The file's text: a line of the table is a line of it, so that a change shows as one."""
    suites = []
    for suite, rows in results.suites.items():
        texts = []
        for name, row in rows.items():
            lines = ",\n   ".join(_dump(_line_to_json(line)) for line in row.lines)
            head = f' {_dump(name)}: {{\n  "measured": {_dump(_measured_to_json(row.measured))},\n'
            texts.append(f'{head}  "lines": [\n   {lines}\n  ]}}')
        suites.append(f"{_dump(suite)}: {{\n" + ",\n".join(texts) + "\n}")
    return "{\n" + ",\n".join(suites) + "\n}\n"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _measured_to_json(measured: Measured) -> dict[str, Any]:
    return {
        "date": measured.date,
        "rounds": measured.rounds,
        "round_seconds": measured.round_seconds,
        "facts": measured.facts,
    }


def _line_to_json(line: Line) -> dict[str, Any]:
    """A value has six digits."""
    goal = line.goal
    return {
        "what": line.what,
        "unit": line.unit,
        "values": {
            name: [float(f"{value:.6g}") for value in values]
            for name, values in line.values.items()
        },
        "subject": line.subject,
        "against": line.against,
        "goal": goal and {"of": goal.of, "direction": goal.direction, "bound": goal.bound},
        "note": line.note,
    }


def _read_row(name: str, row: Mapping[str, Any]) -> RecordedRow:
    return RecordedRow(
        Measured(**row["measured"]),
        tuple(
            Line(name, **{**line, "goal": line["goal"] and Goal(**line["goal"])})
            for line in row["lines"]
        ),
    )
