"""Several archives in one call: each by itself, and a table of them at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_tools.errors import printable, sentence_of

_HEAD = ("ARCHIVE", "RESULT", "WHY")
#: Of a reason in the table, the remedy at its end included; the whole stands above it.
_LONGEST_WHY = 400


@dataclass(frozen=True)
class Row:
    """The result of one archive."""

    archive: str
    #: As in exit_codes.py.
    code: int
    #: A few words.
    result: str
    why: str = ""
    #: What the archive's owner should read though it went well.
    notes: tuple[str, ...] = ()
    #: The whole result as JSON has it, for programs; None where it failed.
    document: Any = None


def take_each(
    paths: Sequence[Path],
    take: Callable[[Path], Row],
    failures: tuple[type[Exception], ...],
    code: int,
) -> tuple[Row, ...]:
    """The results of `take` for each, in order; progress and failures go to stderr.

    One that fails, with this exit code, does not stop the others.
    """
    rows = []
    for number, path in enumerate(paths, 1):
        print(printable(f"[{number} of {len(paths)}] {path}"), file=sys.stderr, flush=True)
        try:
            rows.append(take(path))
        except BrokenPipeError:  # nobody reads on
            raise
        except failures as error:
            sentence = sentence_of(error)
            print(printable(f"error: {sentence}"), file=sys.stderr, flush=True)
            rows.append(Row(str(path), code, "failed", sentence))
        sys.stdout.flush()
    return tuple(rows)


def find_worst_code(rows: Sequence[Row]) -> int:
    """The exit code of all of them."""
    return max(row.code for row in rows)


def summarize_in_lines(rows: Sequence[Row]) -> Iterator[str]:
    """How many of them went well, and a line for each."""
    well = [row for row in rows if row.code == 0]
    noted = sum(bool(row.notes) for row in well)
    with_notes = f" ({noted} with notes)" if noted else ""
    yield f"{len(rows)} archives: {len(well)} well{with_notes}, {len(rows) - len(well)} not"
    cells = [_HEAD, *((row.archive, row.result, _shorten(_find_reason(row))) for row in rows)]
    widths = [max(len(cell[column]) for cell in cells) for column in (0, 1)]
    for archive, result, why in cells:
        yield printable(f"{archive:<{widths[0]}}  {result:<{widths[1]}}  {why}".rstrip())


def summarize_in_document(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """The summary of all archives, for programs."""
    return {
        "format": name,
        "version": 1,
        "code": find_worst_code(rows),
        "archives": [vars(row) for row in rows],
    }


def _find_reason(row: Row) -> str:
    """Notes first: of a long line the end is cut off."""
    return "; ".join(filter(None, (*(f"note: {note}" for note in row.notes), row.why)))


def _shorten(why: str) -> str:
    line = " ".join(why.split())
    return line if len(line) <= _LONGEST_WHY else f"{line[:_LONGEST_WHY]}…"
