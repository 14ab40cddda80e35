"""How many rows parquet files say that they have."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ensemble_tools.archive.parquet_footer import count_rows
from tests.support.category_files import parquet, span


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 100_000])
def test_rows(tmp_path: Path, rows: int) -> None:
    """Of each kind of column that pyarrow describes in other words, and with pandas' metadata."""
    columns = {
        "a": np.arange(rows),
        "text": ["x"] * rows,
        "flag": np.zeros(rows, bool),
        "time": np.zeros(rows, "datetime64[ns]"),
        "lists": [[1.5]] * rows,
    }
    found = count_rows(parquet(tmp_path / "f", span(0, rows), **columns))
    assert found.count == rows
    assert (found.text_bytes > 0) == (rows > 0)  # without rows pyarrow knows no type


@pytest.mark.parametrize("columns", [{"a": [1]}, {"a": [True], "b": [0.5]}, {"a": [[1]]}])
def test_numbers_alone(tmp_path: Path, columns: dict[str, list[object]]) -> None:
    found = count_rows(parquet(tmp_path / "f", [7], **columns))
    assert (found.count, found.text_bytes) == (1, 0)


@pytest.mark.parametrize("letters", [4, 36, 2000])
def test_bytes_of_texts(tmp_path: Path, letters: int) -> None:
    """As they are before they are compressed; each has its length in front."""
    texts = [f"{number:0{letters}}" for number in range(5000)]
    found = count_rows(parquet(tmp_path / "f", text=texts))
    assert found.count == 5000
    assert found.text_bytes == pytest.approx(5000 * (4 + letters), rel=0.3)


def test_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert count_rows(path).count == 0
    for content in (b"", b"PAR1", b"\xff\xff\xff\xffPAR1", b"\x19\xf3" + b"\xff" * 9 + b"PAR1"):
        path.write_bytes(content)
        assert count_rows(path).count == 0


def test_a_list_that_claims_to_be_endless(tmp_path: Path) -> None:
    """Of booleans, which take no bytes elsewhere: it is cut off, and that is found at once."""
    footer = b"\x29\xf1" + b"\xff" * 8 + b"\x01"
    content = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "f").write_bytes(content)
    assert count_rows(tmp_path / "f").count == 0


def test_damaged_footers(tmp_path: Path) -> None:
    """Whatever stands there, the answer is a number, and it comes at once."""
    path = parquet(tmp_path / "f", a=np.arange(100), text=["x"] * 100)
    content, chance = path.read_bytes(), random.Random(5)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(chance.randrange(1, 9)):
            damaged[chance.randrange(len(content) - 600, len(content) - 8)] = chance.randrange(256)
        path.write_bytes(damaged)
        assert count_rows(path).count >= 0


def test_more_groups_than_are_read(tmp_path: Path) -> None:
    """The rows are known nonetheless, and the bytes of the first groups."""
    table = pyarrow.table({"text": [f"{number:036}" for number in range(3000)]})
    pyarrow.parquet.write_table(table, tmp_path / "f", row_group_size=4)
    found = count_rows(tmp_path / "f")
    assert found.count == 3000
    assert 10_000 < found.text_bytes < 300_000
