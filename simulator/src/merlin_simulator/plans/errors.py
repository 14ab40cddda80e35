"""What keeps a plan from being made, as one sentence for the person who asked for it.

PlanError
├── UnusableFile       a file that a plan is made of: where, found, expected, remedy
└── Impossible         what is asked for cannot be
"""

from __future__ import annotations

from pathlib import Path

#: Of a value, or of a path, in a sentence.
_MOST_SHOWN = 80
_MOST_PATH = 200


class PlanError(Exception):
    """The plan cannot be made."""


class UnusableFile(PlanError):
    """A file is not what a plan needs. line and column from 1 on, where known."""

    def __init__(
        self, path: Path | str, what: str, line: int | None = None, column: int | None = None
    ) -> None:
        place = "".join(f":{number}" for number in (line, column) if number is not None)
        shortened = str(path)
        if len(shortened) > _MOST_PATH:
            shortened = f"{shortened[: _MOST_PATH // 2]}…{shortened[-_MOST_PATH // 2 :]}"
        super().__init__(f"{shortened}{place}: {what}")


class Impossible(PlanError):
    """What is asked for cannot be, whatever the endpoint does."""


def shown(value: object) -> str:
    """A value in a sentence: escaped, and no longer than a line has room for."""
    if isinstance(value, str | bytes):
        words = repr(value[: _MOST_SHOWN + 1])
    elif isinstance(value, list | dict):
        words = f"a list of {len(value)}" if isinstance(value, list) else "a table"
    else:
        try:
            words = repr(value)
        except ValueError:  # Python writes no whole number of more than 4300 digits
            return "a number of thousands of digits"
    return words if len(words) <= _MOST_SHOWN else f"{words[: _MOST_SHOWN - 1]}…"


def printable(text: str) -> str:
    """What stands in others' files, as a terminal may be given it: what would move its cursor is
    there as an escape. Ends of lines stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
