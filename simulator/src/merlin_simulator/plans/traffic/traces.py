"""Requests that are known: a CSV file of time and target model."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from merlin_simulator.plans.bounds import MOST_MODELS, MOST_SECONDS
from merlin_simulator.plans.csv_files import Row, read_rows
from merlin_simulator.plans.errors import UnusableFile, shown

COLUMNS = ("time", "target_model")


@dataclass(frozen=True)
class Trace:
    """times: seconds since the first request, ascending; asked: places in names."""

    times: Sequence[float]
    asked: Sequence[int]
    names: Sequence[str]
    lines: Sequence[int]


def read_trace(path: Path) -> Trace:
    """Raises UnusableFile. Times: seconds, or ISO 8601 (2026-11-25T09:30:00Z), in order.

    lines has where each name stands first.
    """
    times, asked = array("d"), array("l")
    lines: list[int] = []
    numbers: dict[str, int] = {}
    for row in read_rows(path, COLUMNS):
        at, name = read_time(path, row), row.values[1]
        if times and at < times[-1]:
            raise UnusableFile(
                path,
                f"found time {row.values[0][:40]}, which is before that of the line above, "
                "expected requests in the order of time; sort the file",
                row.line,
                row.columns[0],
            )
        if not name:
            raise UnusableFile(path, "found no target model", row.line, row.columns[1])
        if name not in numbers:
            if len(numbers) == MOST_MODELS:
                what = f"found more than {MOST_MODELS:,} target models, expected fewer"
                raise UnusableFile(path, what, row.line, row.columns[1])
            numbers[name] = len(numbers)
            lines.append(row.line)
        times.append(at)
        asked.append(numbers[name])
    if not times:
        raise UnusableFile(path, "found no requests, expected a line for each", 2)
    start = times[0]
    if not times[-1] - start <= MOST_SECONDS:
        raise UnusableFile(path, "found requests of more than 30 years, expected fewer")
    return Trace([at - start for at in times], asked.tolist(), list(numbers), lines)


def read_time(path: Path, row: Row) -> float:
    """Seconds, of the first column. Raises UnusableFile."""
    text = row.values[0]
    try:
        at = float(text)
    except ValueError:
        at = _read_date(text)
    if not math.isfinite(at):
        raise UnusableFile(
            path,
            f"found {shown(text)}, expected seconds or a time as 2026-11-25T09:30:00Z",
            row.line,
            row.columns[0],
        )
    return at


def _read_date(text: str) -> float:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return math.nan
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
