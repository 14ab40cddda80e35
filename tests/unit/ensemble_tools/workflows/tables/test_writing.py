"""Tables: labels and numbers beside keys, and what is not written."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import TableUnusable, write_tables
from ensemble_tools.workflows.tables.category_files import CategoryFiles
from ensemble_tools.workflows.tables.lookup_files import LookupFiles
from tests.support.category_files import labels, looked_up, parquet, span


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        (None, [3, 4, 5]),
        (span(0, 3), [3, 4, 5]),
        (span(3, 6), [3, 4, 5]),
        (span(1, 4), [4, 5, 6]),
        (span(2, 5), [5, 6, 7]),
        (span(10, 16, 2), [10, 12, 14]),
        ([7, 9, 8], [7, 9, 8]),
        ([2, 0, 1], [5, 3, 4]),
    ],
)
def test_labels_are_the_index(tmp_path: Path, index: Any, wanted: list[int]) -> None:
    """Moved up where the first of them would be one that Categorify keeps for itself."""
    path = parquet(tmp_path / "unique.a.parquet", index, a=np.array([10, 20, 30]))
    lookup = looked_up(tmp_path, Table(path, ("a",), ("int",), shift=3))
    assert labels(lookup, [10, 20, 30, 40]) == [*wanted, None]
    assert lookup.first("label") == wanted[0]


def test_numbers_beside_keys(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", a=np.array([2, 1]), a_count=np.array([20, 10]))
    lookup = looked_up(tmp_path, Table(path, ("a",), ("whole",), beside=("a_count",)))
    found, places = lookup.find([np.array([1, 2])])
    assert found.all()
    assert lookup.beside("a_count", places).tolist() == [10, 20]


def test_text_beside_keys(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", a=np.array([1]), a_count=["many"])
    with pytest.raises(TableUnusable, match="has text in 'a_count'"):
        looked_up(tmp_path, Table(path, ("a",), ("whole",), beside=("a_count",)))


@pytest.mark.parametrize(
    "index",
    [[2**53], [-(2**53)], pyarrow.array([2**64 - 1], pyarrow.uint64()), span(2**53, 2**53 + 1)],
)
def test_labels_that_floats_cannot_tell_apart(tmp_path: Path, index: Any) -> None:
    """pandas makes floats of them when a value of a request is unseen."""
    path = parquet(tmp_path / "f", index, a=np.array([10]))
    with pytest.raises(TableUnusable, match="too large"):
        looked_up(tmp_path, Table(path, ("a",), ("int",), shift=3))


def test_the_largest_labels(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", [2**53 - 4], a=np.array([10]))
    assert labels(looked_up(tmp_path, Table(path, ("a",), ("int",), 3)), [10]) == [2**53 - 4]


NO_MEMORY = [MemoryError, pyarrow.ArrowMemoryError]


@pytest.mark.parametrize("error", NO_MEMORY)
def test_too_little_memory_to_read(tmp_path: Path, error: type[Exception]) -> None:
    """A shortage, as of the process: NVTabular, which takes more, is not asked instead."""

    class Unread(pyarrow.parquet.ParquetFile):  # type: ignore[misc]
        def read(self, *_: object, **__: object) -> None:
            raise error("no")

    path = parquet(tmp_path / "f", a=np.array([1, 2, 3]))
    with pytest.raises(OSError, match="takes more memory than there is") as refused:
        looked_up(tmp_path, Table(path, ("a",), ("int",), 3), CategoryFiles(Unread))
    assert refused.value.errno == errno.ENOMEM


@pytest.mark.parametrize("error", NO_MEMORY)
def test_too_little_memory_to_write(tmp_path: Path, error: type[Exception]) -> None:
    def fail(*_: object) -> None:
        raise error("no")

    path = parquet(tmp_path / "f", a=np.array([1, 2, 3]))
    lookups = LookupFiles(tmp_path, save=fail)
    with pytest.raises(OSError, match="takes more memory than there is") as refused:
        write_tables([Table(path, ("a",), ("int",), 3)], tmp_path, lookups=lookups)
    assert refused.value.errno == errno.ENOMEM


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"a_size": np.array([9, 5, 1])}, {0: 9, 10: 5, 21: 1}),
        ({"b_size": np.array([9, 5, 1], np.int32)}, {0: 9, 10: 5, 21: 1}),
        ({}, None),
        ({"a_count": np.array([9, 5, 1])}, None),
        ({"a_size": ["9", "5", "1"]}, None),
        ({"a_size": [9, None, 1]}, None),
        ({"a_size": np.array([9, -5, 1])}, None),
        ({"a_size": np.array([9, 2**64 - 1, 1], np.uint64)}, None),
        ({"a_size": np.array([9, 5, 1]), "b_size": np.array([9, 5, 1])}, None),
    ],
)
def test_sizes_are_in_buckets_of_labels(
    tmp_path: Path, columns: dict[str, Any], expected: dict[int, int] | None
) -> None:
    """If the file has them; a null has no bucket."""
    path = parquet(tmp_path / "unique.a.parquet", span(3, 6), a=np.array([30, 10, 20]), **columns)
    lookup = looked_up(tmp_path, Table(path, ("a",), ("int",), shift=3))
    assert lookup.vocabulary["buckets"] == (
        [] if expected is None else [expected.get(bucket, 0) for bucket in range(32)]
    )
    shared = Table(path, ("a",), ("int",), shift=3, has_shared_sizes=True)
    assert looked_up(tmp_path, shared).vocabulary["buckets"] == []
    nulls = parquet(tmp_path / "nulls", a=[None, "x"], a_size=np.array([7, 2]))
    lookup = looked_up(tmp_path, Table(nulls, ("a",), ("text",), shift=3))
    assert sum(lookup.vocabulary["buckets"]) == 2
