"""Category files: what is read of them, and what makes them unusable."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import TableBroken, TableUnusable, write_tables
from ensemble_tools.workflows.tables.arrays import MAX_TEXT_BYTES
from ensemble_tools.workflows.tables.category_files import CategoryFiles
from tests.support.category_files import (
    FAULTS,
    labels,
    looked_up,
    parquet,
    span,
    with_metadata,
    write_broken,
)
from tests.support.pickled_files import write_parquet


def test_a_file_of_one_part_in_a_directory(tmp_path: Path) -> None:
    """dask writes directories."""
    (tmp_path / "unique.a.parquet").mkdir()
    parquet(tmp_path / "unique.a.parquet/part.0.parquet", a=np.array([10]))
    table = Table(tmp_path / "unique.a.parquet", ("a",), ("int",), shift=3)
    assert labels(looked_up(tmp_path, table), [10]) == [3]


def test_nulls_in_a_column_of_whole_numbers_are_nan(tmp_path: Path) -> None:
    """As pandas reads them."""
    path = parquet(tmp_path / "f", a=pyarrow.array([10, None, 30], pyarrow.int64()))
    assert labels(looked_up(tmp_path, Table(path, ("a",), ("int",), 3)), [10, 30]) == [3, 5]


def test_a_null_text_is_no_category(tmp_path: Path) -> None:
    """No request bears one, and no text is taken for it."""
    path = parquet(tmp_path / "f", a=pyarrow.array(["x", None, ""], pyarrow.string()))
    asked = np.array([b"x", b"", b"None", b"\xff"])
    assert labels(looked_up(tmp_path, Table(path, ("a",), ("text",), 3)), asked) == [
        3,
        5,
        None,
        None,
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_unusable_files(tmp_path: Path, fault: str) -> None:
    """Each is a TableUnusable that names the file: the workflow is then served as delivered."""
    path = tmp_path / "unique.a.parquet"
    write_broken(path, fault)
    with pytest.raises(TableUnusable) as refused:
        write_tables([Table(path, ("a",), ("int",), shift=3)], tmp_path)
    assert "unique.a.parquet" in str(refused.value)


def test_long_texts(tmp_path: Path) -> None:
    """All lookups would be as wide as the longest."""
    path = parquet(tmp_path / "f", a=["x" * MAX_TEXT_BYTES])
    looked_up(tmp_path, Table(path, ("a",), ("text",), 3))
    parquet(path, a=["x" * (MAX_TEXT_BYTES + 1)])
    with pytest.raises(TableUnusable, match="has a text of 4097 bytes in 'a'"):
        looked_up(tmp_path, Table(path, ("a",), ("text",), 3))


@pytest.mark.parametrize(
    "fault",
    sorted(
        {*FAULTS}
        - {
            "no parquet",
            "empty",
            "cut off",
            "damaged",
            "another column",
        }
    ),
)
def test_other_faults_are_nvtabulars_to_judge(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "unique.a.parquet"
    write_broken(path, fault)
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
        looked_up(tmp_path, Table(path, ("a",), ("int",), shift=3))


def test_hidden_files_in_a_directory(tmp_path: Path) -> None:
    """dask's own metadata."""
    path = tmp_path / "f"
    path.mkdir()
    parquet(path / "part.0.parquet", a=np.array([10]))
    (path / "_metadata").touch()
    (path / ".part.0.parquet.crc").touch()
    assert labels(looked_up(tmp_path, Table(path, ("a",), ("int",), shift=3)), [10]) == [3]


def test_a_directory_without_a_part(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.mkdir()
    parquet(path / "all.parquet", a=np.array([10]))
    with pytest.raises(TableUnusable, match="a directory without a part"):
        looked_up(tmp_path, Table(path, ("a",), ("int",), shift=3))


@pytest.mark.parametrize("beside", [(), ("b",)])
def test_an_index_that_is_a_key_or_beside_one(tmp_path: Path, beside: tuple[str, ...]) -> None:
    """pandas has no such column then."""
    index: Any = "b" if beside else "a"
    path = parquet(tmp_path / "f", index, a=np.array([10, 20]), b=np.array([1, 2]))
    with pytest.raises(TableUnusable, match="as its index"):
        looked_up(tmp_path, Table(path, ("a",), ("int",), 3, beside))


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "[" * 100_000,
        "\\",
        '"x"',
        "null",
        "3",
        "[]",
        "{}",
        *(
            {"index_columns": columns}
            for columns in (3, "a", None, {}, {"a": 1}, [["a"]], [3], [None])
        ),
        *(
            {"index_columns": [column]}
            for column in (
                {},
                {"kind": "range"},
                span(0, 3, 0),
                span(0, 2**70, 2**70),
                span(0, 2**62, 1),
                span(0, 10**18, 1),
                span(3, 0),
                span(0, 3, -1),
                {**span(0, 3), "start": "0"},
                {**span(0, 3), "stop": 3.0},
                {**span(0, 3), "step": True},
            )
        ),
    ],
)
def test_odd_metadata(tmp_path: Path, metadata: Any) -> None:
    """A sentence that names the file, and no array of what it claims."""
    path = with_metadata(tmp_path / "f", metadata)
    if metadata == "":  # as if there were none
        assert labels(looked_up(tmp_path, Table(path, ("a",), ("int",), 3)), [10]) == [3]
        return
    with pytest.raises(TableUnusable, match="the category file f cannot be used") as refused:
        looked_up(tmp_path, Table(path, ("a",), ("int",), shift=3))
    assert not isinstance(refused.value, TableBroken)


def test_an_index_downwards(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", span(10, 4, -2), a=np.array([1, 2, 3]))
    assert labels(looked_up(tmp_path, Table(path, ("a",), ("int",), 3)), [1, 2, 3]) == [10, 8, 6]


def test_too_many_rows(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", a=np.array([1, 2, 3]))
    with pytest.raises(TableUnusable, match="has 3 rows; up to 2 are compiled"):
        looked_up(tmp_path, Table(path, ("a",), ("int",), 3), CategoryFiles(max_rows=2))


def test_rows_from_nothing(tmp_path: Path) -> None:
    """A KB can stand for gigabytes of one value; categories differ, so theirs cannot.

    Nothing should read it, whether it is a table of its own or only checked; nor should it be read
    in parts, or because of a file before it that is not compiled.
    """
    path = parquet(tmp_path / "f", a=np.zeros(5_000_000, np.int64))
    assert path.stat().st_size < 100_000
    parts = [parquet(tmp_path / f"p{n}", a=np.zeros(900_000, np.int64)) for n in range(5)]
    text = parquet(tmp_path / "t", a=np.array(["text"]))
    below = tmp_path / "d/below/x=1"
    below.mkdir(parents=True)
    shutil.copy(path, below)
    for tables in (
        [Table(path, ("a",), ("int",))],
        [Table(tmp_path / "d", (), ())],
        [Table(path, (), ())],
        [Table(part, (), ()) for part in parts],
        [Table(text, ("a",), ("int",)), Table(path, ("a",), ("int",))],
    ):
        with pytest.raises(TableBroken, match=r"has \d+ rows in \d+ bytes, more than"):
            write_tables(tables, tmp_path)
    assert write_tables([Table(part, (), ()) for part in [*parts[:4], text]], tmp_path) == []
    looked_up(tmp_path, Table(parquet(tmp_path / "g", a=np.arange(1_000_000)), ("a",), ("int",)))


def repeated(path: Path, text: str, rows: int, **options: Any) -> Path:
    """A file with one text in all rows, which stands in it once."""
    places = pyarrow.array(np.zeros(rows, np.int32))
    texts = pyarrow.DictionaryArray.from_arrays(places, pyarrow.array([text]))
    table = pyarrow.table({"a": texts})
    pyarrow.parquet.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


def test_texts_from_nothing(tmp_path: Path) -> None:
    """A dictionary's text counts in each row that has it, and all files of a workflow together."""
    path = repeated(tmp_path / "f", "x" * 1_000_000, 60_000)
    assert path.stat().st_size < 1000
    parts = [repeated(tmp_path / f"p{number}", "x" * 1_000_000, 900) for number in range(2)]
    for paths in ([path], parts):
        with pytest.raises(TableBroken, match=r"has \d+ bytes that stand for \d+"):
            CategoryFiles().check(paths)
    CategoryFiles().check(parts[:1])


@pytest.mark.parametrize(
    "options", [{"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}, {}]
)
def test_many_different_texts(tmp_path: Path, options: dict[str, Any]) -> None:
    """However they are encoded, they are what they are."""
    texts = pyarrow.table({"a": [f"title {number}" for number in range(50_000)]})
    pyarrow.parquet.write_table(texts, tmp_path / "f", **options)
    CategoryFiles().check([tmp_path / "f"])


def test_a_list_of_many_values_in_one_row(tmp_path: Path) -> None:
    """Rows are not what counts."""
    values = pyarrow.array(np.zeros(5_000_000, np.int8))
    lists = pyarrow.ListArray.from_arrays(pyarrow.array([0, len(values)], pyarrow.int32()), values)
    with pytest.raises(TableBroken, match=r"has 5000000 rows in \d+ bytes"):
        CategoryFiles().check([parquet(tmp_path / "f", a=lists)])


def test_files_without_end(tmp_path: Path) -> None:
    """A directory that no Categorify wrote, such as a machine's root, is not gone through."""
    for number in range(1_001):
        (tmp_path / "d" / str(number)).mkdir(parents=True)
    with pytest.raises(TableBroken, match="has more than 1000 files"):
        write_tables([Table(tmp_path / "d", (), ())], tmp_path)


def varint(value: int, length: int = 0) -> bytes:
    """As Thrift's compact protocol has a number that is not negative, in so many bytes at least."""
    value, made = value * 2, bytearray()
    while value >= 128 or len(made) + 1 < length:
        made.append(value % 128 | 128)
        value //= 128
    return bytes([*made, value])


def test_texts_from_nothing_with_an_untrue_footer(tmp_path: Path) -> None:
    """It says that they have ten bytes."""
    path = repeated(tmp_path / "f", "x" * 1_000_000, 60_000)
    chunk = pyarrow.parquet.read_metadata(path).row_group(0).column(0)
    true = varint(chunk.total_uncompressed_size)
    content = path.read_bytes()
    assert true in content
    path.write_bytes(content.replace(true, varint(10, len(true))))
    chunk = pyarrow.parquet.read_metadata(path).row_group(0).column(0)
    assert chunk.total_uncompressed_size == 10
    with pytest.raises(TableBroken, match=r"has \d+ bytes that stand for \d+"):
        CategoryFiles().check([path])


def test_a_type_that_older_pyarrow_unpickles(tmp_path: Path) -> None:
    """Before 14.0.1 it runs what the file says (CVE-2023-47248); here the numbers are read."""
    marker = tmp_path / "ran"
    write_parquet(tmp_path / "f", marker)
    CategoryFiles().check([tmp_path / "f"])
    assert labels(looked_up(tmp_path, Table(tmp_path / "f", ("a",), ("int",), 3)), [20]) == [4]
    assert not marker.exists()
