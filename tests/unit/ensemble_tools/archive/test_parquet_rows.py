"""How many rows parquet files say that they have."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from ensemble_tools.archive.parquet_rows import count_rows
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
    assert (found.count, found.texts) == (rows, rows > 0)  # without rows pyarrow knows no type


@pytest.mark.parametrize("columns", [{"a": [1]}, {"a": [True], "b": [0.5]}, {"a": [[1]]}])
def test_numbers_alone(tmp_path: Path, columns: dict[str, list[object]]) -> None:
    found = count_rows(parquet(tmp_path / "f", [7], **columns))
    assert (found.count, found.texts) == (1, False)


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
