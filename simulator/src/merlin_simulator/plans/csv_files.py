"""Tables as CSV, with the place of each value for who has to say what is wrong with it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from merlin_simulator.plans.bounds import MOST_LINE_CHARACTERS, MOST_LINES
from merlin_simulator.plans.errors import UnusableFile
from merlin_simulator.plans.text_files import reason_of


@dataclass(frozen=True)
class Row:
    """Values in the order in which they were asked for. line and columns from 1 on."""

    line: int
    values: Sequence[str]
    columns: Sequence[int]


def read_rows(path: Path, names: Sequence[str]) -> Iterator[Row]:
    """The columns of these names, which the first line has, in any order and case.

    Raises UnusableFile at the first thing that is wrong.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _rows(path, names, _lines(path, file))
    except OSError as error:
        raise UnusableFile(path, f"found no readable file ({reason_of(error)})") from error
    except UnicodeDecodeError as error:
        raise UnusableFile(path, "found no text in UTF-8, expected a CSV file") from error
    except ValueError as error:  # a zero byte in its name
        raise UnusableFile(path, f"found no readable file ({error})") from error


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """No line, and no file, that would take all the memory."""
    number = 0
    while line := file.readline(MOST_LINE_CHARACTERS + 1):
        number += 1
        if len(line) > MOST_LINE_CHARACTERS:
            what = f"found a line of more than {MOST_LINE_CHARACTERS:,} characters, expected a CSV"
            raise UnusableFile(path, f"{what} file", number)
        if number > MOST_LINES + 1:
            raise UnusableFile(
                path, f"found more than {MOST_LINES:,} lines, expected fewer", number
            )
        yield line


def _rows(path: Path, names: Sequence[str], file: Iterable[str]) -> Iterator[Row]:
    reader = csv.reader(file, strict=True)
    try:
        head = [name.strip().lower() for name in next(reader, [])]
        missing = [name for name in names if name not in head]
        if missing:
            raise UnusableFile(
                path,
                f"found the columns {', '.join(head)[:200] or '(none)'}, expected "
                f"{', '.join(names)}",
                1,
            )
        places = [head.index(name) for name in names]
        for cells in reader:
            if not cells:
                continue
            if len(cells) <= max(places):
                raise UnusableFile(
                    path,
                    f"found {len(cells)} columns, expected {len(head)}",
                    reader.line_num,
                    len(",".join(cells)) + 1,
                )
            starts = [1 + sum(len(cell) + 1 for cell in cells[:place]) for place in places]
            yield Row(reader.line_num, [cells[place].strip() for place in places], starts)
    except csv.Error as error:
        raise UnusableFile(path, f"found no CSV ({error})", reader.line_num) from error
