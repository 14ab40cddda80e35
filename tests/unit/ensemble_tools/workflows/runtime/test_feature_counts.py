"""Files of counts are read while they come, change and go, and whatever lies in their place."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from ensemble_tools.workflows.runtime.counted_columns import CountedColumn
from ensemble_tools.workflows.runtime.counter_file import CounterFile, Sums
from ensemble_tools.workflows.runtime.feature_counts import (
    BUCKETS,
    COUNTS,
    MOST_BYTES,
    MOST_COLUMNS,
    SUMS,
    read_began,
    read_counts,
)


def write_file(directory: Path) -> Path:
    """A file of two columns."""
    columns = [
        CountedColumn("age", 0, mean=40.0, std=3.0),
        CountedColumn("user", 1, has_buckets=True, buckets=tuple(range(32)), kinds={"keys"}),
    ]
    file, sums = CounterFile(directory, [column.to_json() for column in columns]), Sums(2)
    sums.add(0, counted=7, values=7, nulls=2)
    sums.add(0, sum=2.5)
    sums.add(1, unseen=12)
    file.add(7, sums)
    return directory / "0.counts"


def test_a_file_is_read(tmp_path: Path) -> None:
    write_file(tmp_path)
    age, user = read_counts(tmp_path)
    assert (age.column, age.rows_seen, age.counted, age.nulls, age.sum) == ("age", 7, 7, 2, 2.5)
    assert (age.fitted.mean, age.fitted.std, age.fitted.low, age.buckets) == (40.0, 3.0, None, ())
    assert (age.has_keys, user.has_keys) == (False, True)
    assert (user.unseen, user.buckets, user.fitted.buckets) == (12, (0,) * 32, tuple(range(32)))


def test_a_file_says_when_it_began(tmp_path: Path) -> None:
    """Also to whoever comes later; a directory without a file and a broken file say nothing."""
    assert read_began(tmp_path) == 0
    earliest = time.time()
    path = write_file(tmp_path)
    began = read_began(tmp_path)
    assert earliest <= began <= time.time()
    write_file(tmp_path)
    assert (read_began(tmp_path), read_counts(tmp_path)[0].values) == (began, 14)
    for broken in (b"", b"\xff" * 40, path.read_bytes()[:39]):
        path.write_bytes(broken)
        assert read_began(tmp_path) == 0


def test_a_file_that_is_half_written_counts_nothing(tmp_path: Path) -> None:
    """Whatever is there of it, and whatever stands in it."""
    path = write_file(tmp_path)
    whole, columns = path.read_bytes(), read_counts(tmp_path)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert read_counts(tmp_path) == []
    chance = random.Random(3)
    for _ in range(500):
        broken = bytearray(whole)
        broken[chance.randrange(len(whole))] = chance.randrange(256)
        path.write_bytes(broken)
        assert len(read_counts(tmp_path)) in (0, 2)
    path.write_bytes(whole)
    assert read_counts(tmp_path) == columns


def test_a_file_whose_process_was_killed_while_it_wrote(tmp_path: Path) -> None:
    """It is read as it is; the next process goes on."""
    path = write_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[16] += 1
    path.write_bytes(data)
    before = read_counts(tmp_path)
    write_file(tmp_path)
    assert [column.rows_seen for column in before] == [7, 7]
    assert [column.rows_seen for column in read_counts(tmp_path)] == [14, 14]
    assert path.read_bytes()[16] % 2 == 0


def test_what_is_no_file_of_counts(tmp_path: Path) -> None:
    """A pipe would block who opens it; a link may lead anywhere."""
    write_file(tmp_path)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    write_file(elsewhere)
    os.mkfifo(tmp_path / "1.counts")
    (tmp_path / "2.counts").symlink_to(elsewhere / "0.counts")
    (tmp_path / "3.counts").mkdir()
    assert [column.rows_seen for column in read_counts(tmp_path)] == [7, 7]
    assert read_counts(tmp_path / "gone") == []


@pytest.mark.parametrize(
    ("written", "broken"),
    [
        (b'"mean": 40.0', b'"mean": [0] '),
        (b'"mean": 40.0', b'"mean": "x" '),
        (b'"std": 3.0', b'"std": {} '),
        (b"30, 31]", b"1e999 ]"),
        (b"30, 31]", b'30,"x"]'),
        (b"30, 31]", b"30    ]"),
        (b"30, 31]", b"30, -1]"),
    ],
)
def test_a_header_that_no_model_writes(written: bytes, broken: bytes, tmp_path: Path) -> None:
    """The model's process owns the file: what it makes of it does not stop the reading."""
    path = write_file(tmp_path)
    whole = path.read_bytes()
    assert len(written) == len(broken)
    assert written in whole
    path.write_bytes(whole.replace(written, broken))
    assert read_counts(tmp_path) == []


def test_numbers_that_no_model_counts(tmp_path: Path) -> None:
    """Sums of them would be refused, or counters would fall."""
    path = write_file(tmp_path)
    whole = path.read_bytes()
    columns = 2
    for number in (-1, 2**60):
        start = len(whole) - 8 * columns * (len(SUMS) + len(COUNTS) + BUCKETS)
        path.write_bytes(
            whole[:start] + number.to_bytes(8, "little", signed=True) + whole[start + 8 :]
        )
        assert read_counts(tmp_path) == []


def test_a_directory_of_many_large_files(tmp_path: Path) -> None:
    """Some of them are read: a page that waits for all would be late."""
    large = MOST_COLUMNS // 2
    header = [CountedColumn(str(number), 0).to_json() for number in range(large)]
    held = [CounterFile(tmp_path, header) for _ in range(60)]
    for file in held:
        file.add(1, Sums(large))
    columns = read_counts(tmp_path)
    size = (tmp_path / "0.counts").stat().st_size
    assert len(columns) == large
    assert columns[0].rows_seen == 8 * 2**20 // size < len(held)


def test_a_directory_that_cannot_be_looked_at(tmp_path: Path) -> None:
    """Such as one whose path is too long."""
    (tmp_path / "link").symlink_to("n" * 300)
    assert read_counts(tmp_path / "link") == []


def test_a_file_of_other_columns_begins_anew(tmp_path: Path) -> None:
    """Its numbers are of no use."""
    write_file(tmp_path)
    CounterFile(tmp_path, [CountedColumn("age", 0).to_json()])
    (column,) = read_counts(tmp_path)
    assert (column.column, column.rows_seen, column.nulls) == ("age", 0, 0)


def test_columns_whose_counters_are_too_large(tmp_path: Path) -> None:
    """Nobody would read the file."""
    columns = [CountedColumn("n" * MOST_BYTES, 0).to_json()]
    with pytest.raises(ValueError, match="its columns take"):
        CounterFile(tmp_path, columns)
    assert not [*tmp_path.iterdir()]
