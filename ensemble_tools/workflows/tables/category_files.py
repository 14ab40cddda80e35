"""Category files: what is read of them, and what makes them unusable."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import footers
from .arrays import array_of
from .errors import TableBroken, TableUnusable

MAX_ROWS = 200_000_000
#: Categories differ from each other, so that their file cannot be a few runs of equal values: one
#: of a KB could stand for gigabytes, in NVTabular too. What NVTabular writes has less than a row a
#: byte; sorted numbers in another encoding have some hundred. So many rows of files with more than
#: a row a byte are read for one workflow; NVTabular takes some 80 bytes for each.
_FEW_ROWS, _EXPANDED_ROWS = 100_000, 4_000_000
#: What the files of a workflow may come to when they are read: this much, or so many times their
#: size.
_READ_BYTES, _READ_RATIO = 2**30, 64
#: Files of one category file; Categorify writes as many as its split_out.
_MOST_PARTS = 1000
#: Of the numbers that a range of pandas' has.
_LARGEST = 2**62
#: Errors that say something of the file itself; pyarrow's of what it cannot read have no number.
_THE_FILES = {
    None,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
}
#: The rows' index among the columns that are read; no column can have the name.
INDEX = ""
#: Likewise: the rows that each category was fitted to; None where the file does not say it.
SIZES = "\0"


def _open_parquet(path: Path, **options: Any) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, **options)


class CategoryFiles:
    """Reads them. open_parquet: a pyarrow.parquet.ParquetFile of a file, with its options."""

    def __init__(
        self, open_parquet: Callable[..., Any] = _open_parquet, max_rows: int = MAX_ROWS
    ) -> None:
        self._open, self._max_rows = open_parquet, max_rows

    def check(self, paths: Iterable[Path]) -> None:
        """Raise TableBroken where the files of a workflow stand for many times what they hold.

        Only what describes them is read, and texts where that leaves open how often a long one is
        repeated. Who uses a file says what else is wrong with it.
        """
        expanded = all_bytes = all_taken = 0
        for path in dict.fromkeys(paths):
            for part in _all_parts(path):
                try:
                    with _reading(path):
                        opened = self._open(part)
                except TableUnusable:
                    continue
                size = part.stat().st_size
                all_bytes += size
                most = max(_READ_BYTES, all_bytes * _READ_RATIO) - all_taken
                with opened:
                    rows = footers.count_rows(opened.metadata)
                    if rows > max(_FEW_ROWS, size):
                        expanded += rows
                    if expanded > _EXPANDED_ROWS:
                        raise TableBroken(
                            path,
                            f"has {rows} rows in {size} bytes, more than different categories have",
                        )
                    taken = footers.size_when_read(opened.metadata, most, partial(self._open, part))
                if taken > most:
                    raise TableBroken(path, f"has {size} bytes that stand for {taken}")
                all_taken += taken

    def read(
        self,
        path: Path,
        keys: Sequence[str] | None,
        beside: Sequence[str] = (),
        index: bool = False,
    ) -> dict[str, Any]:
        """Columns of a file by their names, all for None, as pandas reads them.

        index: the rows' index as well, as INDEX, and the sizes of categories, as SIZES.
        Raises TableUnusable, MemoryError, and OSError for a shortage.
        """
        import pyarrow

        try:
            part = _part(path)
            with _reading(path):
                opened = self._open(part)
            with opened:
                self._check_rows(opened, path)
                return _columns(opened, path, part, keys, beside, index)
        except MemoryError:  # pyarrow's own is an ArrowException, too
            raise
        except (
            pyarrow.ArrowException,
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            if isinstance(error, OSError) and error.errno not in _THE_FILES:
                raise  # descriptors, memory or the disk: no reason to serve NVTabular itself
            raise TableUnusable(
                f"the category file {path.name} cannot be used ({error})"
            ) from error

    def _check_rows(self, opened: Any, path: Path) -> None:
        with _reading(path):
            rows = opened.metadata.num_rows
        if rows > self._max_rows:
            raise TableUnusable(
                f"the category file {path.name} has {rows} rows; up to {self._max_rows} are "
                "compiled"
            )


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A file that pyarrow cannot read here, it cannot read for NVTabular."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # ours, not the file's
            raise
        raise TableBroken(path, f"cannot be read ({error})") from error


def _all_parts(path: Path) -> list[Path]:
    """The file, or the files of a directory and those below it, which pandas reads all."""
    if path.is_dir():
        entries = [*itertools.islice(path.rglob("*"), _MOST_PARTS + 1)]
        if len(entries) > _MOST_PARTS:
            raise TableBroken(path, f"has more than {_MOST_PARTS} files")
        return [entry for entry in sorted(entries) if entry.is_file()]
    return [path] if path.is_file() else []


def _part(path: Path) -> Path:
    """The file, also of a directory with one; pandas reads everything that lies in one."""
    if not path.is_dir():
        if not path.is_file():
            raise TableUnusable(f"the category file {path.name} is missing")
        return path
    inside = [entry for entry in sorted(path.iterdir()) if not entry.name.startswith(("_", "."))]
    if not inside:
        raise TableUnusable(f"the category file {path.name} is missing")
    if len(inside) > 1:
        raise TableUnusable(f"the category file {path.name} is in {len(inside)} parts")
    if not inside[0].match("part.*.parquet") or not inside[0].is_file():
        raise TableUnusable(f"the category file {path.name} is a directory without a part")
    return inside[0]


def _columns(
    opened: Any,
    path: Path,
    part: Path,
    keys: Sequence[str] | None,
    beside: Sequence[str],
    index: bool,
) -> dict[str, Any]:
    file = path.name
    with _reading(path):
        schema, rows = opened.schema_arrow, opened.metadata.num_rows
    names = schema.names
    # 1. A key that is not there fails for NVTabular, too.
    if keys is not None and (absent := [key for key in keys if key not in names]):
        raise TableBroken(path, f"has no column {absent[0]!r}")
    # 2. A column that is pandas' index is none of the frame's.
    index_column = _index(schema, rows)
    inside = [index_column] if isinstance(index_column, str) else []
    if keys is not None and inside and index_column in (*keys, *beside):
        raise TableUnusable(f"the category file {file} has {index_column!r} as its index")
    columns = [name for name in names if name not in inside] if keys is None else [*keys, *beside]
    read = list(dict.fromkeys([*columns, *(inside if index else [])]))
    if absent := [name for name in read if name not in names]:
        raise TableUnusable(f"the category file {file} has no column {absent[0]!r}")
    # 3. What is wanted, and nothing else, is read.
    with _reading(path):
        data = opened.read(columns=read)
    size = os.path.getsize(part)
    if data.nbytes > max(_READ_BYTES, size * _READ_RATIO):  # what describes it was untrue
        raise TableBroken(path, f"has {size} bytes that stand for {data.nbytes}")
    arrays = {name: array_of(data.column(name), name, file) for name in columns}
    if index:
        arrays[INDEX] = data.column(index_column).to_numpy() if inside else index_column
        arrays[SIZES] = _read_sizes(opened, schema, {*columns, *inside})
    return arrays


def _read_sizes(opened: Any, schema: Any, others: Collection[str]) -> Any:
    """Of the only other column that is called so; nothing depends on it but what is counted."""
    import pyarrow

    names = [name for name in schema.names if name.endswith("size") and name not in others]
    if len(names) != 1 or not pyarrow.types.is_integer(schema.field(names[0]).type):
        return None
    try:
        column = opened.read(columns=names).column(names[0])
    except (pyarrow.ArrowException, OSError):
        return None
    return None if column.null_count else column.to_numpy()


def _index(schema: Any, rows: int) -> Any:
    """pandas' index of the file: the column that holds it, or its numbers."""
    written = (schema.metadata or {}).get(b"pandas")
    described = json.loads(written) if written else {"index_columns": []}
    columns = described.get("index_columns") if isinstance(described, dict) else None
    if not isinstance(columns, list):
        raise ValueError("pandas' metadata is not as pandas writes it")
    if not columns:
        return np.arange(rows)
    if len(columns) != 1:
        raise ValueError("its index has several levels")
    if isinstance(columns[0], str):
        return columns[0]
    if not isinstance(columns[0], dict) or columns[0].get("kind") != "range":
        raise ValueError("its index is of an unknown kind")
    return _range(columns[0], rows)


def _range(described: dict[str, Any], rows: int) -> Any:
    bounds: list[Any] = [described.get(name) for name in ("start", "stop", "step")]
    start, stop, step = bounds
    if not all(type(bound) is int and abs(bound) < _LARGEST for bound in bounds) or step == 0:
        raise ValueError("its index is a range that pandas cannot have")
    length = max(0, -((start - stop) // step))
    if length != rows:
        raise ValueError(f"its index has {length} entries, and it has {rows} rows")
    return np.arange(start, stop, step)
