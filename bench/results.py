"""bench/results.json: what was measured last, row by row, and where. The pages quote it alone.

Each row has the machine, the versions and the date of its own run, so that some rows can be
measured again without the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.machine import Facts
from bench.measure import Goal, Line

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
    """The lines of a row, as one run measured them."""

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
        self,
        suite: str,
        measured: Measured,
        lines: Mapping[str, Sequence[Line]],
        order: Iterable[str],
    ) -> Results:
        """Rows that were measured take the place of earlier ones; order: the suite's rows."""
        rows = dict(self.suites.get(suite, {}))
        rows |= {name: RecordedRow(measured, tuple(of_row)) for name, of_row in lines.items()}
        ordered = {name: rows[name] for name in order if name in rows}
        return Results({**self.suites, suite: ordered})


def read_results(path: Path = PATH) -> Results:
    """What the file holds."""
    return Results(
        {
            suite: {name: _read_row(row) for name, row in rows.items()}
            for suite, rows in json.loads(path.read_text("utf-8")).items()
        }
    )


def format_results(results: Results) -> str:
    """The file's text: a line of the table is a line of it, so that a change shows as one."""
    suites = []
    for suite, rows in results.suites.items():
        texts = []
        for name, row in rows.items():
            lines = ",\n   ".join(map(_format_line, row.lines))
            head = f' {_dump(name)}: {{\n  "measured": {_dump(asdict(row.measured))},\n'
            texts.append(f'{head}  "lines": [\n   {lines}\n  ]}}')
        suites.append(f"{_dump(suite)}: {{\n" + ",\n".join(texts) + "\n}")
    return "{\n" + ",\n".join(suites) + "\n}\n"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format_line(line: Line) -> str:
    """A value has six digits."""
    values = {name: [float(f"{it:.6g}") for it in rounds] for name, rounds in line.values.items()}
    ordered = ("what", "unit", "values", "subject", "against", "goal", "note")
    fields = {**asdict(line), "values": values}
    return _dump({name: fields[name] for name in ordered})


def _read_row(row: Mapping[str, Any]) -> RecordedRow:
    lines = ({**line, "goal": line["goal"] and Goal(**line["goal"])} for line in row["lines"])
    return RecordedRow(Measured(**row["measured"]), tuple(Line(**line) for line in lines))
