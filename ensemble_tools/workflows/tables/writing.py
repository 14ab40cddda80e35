"""A program's tables, written from the workflow's category files."""

from __future__ import annotations

import base64
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..program import Plain, Table
from ..runtime.columns import Column
from ..runtime.feature_counts import BUCKETS
from ..runtime.lookups import bucket_labels
from .arrays import UNREACHABLE
from .category_files import INDEX, SIZES, CategoryFiles
from .errors import TableUnusable
from .lookup_files import LookupFiles
from .target_means import smooth_means

#: Which keys values of a kind can be compared with, as pandas' astype and merge do it.
_KEYS = {"int": "iuf", "float": "f", "bool": "b", "text": "S", "whole": "iu", "real": "f"}
_NAMES = {"whole": "int", "real": "float"}
#: pandas makes floats of labels as soon as one value of a request has none; up to here they are
#: exact.
_EXACT = 2**53
#: Rows of one category: all of them together are far from int64's end.
_MOST_ROWS = 2**40


def write_tables(
    tables: Sequence[Table],
    directory: Path,
    files: CategoryFiles | None = None,
    lookups: LookupFiles | None = None,
) -> list[dict[str, Plain]]:
    """Write all tables of a program; the rows of program.json that tell of them.

    A table without columns is a file that is only checked. files: what reads. lookups: what writes,
    into the directory if it is not given. Raises TableBroken for what nothing should read,
    TableUnusable, which names the file, and OSError when nothing can be written or the memory does
    not suffice.
    """
    files, lookups = files or CategoryFiles(), lookups or LookupFiles(directory)
    overall = [table.means.overall for table in tables if table.means and table.means.overall]
    files.check([*(table.path for table in tables if not table.given), *overall])
    read_tables = [table for table in tables if table.columns]
    return [_write(table, str(number), files, lookups) for number, table in enumerate(read_tables)]


def _write(table: Table, file: str, files: CategoryFiles, lookups: LookupFiles) -> dict[str, Plain]:
    name = table.path.name
    vocabulary: dict[str, Plain] = {}
    try:
        if table.given:
            keys, columns = _read_given(table)
        else:
            if table.means is None:
                keys, beside, vocabulary = _read(table, files)
            else:
                keys, beside = smooth_means(files, table.path, len(table.columns), table.means)
            columns = {column: Column(values) for column, values in beside.items()}
        keys = [
            _key_values(values, kind, column, name)
            for values, kind, column in zip(keys, table.kinds, table.columns, strict=True)
        ]
        return {**lookups.write(file, keys, columns, name), "vocabulary": vocabulary}
    except MemoryError as error:  # NVTabular would take more
        raise OSError(
            errno.ENOMEM, f"the category file {name} takes more memory than there is"
        ) from error


def _read(table: Table, files: CategoryFiles) -> tuple[list[Any], dict[str, Any], dict[str, Plain]]:
    """The keys, what stands beside them (other columns, and the labels), and the vocabulary."""
    name, with_labels = table.path.name, table.shift is not None
    data = files.read(table.path, table.columns, table.beside, with_labels)
    keys, vocabulary = [data[column] for column in table.columns], {}
    beside = {column: data[column] for column in table.beside}
    for column, values in beside.items():
        if values.dtype.kind not in "iuf":
            raise TableUnusable(f"the category file {name} has text in {column!r}")
    if table.shift is not None:
        beside["label"] = _labels(data[INDEX], table.shift, name)
        sizes = None if table.has_shared_sizes else data.get(SIZES)
        vocabulary = _describe_vocabulary(keys, beside["label"], sizes)
    return keys, beside, vocabulary


def _describe_vocabulary(keys: list[Any], labels: Any, sizes: Any) -> dict[str, Plain]:
    """As Lookup has it."""
    if not len(labels):
        return {"count": 0, "first": 0, "least": 0, "buckets": []}
    first, count, buckets = int(labels[0]), len(labels), []
    if sizes is not None and sizes.min() >= 0 and sizes.max() <= _MOST_ROWS:
        nulls = np.logical_and.reduce([_are_null(values) for values in keys])
        numbers = bucket_labels(labels, first, count, BUCKETS)
        rows = np.bincount(numbers, np.where(nulls, 0, sizes), BUCKETS)
        buckets = rows.astype(np.int64).tolist()
    return {"count": count, "first": first, "least": int(labels.min()), "buckets": buckets}


def _are_null(values: Any) -> Any:
    if values.dtype.kind == "S":
        return values == UNREACHABLE
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def _read_given(table: Table) -> tuple[list[Any], dict[str, Column]]:
    columns = [
        Column(
            _array(values.data, values.dtype),
            _array(values.offsets, "i8") if values.offsets else None,
            _array(values.missing, "?") if values.missing else None,
        )
        for values in table.given
    ]
    count = len(table.columns)
    keys = [column.values for column in columns[:count]]
    return keys, dict(zip(table.beside, columns[count:], strict=True))


def _array(data: str, dtype: str) -> Any:
    return np.frombuffer(base64.b64decode(data), dtype)


def _key_values(values: Any, kind: str, column: str, file: str) -> Any:
    if values.dtype.kind not in _KEYS[kind]:
        raise TableUnusable(
            f"the category file {file} has {values.dtype.name} in {column!r}, and the "
            f"workflow looks up {_NAMES.get(kind, kind)} values"
        )
    if kind == "whole" and values.dtype != np.uint64:
        return values.astype(np.int64)
    return values.astype(np.float64) if kind == "real" else values


def _labels(index: Any, shift: int, file: str) -> Any:
    if index.dtype.kind not in "iu":
        raise TableUnusable(f"the category file {file} has no whole numbers as its index")
    if len(index) and max(-int(index.min()), int(index.max())) + abs(shift) >= _EXACT:
        raise TableUnusable(f"the category file {file} has numbers in its index that are too large")
    labels = index.astype(np.int64)
    return labels + shift if len(labels) and labels[0] < shift else labels
