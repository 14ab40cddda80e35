"""The counts of a compiled workflow's columns, as its processes keep them in files.

    <serving repository>/<Triton model>/1/feature_counts/0.counts
    <serving repository>/<joined model>/1/steps/<step>/1/feature_counts/0.counts

publish(..., counts=…) makes the directory, a link to one that stays when the model goes, and
find_counts (both serving/publish.py) knows where each is. A model that finds none counts nothing.
Each instance of a model holds one file by flock and maps it. The next process takes over the file
of one that has ended and counts on, so that sums never become smaller.

    magic, length of the header, version of the counters, rows seen, when it began: 8 bytes each
    the header, JSON: a list of columns
    64-bit integers: for each column COUNTS, then its buckets
    64-bit floats: for each column SUMS

A writer makes the version odd while it changes the counters.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

#: A vocabulary in the order of its labels, which is by frequency, is cut into so many equal parts.
BUCKETS = 32
COUNTS = ("counted", "values", "nulls", "unseen", "outside", "finite")
SUMS = ("sum", "sum_of_squares")

HEAD = struct.Struct("=8sQQQd")
MAGIC = b"fcounts1"
#: Columns of one workflow that are counted: the first ones.
MOST_COLUMNS = 2000
#: Files of one directory; bytes of one file, and those that are read of a directory.
_MOST_FILES = 256
MOST_BYTES, _MOST_READ = 2 * 2**20, 8 * 2**20
#: No model counts so far, and floats still have each number up to here.
_MOST = 2**53
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
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True)
class ColumnCounts:
    """The values of one column since the model was loaded for the first time.

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
    #: Values in each bucket of the vocabulary; empty for a column that Categorify does not encode.
    buckets: tuple[int, ...] = ()
    fitted: FittedColumn = field(default_factory=FittedColumn)
    #: Whether a table looks its values up, so that some may be unseen.
    has_keys: bool = True


#: What is summed up over processes.
_SUMMED = ("rows_seen", *COUNTS, *SUMS)


def read_counts(directory: Path) -> list[ColumnCounts]:
    """The sums over a directory's files; files that are not whole, or that go, count nothing.

    Never blocks, raises nothing, and reads a bounded number of bytes: the files are those of a
    model's process, which may have put anything in their place.
    """
    sums: dict[str, ColumnCounts] = {}
    rest = _MOST_READ
    for path in takewhile(os.path.lexists, name_files(directory)):
        data = _read_data(path)
        rest -= len(data)
        if rest < 0:
            break
        for column in _read_columns(data):
            before = sums.get(column.column)
            sums[column.column] = column if before is None else add_counts(before, column)
    return list(sums.values())


def read_began(directory: Path) -> float:
    """When the counting began there, in seconds since 1970; 0 where it has not. Raises nothing."""
    head = _read_bytes(next(name_files(directory)), HEAD.size)
    began = float(HEAD.unpack(head)[-1]) if len(head) == HEAD.size else 0.0
    return began if math.isfinite(began) else 0.0


def are_held(directory: Path) -> bool:
    """Whether a process counts in a file of the directory."""
    for path in takewhile(os.path.lexists, name_files(directory)):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
    return False


def name_files(directory: Path) -> Iterator[Path]:
    """The files that a directory may have; processes take the first that is free."""
    return (directory / f"{number}.counts" for number in range(_MOST_FILES))


def _read_data(path: Path) -> bytes:
    """What is in the file; where it changes each time, numbers of different moments."""
    data = b""
    for _ in range(_TRIES):
        data = _read_bytes(path, MOST_BYTES)
        is_changing = len(data) >= HEAD.size and HEAD.unpack_from(data)[2] % 2
        if not is_changing and _read_bytes(path, HEAD.size) == data[: HEAD.size]:
            break
    return data


def _read_columns(data: bytes) -> list[ColumnCounts]:
    """The columns of a file; none of one that is not whole, or that no model has counted."""
    try:
        magic, length, _, rows, _ = HEAD.unpack_from(data)
        header = json.loads(data[HEAD.size : HEAD.size + length])
        numbers = memoryview(data)[HEAD.size + length :]
        split = 8 * len(header) * (len(COUNTS) + BUCKETS)
        whole, floats = numbers[:split].cast("q"), numbers[split:].cast("d")
        is_whole = magic == MAGIC and len(floats) == len(header) * len(SUMS)
        if not is_whole or not 0 < len(header) <= MOST_COLUMNS:
            return []
        if min(whole) < 0 or max(rows, *whole) > _MOST:
            return []
        return [
            _column(column, number, rows, whole, floats) for number, column in enumerate(header)
        ]
    except (struct.error, ValueError, TypeError, KeyError, OverflowError, RecursionError):
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
    start = number * (len(COUNTS) + BUCKETS)
    counts = zip(COUNTS, whole[start : start + len(COUNTS)], strict=True)
    sums = zip(SUMS, floats[number * len(SUMS) : (number + 1) * len(SUMS)], strict=True)
    buckets = whole[start + len(COUNTS) : start + len(COUNTS) + BUCKETS]
    return ColumnCounts(
        str(written["column"]),
        rows,
        **dict(counts),
        **dict(sums),
        buckets=tuple(buckets) if written["has_buckets"] else (),
        fitted=_read_fitted(written),
        has_keys=bool(written["has_keys"]),
    )


def _read_fitted(written: Any) -> FittedColumn:
    """Raises ValueError, TypeError, KeyError and OverflowError for what no model writes."""
    numbers = {
        name: None if written[name] is None else float(written[name])
        for name in ("mean", "std", "low", "high")
    }
    buckets = tuple(map(int, written["buckets"]))
    if len(buckets) not in (0, BUCKETS) or not all(0 <= it <= _MOST for it in buckets):
        raise ValueError("these are no rows of buckets")
    return FittedColumn(**numbers, buckets=buckets)


def add_counts(first: ColumnCounts, other: ColumnCounts) -> ColumnCounts:
    """The sums of a column that is counted twice, and fitted once."""
    numbers = {name: getattr(first, name) + getattr(other, name) for name in _SUMMED}
    buckets = tuple(map(sum, zip(first.buckets, other.buckets, strict=False)))
    return replace(first, **numbers, buckets=buckets)
