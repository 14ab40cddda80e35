"""A run's report: text, JSON and one page with pictures; and its rows for docs/reliability.md."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bench  # noqa: F401  the path to merlin_simulator
from merlin_simulator.measuring.machine import count_cores, read_memory_bytes
from merlin_simulator.measuring.page import render

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """Cells are words already; numbers stand right where their head begins with #."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """In columns."""
        everything = (self.head, *self.rows)
        widths = [max(len(row[at]) for row in everything) for at in range(len(self.head))]
        rows = (
            "  ".join(
                cell.rjust(width) if at else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in everything
        )
        return "\n".join((self.title, *rows))

    def markdown(self) -> str:
        """As docs hold it."""
        rows = (self.head, ("---",) * len(self.head), *self.rows)
        return "\n".join("| " + " | ".join(map(_escaped, row)) + " |" for row in rows)


@dataclass(frozen=True)
class Picture:
    """Lines over time."""

    title: str
    y_label: str
    x_label: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]

    def svg(self) -> str:
        # Only here: matplotlib takes a second to import.
        from merlin_simulator.measuring.plots import Frame, Series, draw_lines

        drawn = [
            Series(label, x, y, colour=1 + number % 5, dashes=number % 5)
            for number, (label, (x, y)) in enumerate(self.series.items())
        ]
        return draw_lines(Frame(self.title, self.x_label, self.y_label), drawn)


@dataclass(frozen=True)
class Report:
    """name: of the program. failures: what did not hold; none: it passed. facts: for the JSON."""

    name: str
    summary: str
    failures: tuple[str, ...]
    tables: tuple[Table, ...]
    facts: Mapping[str, object]
    pictures: tuple[Picture, ...] = field(default=())

    def text(self) -> str:
        """What a terminal shows."""
        verdict = "passed" if not self.failures else f"FAILED: {len(self.failures)}"
        parts = [f"{self.name}: {verdict}", self.summary, *(f"  - {one}" for one in self.failures)]
        return "\n".join([*parts, *("\n" + table.text() for table in self.tables)])

    def markdown(self) -> str:
        """Its tables for the documents."""
        return "\n\n".join(f"**{table.title}**\n\n{table.markdown()}" for table in self.tables)

    def write(self, directory: Path) -> None:
        """NAME.txt, .json, .md and .html."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / self.name
        facts = {
            "summary": self.summary,
            "failures": self.failures,
            "machine": machine(),
            **self.facts,
        }
        path.with_suffix(".txt").write_text(self.text() + "\n")
        path.with_suffix(".json").write_text(json.dumps(facts, indent=1, default=str))
        path.with_suffix(".md").write_text(self.markdown() + "\n")
        path.with_suffix(".html").write_text(self.page())

    def page(self) -> str:
        """One file that opens from a disk."""
        return render("report.html", _FOLDER, report=self)


def machine() -> dict[str, object]:
    """Where it was measured."""
    return {
        "cores": count_cores(),
        "memory_gb": round(read_memory_bytes() / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
