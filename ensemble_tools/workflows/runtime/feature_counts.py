"""The counts of a compiled workflow's columns, as its processes keep them in files.

    <serving repository>/<Triton model>/1/feature_counts/0.counts
    <serving repository>/<joined model>/steps/<step>/1/feature_counts/0.counts

`publish` makes the directory if counting is on, and a model that finds none beside its tables
counts nothing. `find_counts` (ensemble_tools/serving/publish.py) lists the directories of a plan.
Each instance of a model holds one file by flock and maps it; the next process takes over the file
of one that has ended and counts on, so that sums never become smaller. The files go with the model.

    magic (8 bytes), length of the header, version of the counters, rows seen
    the header: JSON, filled up with spaces to a multiple of 8
    for each column a row of 8-byte numbers: COUNTS, SUMS, then the places

A writer makes the version odd while it changes the counters.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

#: Beside a program's tables.
DIRECTORY = "feature_counts"
SUFFIX = ".counts"
#: Buckets of a vocabulary: its places, most frequent first, in as many equal parts.
PLACES = 32
#: The order of a column's numbers in a file: whole ones, then floats.
COUNTS = ("counted", "values", "nulls", "unseen", "outside", "finite")
SUMS = ("sum", "sum_of_squares")
ROW = len(COUNTS) + len(SUMS) + PLACES

#: magic, header length, version, rows seen.
HEAD = struct.Struct("<8sQQQ")
MAGIC = b"fcounts1"
#: Columns of one workflow that are counted: the first ones.
MOST_COLUMNS = 2000
#: Files of one directory that are read, and bytes of one file.
_MOST_FILES, _MOST_BYTES = 256, 4 * 2**20
#: How often a file is read whose counters change meanwhile.
_TRIES = 3


@dataclass(frozen=True)
class FittedColumn:
    """What the workflow was fitted to; None and empty where it knows nothing of the kind."""

    mean: float | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    #: Rows of the fitted data in each bucket of the vocabulary.
    places: tuple[int, ...] = ()


@dataclass(frozen=True)
class ColumnCounts:
    """The values of one column since the model was loaded.

    All but rows_seen and counted stand for all values that came: where a request has so many that
    a sample of them is counted, each counts for as many as it was drawn from. They are exact where
    values == counted.
    """

    column: str
    #: Rows of all requests that the program answered.
    rows_seen: int = 0
    #: Values that were looked at.
    counted: int = 0
    values: int = 0
    nulls: int = 0
    #: Values that are not null and not in the column's vocabulary.
    unseen: int = 0
    #: Values below or above the fitted range.
    outside: int = 0
    #: Values that are in the sums: of a column that is normalized, those that are finite.
    finite: int = 0
    sum: float = 0.0
    sum_of_squares: float = 0.0
    #: Values of each bucket of the vocabulary; empty for a column without one.
    places: tuple[int, ...] = ()
    fitted: FittedColumn = field(default_factory=FittedColumn)


def read_counts(directory: Path) -> list[ColumnCounts]:
    """The sums over a directory's files; a file that is not whole, or that goes, counts nothing.

    Never blocks, and reads a bounded number of bytes.
    """
    sums: dict[str, ColumnCounts] = {}
    for path in _list_files(directory):
        for column in _read_file(path):
            before = sums.get(column.column)
            sums[column.column] = column if before is None else _add(before, column)
    return list(sums.values())


def _list_files(directory: Path) -> list[Path]:
    names: list[str] = []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                names.append(entry.name)
            if len(names) == _MOST_FILES:
                break
    return [directory / name for name in sorted(names)]


def _read_file(path: Path) -> list[ColumnCounts]:
    for _ in range(_TRIES):
        data = _read_bytes(path)
        if len(data) < HEAD.size:
            return []
        magic, length, version, rows = HEAD.unpack_from(data)
        if magic != MAGIC or (len(data) - HEAD.size - length) % (8 * ROW):
            return []
        again = _read_bytes(path, HEAD.size)
        if not version % 2 and again[: HEAD.size] == data[: HEAD.size]:
            break  # otherwise the last one is taken, whose columns may be a request apart
    try:
        columns = json.loads(data[HEAD.size : HEAD.size + length])
        rows_of = _rows(data[HEAD.size + length :])
        return [
            _column(written, rows, whole, floats)
            for written, (whole, floats) in zip(columns, rows_of, strict=True)
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _read_bytes(path: Path, most: int = _MOST_BYTES) -> bytes:
    """Nothing of what is no file, or is larger than any."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb", 0) as file, suppress(OSError):
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES:
            return file.read(most) or b""
    return b""


def _rows(data: bytes) -> Iterator[tuple[Any, Any]]:
    """Each column's numbers, as whole ones and as floats."""
    if sys.byteorder != "little":
        raise ValueError("files are written by machines that begin with the last byte")
    view = memoryview(data)
    for start in range(0, len(data), 8 * ROW):
        row = view[start : start + 8 * ROW]
        yield row.cast("q"), row.cast("d")


def _column(written: dict[str, Any], rows: int, whole: Any, floats: Any) -> ColumnCounts:
    places = tuple(whole[-PLACES:]) if written["has_places"] else ()
    fitted = {name: written[name] for name in ("mean", "std", "low", "high")}
    counts = dict(zip(COUNTS, whole, strict=False))
    sums = dict(zip(SUMS, floats[len(COUNTS) :], strict=False))
    return ColumnCounts(
        str(written["column"]),
        rows,
        **counts,
        **sums,
        places=places,
        fitted=FittedColumn(**fitted, places=tuple(written["places"])),
    )


def _add(first: ColumnCounts, other: ColumnCounts) -> ColumnCounts:
    """The sums of two files of one program."""
    numbers = {
        it.name: getattr(first, it.name) + getattr(other, it.name)
        for it in fields(first)
        if it.name not in ("column", "places", "fitted")
    }
    places = tuple(map(sum, zip(first.places, other.places, strict=False)))
    return ColumnCounts(first.column, **numbers, places=places, fitted=first.fitted)
