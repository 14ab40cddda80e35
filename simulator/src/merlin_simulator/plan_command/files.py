"""Files that a plan reads within bounds and writes whole, and what is wrong in them."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

#: Of PLAN.toml, and of JSON and /metrics of others; the longest seen are far below.
MOST_PLAN_BYTES, MOST_FILE_BYTES = 100_000, 8_000_000
#: Of one line of a CSV file, and of all lines: a trace of 10 million takes 1 GB.
MOST_LINE_CHARACTERS, MOST_LINES = 100_000, 10_000_000
#: Each is kept with its day: up to 60 KB.
MOST_CANDIDATES = 10_000
#: Of requests that are gone through one by one: up to 0.1 ms for each that misses, three hours.
MOST_WITHOUT_CACHE = 100_000_000
#: A series by the second, of twelve days.
MOST_PERIODS = 1_000_000
#: Of a path in a sentence.
_MOST_PATH = 200


class PlanError(Exception):
    """The plan cannot be made."""


class UnusableFile(PlanError):
    """A file is not what a plan needs. line and column from 1 on, where known."""

    def __init__(
        self, path: Path | str, subject: str, line: int | None = None, column: int | None = None
    ) -> None:
        position = "".join(f":{number}" for number in (line, column) if number is not None)
        shortened = str(path)
        if len(shortened) > _MOST_PATH:
            shortened = f"{shortened[: _MOST_PATH // 2]}…{shortened[-_MOST_PATH // 2 :]}"
        super().__init__(f"{shortened}{position}: {subject}")


class Impossible(PlanError):
    """The settings contradict each other or cannot be met by any endpoint."""


def printable(text: str) -> str:
    """What stands in others' files, as a terminal may be given it: what would move its cursor is
    there as an escape. Ends of lines stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


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
            subject = (
                f"found a line of more than {MOST_LINE_CHARACTERS:,} characters, expected a CSV"
            )
            raise UnusableFile(path, f"{subject} file", number)
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
        indices = [head.index(name) for name in names]
        for cells in reader:
            if not cells:
                continue
            if len(cells) <= max(indices):
                raise UnusableFile(
                    path,
                    f"found {len(cells)} columns, expected {len(head)}",
                    reader.line_num,
                    len(",".join(cells)) + 1,
                )
            starts = [1 + sum(len(cell) + 1 for cell in cells[:position]) for position in indices]
            yield Row(reader.line_num, [cells[position].strip() for position in indices], starts)
    except csv.Error as error:
        raise UnusableFile(path, f"found no CSV ({error})", reader.line_num) from error


def read_json(path: Path, expected: str) -> Any:
    """The document in a JSON file. Raises UnusableFile."""
    text = read_text(path, expected, MOST_FILE_BYTES)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        subject = f"found no JSON ({error.msg}), {expected}"
        raise UnusableFile(path, subject, error.lineno, error.colno) from error
    except _NoNumber as error:
        raise UnusableFile(path, f"found {error}, which is no JSON, {expected}") from error
    except RecursionError as error:
        subject = f"found values inside of values, too deep to be read, {expected}"
        raise UnusableFile(path, subject) from error
    except ValueError as error:  # int() of thousands of digits
        raise UnusableFile(path, f"found a number of thousands of digits, {expected}") from error


class _NoNumber(ValueError):
    """NaN, Infinity or -Infinity, which Python reads."""


def _refuse_constant(word: str) -> NoReturn:
    raise _NoNumber(word)


def check_output_path(path: Path) -> None:
    """Before the plan, which takes a while: there is a folder for the file."""
    with _writing(path):
        folder = path.resolve().parent
        if path.is_dir() or not folder.is_dir():
            raise _unwritable(
                path, "it is a folder" if path.is_dir() else "there is no such folder"
            )


def make_folder(folder: Path) -> None:
    """Before the plan, which takes a while."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnusableFile(
            folder,
            f"no files can be written there ({error.strerror}), expected a folder; name another "
            "with --report",
        ) from error


def write_json(path: Path, answer: Mapping[str, Any]) -> None:
    """As write_text."""
    write_text(path, json.dumps(answer, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file whole: an older one stays until the text is written, or if that fails."""
    with _writing(path):
        whole = path.resolve()
        if whole.exists() and not (whole.is_file() and os.access(whole.parent, os.W_OK)):
            path.write_text(text, "utf-8")  # a pipe, a device, or a folder that takes no new files
            return
        beside = whole.with_name(f".{whole.name[:200]}.new")
        try:
            beside.write_text(text, "utf-8")
            if whole.exists():
                shutil.copymode(whole, beside)
            beside.replace(whole)
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise _unwritable(path, reason_of(error)) from error


def _unwritable(path: Path, why: str) -> UnusableFile:
    return UnusableFile(path, f"cannot be written ({why}); name another place")
