"""One process's file of counts (feature_counts.py), which it maps and adds to."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .feature_counts import BUCKETS, COUNTS, HEAD, MAGIC, MOST_BYTES, SUMS, name_files

#: A column's integers.
_INTEGERS = len(COUNTS) + BUCKETS
#: Where the head has the version and the rows seen, in 64-bit integers.
_VERSION, _ROWS = 2, 3


class Sums:
    """What is added to the counters of a number of columns."""

    def __init__(self, columns: int) -> None:
        self.integers = np.zeros((columns, _INTEGERS), np.int64)
        self.floats = np.zeros((columns, len(SUMS)))

    def add(self, columns: Any, **numbers: Any) -> None:
        """Add to numbers of some columns, all different: one for each of them, or one for all."""
        for name, number in numbers.items():
            if name in SUMS:
                self.floats[columns, SUMS.index(name)] += number
            else:
                self.integers[columns, COUNTS.index(name)] += number

    def add_buckets(self, columns: Any, buckets: Any) -> None:
        """Add to the buckets of some columns: a row for each of them."""
        self.integers[columns, len(COUNTS) :] += buckets


class CounterFile:
    """The first file of the directory that no other process holds; it counts on."""

    def __init__(self, directory: Path, columns: Sequence[dict[str, Any]]) -> None:
        """columns: for the header.

        Raises OSError, and ValueError where the file would be larger than what is read.
        """
        header = json.dumps(columns).encode()
        header += b" " * (-len(header) % 8)
        head = HEAD.pack(MAGIC, len(header), 0, 0, time.time())
        integers, floats = len(columns) * _INTEGERS, len(columns) * len(SUMS)
        start = len(head) + len(header)
        size = start + 8 * (integers + floats)
        if size > MOST_BYTES:
            raise ValueError(f"its columns take {size} bytes; a file of counts has {MOST_BYTES}")
        descriptor = _hold_file(directory)
        try:
            begun = os.pread(descriptor, start, 0)
            is_new = begun[:16] != head[:16] or begun[len(head) :] != header
            if is_new:
                os.ftruncate(descriptor, 0)
            os.posix_fallocate(descriptor, 0, size)  # a full disk is an error now, no signal later
            if is_new:
                os.pwrite(descriptor, header, len(head))
                os.pwrite(descriptor, head, 0)
            mapped = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)  # the map has another one, which holds the lock
        self._head = np.frombuffer(mapped, np.int64, len(head) // 8)
        self._integers = np.frombuffer(mapped, np.int64, integers, start)
        self._floats = np.frombuffer(mapped, np.float64, floats, start + 8 * integers)
        self._head[_VERSION] += self._head[_VERSION] % 2  # its last holder ended while it wrote

    def add(self, rows_seen: int, sums: Sums) -> None:
        """Add to the counters; whoever reads them meanwhile reads again."""
        self._head[_VERSION] += 1
        self._head[_ROWS] += rows_seen
        self._integers += sums.integers.reshape(-1)
        self._floats += sums.floats.reshape(-1)
        self._head[_VERSION] += 1


def _hold_file(directory: Path) -> int:
    """The descriptor of the first file that nobody holds. Raises OSError."""
    for path in name_files(directory):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            return descriptor
    raise OSError("all of its files are held")
