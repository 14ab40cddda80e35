"""A file of somebody else as text, within bounds."""

from __future__ import annotations

from pathlib import Path

from merlin_simulator.plans.errors import UnusableFile


def read_text(path: Path, expected: str, most_bytes: int) -> str:
    """In UTF-8, with or without a mark in front. Raises UnusableFile."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in its name
        raise UnusableFile(path, f"found no readable file ({reason_of(error)}), {expected}") from (
            error
        )
    if len(data) > most_bytes:
        raise UnusableFile(path, f"found more than {most_bytes / 1e6:g} MB, {expected}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableFile(path, f"found no text in UTF-8, {expected}") from error


def reason_of(error: Exception) -> str:
    """Why a file cannot be read; OSError's own text begins with a number."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
