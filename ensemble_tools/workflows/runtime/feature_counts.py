"""The counts of a compiled workflow's columns, as its processes keep them in files.

    <serving repository>/<Triton model>/1/feature_counts/0.counts
    <serving repository>/<joined model>/1/steps/<step>/1/feature_counts/0.counts

publish(..., counts=True) makes the directory, and find_counts (both serving/publish.py) knows where
each is. A model that finds none counts nothing. Each instance of a model holds one file by flock
and maps it. The next process takes over the file of one that has ended and counts on, so that sums
never become smaller. The files go with the model.

    magic, length of the header, version of the counters, rows seen: 8 bytes each
    the header, JSON: a list of columns
    64-bit integers: for each column COUNTS, then its places
    64-bit floats: for each column SUMS

A writer makes the version odd while it changes the counters.
"""

from __future__ import annotations

import json
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import Any

#: A vocabulary's places in the order of its labels, which is by frequency, in equal parts.
PLACES = 32
COUNTS = ("counted", "values", "nulls", "unseen", "outside", "finite")
SUMS = ("sum", "sum_of_squares")

HEAD = struct.Struct("=8sQQQ")
MAGIC = b"fcounts1"
#: Columns of one workflow that are counted: the first ones.
MOST_COLUMNS = 2000
#: Files of one directory; bytes of one file.
_MOST_FILES = 256
MOST_BYTES = 2 * 2**20
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

    A large request is counted with the chance 1/n, and each of its values then counts n times: all
    numbers but `rows_seen` and `counted` stand for all that came. They are exact where `counted`
    equals `values`.
    """

    #: Its name; a second table that looks it up counts as `<name> (<operator>)`.
    column: str
    #: Rows of all requests that the program answered.
    rows_seen: int = 0
    #: Values that were looked at.
    counted: int = 0
    #: Those of lists are their items.
    values: int = 0
    nulls: int = 0
    #: Values that are neither null nor in the vocabulary.
    unseen: int = 0
    #: Values beyond the range that NormalizeMinMax was fitted to.
    outside: int = 0
    #: What Normalize was given, as far as it is finite: how many, and their sums.
    finite: int = 0
    sum: float = 0.0
    sum_of_squares: float = 0.0
    #: Values of the vocabulary by bucket; empty for a column that Categorify does not encode.
    places: tuple[int, ...] = ()
    fitted: FittedColumn = field(default_factory=FittedColumn)


def read_counts(directory: Path) -> list[ColumnCounts]:
    """The sums over a directory's files; files that are not whole, or that go, count nothing.

    Never blocks, and reads a bounded number of bytes.
    """
    sums: dict[str, ColumnCounts] = {}
    for path in takewhile(Path.exists, name_files(directory)):
        for column in _read_file(path):
            before = sums.get(column.column)
            sums[column.column] = column if before is None else _add(before, column)
    return list(sums.values())


def name_files(directory: Path) -> Iterator[Path]:
    """The files that a directory may have; processes take the first that is free."""
    return (directory / f"{number}.counts" for number in range(_MOST_FILES))


def _read_file(path: Path) -> list[ColumnCounts]:
    """Its columns; where it changes each time, those of different moments."""
    data = b""
    for _ in range(_TRIES):
        data = _read_bytes(path, MOST_BYTES)
        if len(data) < HEAD.size:
            return []
        version = HEAD.unpack_from(data)[2]
        if version % 2 == 0 and _read_bytes(path, HEAD.size) == data[: HEAD.size]:
            break
    magic, length, _, rows = HEAD.unpack_from(data)
    try:
        header = json.loads(data[HEAD.size : HEAD.size + length])
        numbers = memoryview(data)[HEAD.size + length :]
        split = 8 * len(header) * (len(COUNTS) + PLACES)
        whole, floats = numbers[:split].cast("q"), numbers[split:].cast("d")
        is_whole = magic == MAGIC and len(floats) == len(header) * len(SUMS)
        return [
            _column(column, number, rows, whole, floats)
            for number, column in enumerate(header if is_whole else ())
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _read_bytes(path: Path, most: int) -> bytes:
    """The beginning of a file; nothing of what is no file."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", 0) as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(most) or b""
    return b""


def _column(written: Any, number: int, rows: int, whole: Any, floats: Any) -> ColumnCounts:
    start = number * (len(COUNTS) + PLACES)
    counts = zip(COUNTS, whole[start:], strict=False)
    sums = zip(SUMS, floats[number * len(SUMS) :], strict=False)
    places = whole[start + len(COUNTS) : start + len(COUNTS) + PLACES]
    mean, std, low, high = (written[name] for name in ("mean", "std", "low", "high"))
    return ColumnCounts(
        str(written["column"]),
        rows,
        **dict(counts),
        **dict(sums),
        places=tuple(places) if written["has_places"] else (),
        fitted=FittedColumn(mean, std, low, high, tuple(written["places"])),
    )


def _add(first: ColumnCounts, other: ColumnCounts) -> ColumnCounts:
    numbers = {
        it.name: getattr(first, it.name) + getattr(other, it.name)
        for it in fields(first)
        if it.name not in ("column", "places", "fitted")
    }
    places = tuple(map(sum, zip(first.places, other.places, strict=False)))
    return ColumnCounts(first.column, **numbers, places=places, fitted=first.fitted)
