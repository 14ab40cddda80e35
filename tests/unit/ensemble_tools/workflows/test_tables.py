"""Category files: what is read of them, and what makes them unusable."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import ensemble_tools
from ensemble_tools.workflows import tables as module
from ensemble_tools.workflows.program import Means, Table
from ensemble_tools.workflows.runtime.lookups import Lookup, read_lookup
from ensemble_tools.workflows.tables import (
    MAX_TEXT_BYTES,
    TableBroken,
    TableUnusable,
    job_text,
    read_answer,
    write_tables,
)


def parquet(path: Path, index: Any = None, **columns: Any) -> Path:
    """A file as pandas writes it. index: a list of labels, or a dict of pandas' metadata."""
    data = {name: pyarrow.array(values) for name, values in columns.items()}
    described: Any = index
    if isinstance(index, (list, pyarrow.Array)):
        data["__index_level_0__"] = pyarrow.array(index)
        described = "__index_level_0__"
    table = pyarrow.table(data)
    if index is not None:
        table = table.replace_schema_metadata(
            {"pandas": json.dumps({"index_columns": [described]})}
        )
    pyarrow.parquet.write_table(table, path)
    return path


def span(start: int, stop: int, step: int = 1) -> dict[str, Any]:
    return {"kind": "range", "name": None, "start": start, "stop": stop, "step": step}


def written(directory: Path, table: Table) -> Lookup:
    place = directory / "written"
    place.mkdir(exist_ok=True)
    (row,) = write_tables([table], place)
    return read_lookup(place, row)


def labels(lookup: Lookup, asked: Any) -> list[int | None]:
    found, places = lookup.find([np.asarray(asked)])
    return [
        one if hit else None
        for hit, one in zip(found, lookup.beside("label", places).tolist(), strict=True)
    ]


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
    lookup = written(tmp_path, Table(path, ("a",), ("int",), shift=3))
    assert labels(lookup, [10, 20, 30, 40]) == [*wanted, None]
    assert lookup.first("label") == wanted[0]


def test_a_file_of_one_part_in_a_directory(tmp_path: Path) -> None:
    """dask writes directories."""
    (tmp_path / "unique.a.parquet").mkdir()
    parquet(tmp_path / "unique.a.parquet/part.0.parquet", a=np.array([10]))
    table = Table(tmp_path / "unique.a.parquet", ("a",), ("int",), shift=3)
    assert labels(written(tmp_path, table), [10]) == [3]


def test_nulls_in_a_column_of_whole_numbers_are_nan(tmp_path: Path) -> None:
    """As pandas reads them."""
    path = parquet(tmp_path / "f", a=pyarrow.array([10, None, 30], pyarrow.int64()))
    assert labels(written(tmp_path, Table(path, ("a",), ("int",), 3)), [10, 30]) == [3, 5]


def test_a_null_text_is_no_category(tmp_path: Path) -> None:
    """No request bears one, and no text is taken for it."""
    path = parquet(tmp_path / "f", a=pyarrow.array(["x", None, ""], pyarrow.string()))
    asked = np.array([b"x", b"", b"None", b"\xff"])
    assert labels(written(tmp_path, Table(path, ("a",), ("text",), 3)), asked) == [3, 5, None, None]


def test_numbers_beside_keys(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", a=np.array([2, 1]), a_count=np.array([20, 10]))
    lookup = written(tmp_path, Table(path, ("a",), ("whole",), beside=("a_count",)))
    found, places = lookup.find([np.array([1, 2])])
    assert found.all()
    assert lookup.beside("a_count", places).tolist() == [10, 20]


def test_target_means(tmp_path: Path) -> None:
    """Sums and counts of a category, drawn towards the mean of all."""
    path = parquet(
        tmp_path / "f", a=np.array([1, 2]), n=np.array([2, 0]), s=np.array([3.0, 0.0])
    )  # fmt: skip
    table = Table(path, ("a",), ("whole",), means=Means(None, 20, (0.5,)))
    found, places = written(tmp_path, table).find([np.array([1, 2])])
    assert found.all()
    values = written(tmp_path, table).beside("0", places)
    assert values.tolist() == [(3.0 + 20 * 0.5) / 22, 0.5]


def test_target_means_of_folds(tmp_path: Path) -> None:
    """A fold's mean is of all the others' rows."""
    folds = parquet(
        tmp_path / "folds", __fold__=np.array([0, 1]), a=np.array([1, 1]), n=np.array([1, 3]),
        s=np.array([1.0, 2.0]),
    )  # fmt: skip
    overall = parquet(tmp_path / "all", a=np.array([1]), n=np.array([4]), s=np.array([3.0]))
    table = Table(
        folds, ("__fold__", "a"), ("whole", "whole"), means=Means(overall, 0, (0.5,))
    )  # fmt: skip
    lookup = written(tmp_path, table)
    _, places = lookup.find([np.array([0, 1]), np.array([1, 1])])
    assert lookup.beside("0", places).tolist() == [2.0 / 3, 1.0]


def broken(path: Path, fault: str) -> None:
    """A category file of `a` with whole numbers, and something wrong with it."""
    numbers = np.array([10, 20, 30])
    if fault == "missing":
        return
    if fault == "several parts":
        path.mkdir()
        parquet(path / "part.0.parquet", a=numbers)
        parquet(path / "part.1.parquet", a=numbers)
    elif fault == "no parts":
        path.mkdir()
    elif fault == "no parquet":
        path.write_bytes(b"PAR1 but not")
    elif fault == "empty":
        path.write_bytes(b"")
    elif fault == "cut off":
        parquet(path, a=numbers)
        path.write_bytes(path.read_bytes()[:-30])
    elif fault == "damaged":
        parquet(path, a=np.arange(10_000))
        content = bytearray(path.read_bytes())
        content[50:2000] = b"\xee" * 1950
        path.write_bytes(content)
    elif fault == "another column":
        parquet(path, b=numbers)
    elif fault == "texts":
        parquet(path, a=["10", "20"])
    elif fault == "lists":
        parquet(path, a=[[10], [20]])
    elif fault == "times":
        parquet(path, a=pyarrow.array([1, 2], pyarrow.timestamp("s")))
    elif fault == "twice":
        parquet(path, a=np.array([10, 20, 10]))
    elif fault == "several levels":
        parquet(path, a=numbers)
        table = pyarrow.table({"a": numbers}).replace_schema_metadata(
            {"pandas": json.dumps({"index_columns": ["a", "b"]})}
        )
        pyarrow.parquet.write_table(table, path)
    elif fault == "an index of another size":
        parquet(path, span(0, 9), a=numbers)
    elif fault == "an index that is not there":
        table = pyarrow.table({"a": numbers}).replace_schema_metadata(
            {"pandas": json.dumps({"index_columns": ["gone"]})}
        )
        pyarrow.parquet.write_table(table, path)
    elif fault == "an unknown index":
        parquet(path, {"kind": "calendar"}, a=numbers)
    elif fault == "no metadata":
        table = pyarrow.table({"a": numbers}).replace_schema_metadata({"pandas": "{"})
        pyarrow.parquet.write_table(table, path)
    elif fault == "texts as an index":
        parquet(path, ["x", "y", "z"], a=numbers)
    elif fault == "an index with nulls":
        parquet(path, [3, None, 5], a=numbers)


FAULTS = (
    "missing", "several parts", "no parts", "no parquet", "empty", "cut off", "damaged",
    "another column", "texts", "lists", "times", "twice", "several levels",
    "an index of another size", "an index that is not there", "an unknown index", "no metadata",
    "texts as an index", "an index with nulls",
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_unusable_files(tmp_path: Path, fault: str) -> None:
    """Each is a TableUnusable that names the file: the workflow is then served as delivered."""
    path = tmp_path / "unique.a.parquet"
    broken(path, fault)
    with pytest.raises(TableUnusable) as refused:
        write_tables([Table(path, ("a",), ("int",), shift=3)], tmp_path)
    assert "unique.a.parquet" in str(refused.value)


def test_long_texts(tmp_path: Path) -> None:
    """All lookups would be as wide as the longest."""
    path = parquet(tmp_path / "f", a=["x" * MAX_TEXT_BYTES])
    written(tmp_path, Table(path, ("a",), ("text",), 3))
    parquet(path, a=["x" * (MAX_TEXT_BYTES + 1)])
    with pytest.raises(TableUnusable, match="has a text of 4097 bytes in 'a'"):
        written(tmp_path, Table(path, ("a",), ("text",), 3))


def test_text_beside_keys(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", a=np.array([1]), a_count=["many"])
    with pytest.raises(TableUnusable, match="has text in 'a_count'"):
        written(tmp_path, Table(path, ("a",), ("whole",), beside=("a_count",)))


@pytest.mark.parametrize(
    "columns",
    [
        {"a": np.array([1]), "n": np.array([1])},
        {"a": np.array([1]), "n": np.array([1]), "s": ["x"]},
        {"a": np.array([1]), "n": np.array([1]), "s": np.ones(1), "t": np.ones(1)},
    ],
)
def test_target_files_of_another_schema(tmp_path: Path, columns: dict[str, Any]) -> None:
    path = parquet(tmp_path / "f", **columns)
    with pytest.raises(TableUnusable, match="1 keys, a count and 1 sums"):
        written(tmp_path, Table(path, ("a",), ("whole",), means=Means(None, 20, (0.5,))))


def test_folds_that_are_not_in_the_file_of_all(tmp_path: Path) -> None:
    folds = parquet(
        tmp_path / "folds", __fold__=np.array([0]), a=np.array([2]), n=np.array([1]), s=np.ones(1)
    )  # fmt: skip
    overall = parquet(tmp_path / "all", a=np.array([1]), n=np.array([4]), s=np.ones(1))
    table = Table(folds, ("__fold__", "a"), ("whole", "whole"), means=Means(overall, 0, (0.5,)))
    with pytest.raises(TableUnusable, match="does not fit"):
        written(tmp_path, table)


def test_as_a_process(tmp_path: Path) -> None:
    """A job on its standard input; a table goes there and back whole."""
    path = parquet(tmp_path / "f", a=np.array([10, 20]))
    tables = [
        Table(path, ("a",), ("int",), shift=3),
        Table(tmp_path / "gone", ("a",), ("int",), means=Means(None, 1, (0.5,))),
    ]
    place = tmp_path / "written"
    place.mkdir()
    lookup = read_lookup(place, *process(job_text(tables[:1], place)))
    assert labels(lookup, [20]) == [4]
    with pytest.raises(TableUnusable, match="gone is missing"):
        process(job_text(tables, place))


def process(job: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", "workflows.tables"], input=job, capture_output=True, text=True,
        check=True, cwd=Path(ensemble_tools.__file__).parent, timeout=60,
    )  # fmt: skip
    return read_answer(done.stdout)


@pytest.mark.parametrize("fault", ["no parquet", "empty", "cut off", "damaged", "another column"])
def test_files_that_nothing_can_read(tmp_path: Path, fault: str) -> None:
    """NVTabular would fail at each request; the whole path comes through the process, too."""
    path = tmp_path / "unique.a.parquet"
    broken(path, fault)
    table = Table(path, ("a",), ("int",), shift=3)
    with pytest.raises(TableBroken) as refused:
        write_tables([table], tmp_path)
    with pytest.raises(TableBroken) as answered:
        process(job_text([table], tmp_path))
    assert (answered.value.path, answered.value.found) == (path, refused.value.found)


@pytest.mark.parametrize("fault", sorted({*FAULTS} - {
    "no parquet", "empty", "cut off", "damaged", "another column",
}))  # fmt: skip
def test_other_faults_are_nvtabulars_to_judge(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "unique.a.parquet"
    broken(path, fault)
    with pytest.raises(TableUnusable) as refused:
        write_tables([Table(path, ("a",), ("int",), shift=3)], tmp_path)
    assert not isinstance(refused.value, TableBroken)


@pytest.mark.parametrize("other", ["more.parquet", "below/part.0.parquet", "notes.txt"])
def test_other_files_in_a_directory(tmp_path: Path, other: str) -> None:
    """pandas reads all of them."""
    path = tmp_path / "f"
    (path / "below").mkdir(parents=True)
    if not other.startswith("below"):
        (path / "below").rmdir()
    parquet(path / "part.0.parquet", a=np.array([10]))
    parquet(path / other, a=np.array([20]))
    with pytest.raises(TableUnusable, match="is in 2 parts"):
        written(tmp_path, Table(path, ("a",), ("int",), shift=3))


def test_hidden_files_in_a_directory(tmp_path: Path) -> None:
    """dask's own metadata."""
    path = tmp_path / "f"
    path.mkdir()
    parquet(path / "part.0.parquet", a=np.array([10]))
    (path / "_metadata").touch()
    (path / ".part.0.parquet.crc").touch()
    assert labels(written(tmp_path, Table(path, ("a",), ("int",), shift=3)), [10]) == [3]


def test_a_directory_without_a_part(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.mkdir()
    parquet(path / "all.parquet", a=np.array([10]))
    with pytest.raises(TableUnusable, match="a directory without a part"):
        written(tmp_path, Table(path, ("a",), ("int",), shift=3))


@pytest.mark.parametrize(
    "index",
    [[2**53], [-(2**53)], pyarrow.array([2**64 - 1], pyarrow.uint64()), span(2**53, 2**53 + 1)],
)
def test_labels_that_floats_cannot_tell_apart(tmp_path: Path, index: Any) -> None:
    """pandas makes floats of them when a value of a request is unseen."""
    path = parquet(tmp_path / "f", index, a=np.array([10]))
    with pytest.raises(TableUnusable, match="too large"):
        written(tmp_path, Table(path, ("a",), ("int",), shift=3))


def test_the_largest_labels(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", [2**53 - 4], a=np.array([10]))
    assert labels(written(tmp_path, Table(path, ("a",), ("int",), 3)), [10]) == [2**53 - 4]


@pytest.mark.parametrize("beside", [(), ("b",)])
def test_an_index_that_is_a_key_or_beside_one(tmp_path: Path, beside: tuple[str, ...]) -> None:
    """pandas has no such column then."""
    index: Any = "b" if beside else "a"
    path = parquet(tmp_path / "f", index, a=np.array([10, 20]), b=np.array([1, 2]))
    with pytest.raises(TableUnusable, match="as its index"):
        written(tmp_path, Table(path, ("a",), ("int",), 3, beside))


def with_metadata(path: Path, metadata: Any) -> Path:
    table = pyarrow.table({"a": np.array([10, 20, 30])})
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    pyarrow.parquet.write_table(table.replace_schema_metadata({"pandas": text}), path)
    return path


@pytest.mark.parametrize(
    "metadata",
    [
        "", "[" * 100_000, "\\", '"x"', "null", "3", "[]", "{}",
        *({"index_columns": one} for one in (3, "a", None, {}, {"a": 1}, [["a"]], [3], [None])),
        *({"index_columns": [one]} for one in (
            {}, {"kind": "range"}, span(0, 3, 0), span(0, 2**70, 2**70), span(0, 2**62, 1),
            span(0, 10**18, 1), span(3, 0), span(0, 3, -1), {**span(0, 3), "start": "0"},
            {**span(0, 3), "stop": 3.0}, {**span(0, 3), "step": True},
        )),
    ],
)  # fmt: skip
def test_odd_metadata(tmp_path: Path, metadata: Any) -> None:
    """A sentence that names the file, and no array of what it claims."""
    path = with_metadata(tmp_path / "f", metadata)
    if metadata == "":  # as if there were none
        assert labels(written(tmp_path, Table(path, ("a",), ("int",), 3)), [10]) == [3]
        return
    with pytest.raises(TableUnusable, match="the category file f cannot be used") as refused:
        written(tmp_path, Table(path, ("a",), ("int",), shift=3))
    assert not isinstance(refused.value, TableBroken)


def test_an_index_downwards(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", span(10, 4, -2), a=np.array([1, 2, 3]))
    assert labels(written(tmp_path, Table(path, ("a",), ("int",), 3)), [1, 2, 3]) == [10, 8, 6]


def test_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    path = parquet(tmp_path / "f", a=np.array([1, 2, 3]))
    with pytest.raises(TableUnusable, match="has 3 rows; up to 2 are compiled"):
        written(tmp_path, Table(path, ("a",), ("int",), 3))


@pytest.mark.parametrize("error", [MemoryError, pyarrow.ArrowMemoryError])
@pytest.mark.parametrize("where", ["_columns", "_Writer"])
def test_too_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise error("no")

    monkeypatch.setattr(module, where, fail)
    path = parquet(tmp_path / "f", a=np.array([1, 2, 3]))
    with pytest.raises(TableUnusable, match="takes more memory than there is") as refused:
        written(tmp_path, Table(path, ("a",), ("int",), 3))
    assert not isinstance(refused.value, TableBroken)


def test_memory_is_limited(tmp_path: Path) -> None:
    """In the process: a file that claims more than the limit is refused, and nothing else dies."""
    script = (
        "import numpy, workflows.tables as tables\n"
        "tables._MEMORY = 2**30\n"
        "tables._columns = lambda *_: numpy.ones(2**28)\n"
        "tables.main()"
    )
    path = parquet(tmp_path / "f", a=np.array([1]))
    done = subprocess.run(
        [sys.executable, "-c", script], input=job_text([Table(path, ("a",), ("int",))], tmp_path),
        capture_output=True, text=True, check=True, cwd=Path(ensemble_tools.__file__).parent,
        timeout=60,
    )  # fmt: skip
    with pytest.raises(TableUnusable, match="takes more memory than there is"):
        read_answer(done.stdout)


def test_a_full_disk(tmp_path: Path) -> None:
    """The error's number comes through, here and through the process."""
    path = parquet(tmp_path / "f", a=np.arange(100_000))
    table = Table(path, ("a",), ("int",), 3)
    (tmp_path / "0.0.keys.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as here:
        write_tables([table], tmp_path)
    with pytest.raises(OSError, match="No space left") as there:
        process(job_text([table], tmp_path))
    assert here.value.errno == there.value.errno == errno.ENOSPC


_STARVED = """
import os, resource, sys
import pyarrow.parquet
import workflows.tables as tables
read = tables.json.load
def starved(file):
    job = read(file)
    taken = os.open("/dev/null", os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 1, taken + 1))
    return job
tables.json.load = starved
tables.main()
"""


def test_no_descriptor_for_a_file(tmp_path: Path) -> None:
    """A shortage says nothing of the file, so it is no reason to leave a workflow uncompiled."""
    path = parquet(tmp_path / "f", a=np.array([1]))
    done = subprocess.run(
        [sys.executable, "-c", _STARVED], input=job_text([Table(path, ("a",), ("int",))], tmp_path),
        capture_output=True, text=True, check=True, cwd=Path(ensemble_tools.__file__).parent,
        timeout=60,
    )  # fmt: skip
    with pytest.raises(OSError, match="Too many open files") as lacking:
        read_answer(done.stdout)
    assert lacking.value.errno == errno.EMFILE


def test_rows_from_nothing(tmp_path: Path) -> None:
    """A KB can stand for gigabytes of one value; categories differ, so theirs cannot."""
    path = parquet(tmp_path / "f", a=np.zeros(5_000_000, np.int64))
    assert path.stat().st_size < 100_000
    with pytest.raises(TableUnusable, match=r"has 5000000 rows in \d+ bytes"):
        write_tables([Table(path, ("a",), ("int",))], tmp_path)
    written(tmp_path, Table(parquet(tmp_path / "g", a=np.arange(1_000_000)), ("a",), ("int",)))
