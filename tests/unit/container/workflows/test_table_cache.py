"""Tables that an earlier load has written: taken where nothing has changed, and never else."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from container.workflows.table_cache import TableCache
from ensemble_tools import (
    Choices,
    Compile,
    Namespace,
    TableUnusable,
    plan_archive,
    publish,
    read_executor_graph,
    read_repository,
    write_tables,
)
from ensemble_tools.workflows.program import Means, Table

EXAMPLES = Path(__file__).parents[4] / "examples/merlin"
KEYS = "0.0.keys.npy"
MIB = 2**20


def write_parquet(path: Path, values: Sequence[int] = (10, 20)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"a": np.array(values)}), path)
    return path


def make_table(path: Path) -> Table:
    return Table(path, ("a",), ("int",), shift=3)


class Loads:
    """Loads with a cache; written: whether each had its tables written."""

    def __init__(self, directory: Path, most_bytes: int = MIB) -> None:
        self.directory, self.results = directory, list[str]()
        self.kept, self.written = directory / "tables", 0
        self.numbers = itertools.count()
        self.before_writing: Callable[[], object] = lambda: None
        self.cache = TableCache(self._write, self.kept, most_bytes, self.results.append)

    def _write(self, tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        self.written += bool(tables)
        self.before_writing()
        return write_tables(tables, directory)

    def load(self, *tables: Table, name: str = "") -> Path:
        """Where its tables are."""
        published = self.directory / (name or f"published{next(self.numbers)}")
        published.mkdir()
        self.rows = self.cache.write(tables, published)
        return published

    def hits(self, *tables: Table) -> bool:
        written = self.written
        self.load(*tables)
        return written == self.written


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    (tmp_path / "loads").mkdir()
    return Loads(tmp_path / "loads")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_table(write_parquet(tmp_path / "archive/unique.a.parquet"))


@pytest.mark.parametrize("name", ["dense", "session", "two_workflows"])
def test_bit_by_bit(name: str, loads: Loads, tmp_path: Path) -> None:
    """What is published is the same in all bytes, from a copy of the archive elsewhere, too."""

    def publish_export(archive: Path, out: str) -> dict[Path, bytes]:
        repository = read_repository(archive)
        graph, choices = read_executor_graph(repository), Choices(compile=Compile.AUTO)
        plan = plan_archive(repository, graph, Namespace("m"), choices)
        assert plan.compiled
        (tmp_path / "loads" / out).mkdir()
        publish(plan, tmp_path / "loads" / out, loads.cache.write)
        files = (path for path in (tmp_path / "loads" / out).rglob("*") if path.is_file())
        return {path.relative_to(tmp_path / "loads" / out): path.read_bytes() for path in files}

    copy = shutil.copytree(EXAMPLES / name / "repository", tmp_path / "copy")
    first = publish_export(EXAMPLES / name / "repository", "first")
    written = loads.written
    assert publish_export(copy, "second") == first
    assert any(path.suffix == ".npy" for path in first)
    assert loads.written == written
    assert loads.results == ["miss"] * written + ["hit"] * written


def test_another_place(loads: Loads, table: Table, tmp_path: Path) -> None:
    """SageMaker extracts an archive anew at each load; a second one may have the same workflow."""
    written = loads.load(table)
    rows = loads.rows
    other = tmp_path / "another archive/unique.b.parquet"
    other.parent.mkdir()
    shutil.copy(table.path, other)
    linked = loads.load(replace(table, path=other))
    assert loads.results == ["miss", "hit"]
    assert loads.rows == rows
    assert (written / KEYS).samefile(linked / KEYS)


def changed_content(table: Table) -> Table:
    """Of the same size and time."""
    status = table.path.stat()
    write_parquet(table.path, (10, 21))
    assert table.path.stat().st_size == status.st_size
    os.utime(table.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return table


def file_in_directory(table: Table) -> Table:
    """The same file, as Categorify writes it with split_out."""
    directory = table.path.with_name("unique.d.parquet")
    directory.mkdir()
    shutil.copy(table.path, directory / "part.0.parquet")
    return replace(table, path=directory)


@pytest.mark.parametrize(
    "change",
    [
        changed_content,
        file_in_directory,
        lambda table: replace(table, shift=4),
        lambda table: replace(table, kinds=("whole",)),
        lambda table: replace(table, shift=None, beside=("a",)),
    ],
)
def test_another_job(loads: Loads, table: Table, change: Callable[[Table], Table]) -> None:
    """Whatever the tables depend on makes them others."""
    loads.load(table)
    assert not loads.hits(change(table))
    assert loads.hits(table)


def test_parts_in_a_directory(loads: Loads, table: Table) -> None:
    """What lies beside the only part counts: it decides whether the part is the file."""
    table = file_in_directory(table)
    loads.load(table)
    assert loads.hits(table)
    shutil.copy(table.path / "part.0.parquet", table.path / "_hidden")
    assert not loads.hits(table)
    (table.path / "_hidden").rename(table.path / ".hidden")
    assert not loads.hits(table)
    (table.path / "_empty").mkdir()
    assert not loads.hits(table)
    assert loads.hits(table)


def test_the_file_of_folds(loads: Loads, tmp_path: Path) -> None:
    """TargetEncoding's tables are made of two files, and either may change."""

    def write(name: str, *columns: list[float]) -> Path:
        path = tmp_path / name
        data = {str(number): column for number, column in enumerate(columns)}
        pyarrow.parquet.write_table(pyarrow.table(data), path)
        return path

    overall = write("all.parquet", [1], [4], [8.0])
    folds = write("folds.parquet", [0], [1], [2], [3.0])
    table = Table(folds, ("fold", "a"), ("int", "int"), means=Means(overall, 20.0, (0.5,)))
    loads.load(table)
    assert loads.hits(table)
    write("all.parquet", [1], [4], [9.0])
    assert not loads.hits(table)


def test_one_file_twice_is_not_two(loads: Loads, table: Table, tmp_path: Path) -> None:
    """What is refused for the size of all its files has more of them."""
    other = replace(table, path=Path(shutil.copy(table.path, tmp_path / "other")))
    loads.load(table, table)
    assert not loads.hits(table, other)


def test_a_file_that_changes_while_it_is_read(loads: Loads, table: Table, tmp_path: Path) -> None:
    """Nothing is kept, even if it changes back: nobody can say what the tables were made of."""
    whole = table.path.read_bytes()
    loads.before_writing = lambda: write_parquet(table.path, (30, 40))
    loads.load(table)
    table.path.write_bytes(whole)
    assert not loads.hits(table)

    def there_and_back() -> None:
        write_parquet(table.path, (50, 60))
        table.path.write_bytes(whole)

    table = make_table(write_parquet(tmp_path / "another", (50, 61)))
    whole = table.path.read_bytes()
    os.utime(table.path, (0, 0))  # some kernels' times stand still for milliseconds
    loads.before_writing = there_and_back
    loads.load(table)
    assert not loads.hits(table)


def flip_a_bit(kept: Path) -> None:
    kept.chmod(0o600)
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    kept.write_bytes(data)


@pytest.mark.parametrize(
    "damage", [flip_a_bit, lambda kept: os.truncate(kept, 10), Path.unlink, lambda _: None]
)
@pytest.mark.parametrize("name", [KEYS, "rows.json"])
def test_damage(name: str, loads: Loads, table: Table, damage: Callable[[Path], object]) -> None:
    """A damaged entry is written anew, and serves the loads after that."""
    loaded = loads.load(table) / KEYS
    rows, array = loads.rows, loaded.read_bytes()
    (kept,) = loads.kept.rglob(name)
    whole = kept.read_bytes()
    damage(kept)
    undamaged = kept.exists() and kept.read_bytes() == whole
    again = loads.load(table) / KEYS
    assert (loads.results[-1] == "hit") == undamaged
    assert (loads.rows, again.read_bytes()) == (rows, array)
    assert again.samefile(loaded) == undamaged  # what a loaded model has is never written to
    assert loads.hits(table)
    assert loads.rows == rows
    assert [path.read_bytes() for path in loads.kept.rglob(name)] == [whole]


def test_everything_is_gone(loads: Loads, table: Table) -> None:
    """Somebody has tidied up under /tmp: loads go on without."""
    loads.load(table)
    shutil.rmtree(loads.kept)
    for _ in range(2):
        assert np.load(loads.load(table) / KEYS).tolist() == [10, 20]
    assert loads.written == 3


def test_the_least_recently_loaded_goes(tmp_path: Path) -> None:
    """A model keeps what it has mapped, also when its entry is gone."""
    tables = [make_table(write_parquet(tmp_path / f"in/{it}", (it, it + 1))) for it in range(3)]
    (tmp_path / "two").mkdir()
    loads = Loads(tmp_path / "two", 2 * 2**16)  # which each is counted as at least
    mapped = loads.load(tables[0]) / KEYS
    loads.load(tables[1])
    assert loads.hits(tables[0])
    loads.load(tables[2])  # in the place of 1
    assert len([*loads.kept.iterdir()]) == 2
    assert loads.hits(tables[0])
    assert loads.hits(tables[2])
    loads.load(tables[1])  # in the place of 0
    assert np.load(mapped, mmap_mode="r").tolist() == [0, 1]
    assert not loads.hits(tables[0])


@pytest.mark.parametrize("most_bytes", [0, 100])
def test_a_bound_below_it(most_bytes: int, table: Table, tmp_path: Path) -> None:
    """Nothing is kept where that is switched off, and nothing that is larger than the bound."""
    (tmp_path / "loads").mkdir()
    loads = Loads(tmp_path / "loads", most_bytes)
    loads.load(table)
    assert not loads.hits(table)
    assert not [*loads.kept.iterdir()]


def test_a_large_one_drives_nobody_out(table: Table, tmp_path: Path) -> None:
    """What is larger than the bound is not kept, and what is kept stays."""
    (tmp_path / "loads").mkdir()
    loads = Loads(tmp_path / "loads", 2**16)
    loads.load(table)
    loads.load(make_table(write_parquet(tmp_path / "large", range(10_000))))
    assert loads.hits(table)


@pytest.mark.parametrize("bytes_each", [[2**20 + 1], [2**19, 2**19, 1]])
@pytest.mark.parametrize("in_a_directory", [False, True])
def test_category_files_above_the_bound_are_not_read(
    bytes_each: list[int], in_a_directory: bool, loads: Loads, tmp_path: Path
) -> None:
    """One of holes takes no disk to speak of, and may take hours to read."""
    paths = [tmp_path / f"unique.parquet/part.{number}.parquet" for number in range(3)]
    paths[0].parent.mkdir()
    for path, size in zip(paths, bytes_each, strict=False):
        path.touch()
        os.truncate(path, size)
    tables = [make_table(paths[0].parent)] if in_a_directory else [*map(make_table, paths)]
    with pytest.raises(TableUnusable):
        loads.load(*tables[: len(bytes_each)])
    assert (loads.written, loads.results) == (1, [])


def test_a_full_disk(loads: Loads, table: Table, tmp_path: Path) -> None:
    """What is kept makes room for a load; where that does not suffice, it fails as ever."""
    loads.load(make_table(write_parquet(tmp_path / "earlier", (1, 2))))

    full_for_ever = False

    def lack_space() -> None:
        if full_for_ever or any(loads.kept.iterdir()):
            raise OSError(errno.ENOSPC, "No space left on device")

    loads.before_writing = lack_space
    assert np.load(loads.load(table) / KEYS).tolist() == [10, 20]
    assert loads.written == 3
    full_for_ever = True
    with pytest.raises(OSError, match="No space left"):
        loads.load(make_table(write_parquet(tmp_path / "later", (3, 4))))


def test_as_much_is_free_as_is_kept(
    loads: Loads, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is nearly full is not filled by what might be of use again."""
    loads.load(table)
    loads.cache.make_room()
    assert loads.hits(table)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**16 - 1))
    loads.cache.make_room()
    assert not [*loads.kept.iterdir()]
    loads.load(table)
    assert not [*loads.kept.iterdir()]
    monkeypatch.undo()
    shutil.rmtree(loads.kept)
    loads.cache.make_room()  # says nothing


def test_two_at_once(loads: Loads, table: Table) -> None:
    """One writes, and the other waits for it."""
    others = [
        threading.Thread(target=loads.load, args=(table,), kwargs={"name": f"other{number}"})
        for number in range(3)
    ]

    def begin_others() -> None:
        for other in others:
            other.start()

    loads.before_writing = begin_others
    loads.load(table)
    for other in others:
        other.join()
    assert loads.written == 1
    assert sorted(loads.results) == ["hit"] * 3 + ["miss"]


def test_who_is_waited_for_fails(loads: Loads, table: Table) -> None:
    """The others then write at once: none waits for a third, and all may succeed."""
    others = [
        threading.Thread(target=loads.load, args=(table,), kwargs={"name": f"other{number}"})
        for number in range(2)
    ]

    def fail() -> None:
        loads.before_writing = lambda: None
        for other in others:
            other.start()
        raise OSError(errno.EAGAIN, "its tables were not written")

    loads.before_writing = fail
    with pytest.raises(OSError, match="not written"):
        loads.load(table)
    for other in others:
        other.join()
    assert loads.hits(table)
    assert len([*loads.kept.iterdir()]) == 1


def test_what_cannot_be_read(loads: Loads, table: Table) -> None:
    """Whoever writes tables says what is wrong, each time."""
    table.path.unlink()
    for _ in range(2):
        with pytest.raises(Exception, match="is missing"):
            loads.load(table)
    assert loads.written == 2
    os.mkfifo(table.path)  # and nobody waits for a pipe
    with pytest.raises(Exception, match="is missing"):
        loads.load(table)


def test_nobody_else_can_read_it(loads: Loads, table: Table) -> None:
    """Only who may read it here: the categories may be customers'."""
    loads.load(table)
    assert loads.kept.stat().st_mode & 0o777 == 0o700
    (entry,) = loads.kept.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in entry.glob("*.npy")} == {0o400}
