"""What keeps a plan from being made, as one sentence for the person who asked for it.

PlanError
├── UnusableFile       a file that a plan is made of: where, found, expected, remedy
└── Impossible         what is asked for cannot be
"""

from __future__ import annotations

from pathlib import Path


class PlanError(Exception):
    """The plan cannot be made."""


class UnusableFile(PlanError):
    """A file is not what a plan needs. line and column from 1 on, where known."""

    def __init__(
        self, path: Path | str, what: str, line: int | None = None, column: int | None = None
    ) -> None:
        place = "".join(f":{number}" for number in (line, column) if number is not None)
        super().__init__(f"{path}{place}: {what}")


class Impossible(PlanError):
    """What is asked for cannot be, whatever the endpoint does."""
