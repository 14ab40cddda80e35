"""A tar.gz whose common part is compressed once and continued many times.

Deflate data may be cut at a full flush: what follows refers to nothing before it. So the compressed
common entries are the same bytes in every archive, each goes on with its own entries, and the
trailer's checksum is continued, too. The result is one ordinary gzip member (RFC 1952): archives of
several members are not read by everything that reads gzip, Python's tarfile as a stream among it.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: RFC 1952: magic, deflate, no flags, no time, "fastest", unknown system.
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
#: Weights hardly compress, and the time of packing is somebody's.
_LEVEL = 1
_SIZE_MODULUS = 1 << 32
#: Two empty blocks end a tar.
_END_OF_TAR = bytes(2 * tarfile.BLOCKSIZE)
#: What Python leaves beside a model that was imported.
_LEFT_OUT = "__pycache__"


@dataclass(frozen=True)
class Common:
    """The entries that many archives begin with, compressed."""

    deflated: bytes
    checksum: int
    size: int


def common_entries(folder: Path, prefix: str = "") -> Common:
    """A folder's content below the prefix, links followed, owners and times left out."""
    deflating = _Deflating(file := io.BytesIO())
    _add_folder(deflating, folder, prefix)
    deflating.flush(zlib.Z_FULL_FLUSH)
    return Common(file.getvalue(), deflating.checksum, deflating.size)


def write_continued(archive: Path, common: Common, own: Mapping[str, bytes]) -> None:
    """The common entries, then files of this archive's own."""
    with archive.open("wb") as file:
        file.write(_HEADER + common.deflated)
        deflating = _Deflating(file, common.checksum, common.size)
        tar = tarfile.TarFile(fileobj=deflating, mode="w")  # type: ignore[arg-type]  # writes only
        for name, content in own.items():
            entry = _plain(tarfile.TarInfo(name))
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        deflating.finish()


def write_folder(archive: Path, folder: Path) -> None:
    """A folder's content as an archive, at the top of it; never whole in memory."""
    with archive.open("wb") as file:
        file.write(_HEADER)
        deflating = _Deflating(file)
        _add_folder(deflating, folder, "")
        deflating.finish()


class _Deflating:
    """What tarfile writes into: compressed, counted and summed on its way to the file."""

    def __init__(self, file: BinaryIO, checksum: int = 0, size: int = 0) -> None:
        self._file, self.checksum, self.size = file, checksum, size
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)

    def write(self, data: bytes) -> int:
        self._file.write(self._deflate.compress(data))
        self.checksum = zlib.crc32(data, self.checksum)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self, mode: int) -> None:
        self._file.write(self._deflate.flush(mode))

    def finish(self) -> None:
        self.write(_END_OF_TAR)
        self.flush(zlib.Z_FINISH)
        self._file.write(self.checksum.to_bytes(4, "little"))
        self._file.write((self.size % _SIZE_MODULUS).to_bytes(4, "little"))


def _add_folder(deflating: _Deflating, folder: Path, prefix: str) -> None:
    tar = tarfile.TarFile(
        fileobj=deflating,  # type: ignore[arg-type]  # only written to
        mode="w",
        dereference=True,
    )
    for path in sorted(folder.iterdir()):
        if path.name != _LEFT_OUT:
            tar.add(path, prefix + path.name, filter=_kept)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name == _LEFT_OUT else _plain(entry)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry
