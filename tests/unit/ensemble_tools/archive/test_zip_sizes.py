"""What zip archives say that they unpack to."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from ensemble_tools.archive.zip_sizes import measure_unpacked

TORCHSCRIPT = Path(__file__).parents[4] / (
    "examples/merlin/dense/repository/1_predictpytorchtriton/1/model.pt"
)


def test_torchscript() -> None:
    """As torch writes it: each entry as large as it is."""
    with zipfile.ZipFile(TORCHSCRIPT) as archive:
        assert measure_unpacked(TORCHSCRIPT) == sum(it.file_size for it in archive.infolist())


def test_compressed(tmp_path: Path) -> None:
    """A comment of the archive, and one of an entry, are passed over."""
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"of the archive"
        entry = zipfile.ZipInfo("a")
        entry.comment, entry.compress_type = b"of an entry", zipfile.ZIP_DEFLATED
        archive.writestr(entry, bytes(5_000_000))
        archive.writestr("b", b"12345")
    assert path.stat().st_size < 10_000
    assert measure_unpacked(path) == 5_000_005


def wide_archive(size: int) -> bytes:
    """An archive with 64-bit numbers: an entry of the size, of which nothing is there."""
    extra = struct.pack("<HHQ", 1, 8, size)
    entry = b"PK\1\2" + struct.pack(
        "<HHHHHHIIIHHHHHII", 45, 45, 0, 0, 0, 0, 0, 0, 2**32 - 1, 1, len(extra), 0, 0, 0, 0, 0
    )
    entry += b"a" + extra
    wide = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, len(entry), 0)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, len(entry), 1)
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 2**32 - 1, 2**32 - 1, 0)
    return entry + wide + locator + end


def test_wide(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(wide_archive(2**40))
    assert measure_unpacked(tmp_path / "model.pt") == 2**40


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        b"PK\5\6",
        wide_archive(5)[-22:],
        wide_archive(5)[-42:],
        wide_archive(5)[:-30],
    ],
)
def test_no_archive(tmp_path: Path, content: bytes) -> None:
    """What is none, or is cut off, holds nothing that torch could load."""
    (tmp_path / "model.pt").write_bytes(content)
    assert measure_unpacked(tmp_path / "model.pt") == 0


def test_no_file(tmp_path: Path) -> None:
    assert measure_unpacked(tmp_path / "model.pt") is None
