"""A packed archive becomes a directory for a while, or nothing: none writes anything outside of it.

tarfile reads the headers and its data filter judges names; what is written is written here, within
bounds, and links come last, so that no path below the directory leads out of it before that. Of
headers that say more of the next one, tarfile reads any number into memory, and each within the one
before: they are bounded where it reads them.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from ensemble_tools.archive.files import A_POINTER, POINTER
from ensemble_tools.errors import PackedArchive, quoted

_GIB, _MIB = 1 << 30, 1 << 20
_GZIP = b"\x1f\x8b"
#: How other files begin that people take for a .tar.gz.
_OTHERS = {
    b"PK\3\4": "a zip archive",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ": "packed with xz",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
    POINTER: A_POINTER,
}
_LONGEST_BEGIN = max(map(len, _OTHERS))
_CHUNK = 256 * 1024
#: Of all headers of one member; a path is 4 KiB at most. And values that are said of all members.
_LONGEST_HEADER, _MOST_GLOBAL = _MIB, 100
#: What tarfile raises at headers that it cannot read, sentences of its own and Python's.
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError)
_BLOCK = 512
#: Directories in one another; a SavedModel or a python package has some ten.
_MOST_DEPTH = 100


@dataclass(frozen=True)
class ExtractionLimits:
    """What an archive may bring; anything beyond it is refused before it is written."""

    total_bytes: int = 20 * _GIB
    members: int = 100_000
    #: Bytes of the directory for each byte of the archive, once there are more than
    #: ratio_from_bytes.
    ratio: float = 1000.0
    ratio_from_bytes: int = 64 * _MIB

    def most_bytes(self, packed: int) -> int:
        """The most bytes of all files together, in an archive of so many bytes."""
        return min(self.total_bytes, max(self.ratio_from_bytes, int(self.ratio * packed)))


LIMITS = ExtractionLimits()
#: Of tarfile's sentences, the place in a temporary directory.
_OUTSIDE = re.compile(r" to .*, which is outside the destination$", re.DOTALL)


@contextlib.contextmanager
def opened(path: Path, limits: ExtractionLimits = LIMITS) -> Iterator[Path]:
    """The directory itself; a file is extracted for as long as the block lasts. Blocking.

    Raises PackedArchive for what is no archive, or holds what none may hold; OSError.
    """
    if not path.is_file():
        yield path
        return
    staging = Path(tempfile.mkdtemp(prefix="archive-"))
    try:
        into = staging / (path.name.split(".")[0] or "archive")
        into.mkdir()
        extract(path, into, limits)
        yield into
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def extract(path: Path, into: Path, limits: ExtractionLimits = LIMITS) -> None:
    """Write all of it below `into`, which is empty: files, directories and links inside of it."""
    try:
        with path.open("rb") as raw, _Bytes(path, raw, limits) as tar_bytes:
            _extract(path, tar_bytes, into, limits)
    except _DAMAGED as error:
        raise PackedArchive(path, _sentence(path, error)) from error


def _sentence(path: Path, error: Exception) -> str:
    if isinstance(error, tarfile.FilterError):
        return _OUTSIDE.sub(" to a place outside the destination", str(error))
    with path.open("rb") as file:
        begin = file.read(_LONGEST_BEGIN)
    for known, kind in _OTHERS.items():
        if begin.startswith(known):
            return f"it is {kind}"
    return f"it is no archive, or a damaged one ({str(error)[:200]})"


class _Bytes:
    """The tar's bytes for tarfile: inflated where they are compressed, counted, read once."""

    def __init__(self, path: Path, raw: IO[bytes], limits: ExtractionLimits) -> None:
        self._path, self._at = path, 0
        packed = os.fstat(raw.fileno()).st_size
        compressed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        self._file = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if compressed else raw
        self.most_bytes = limits.most_bytes(packed)
        self._most = self.most_bytes + 4 * _BLOCK * limits.members
        #: The last that was read; and how much more tarfile may read of one member's headers.
        self.last = b""
        self._of_headers: int | None = _LONGEST_HEADER

    def __enter__(self) -> _Bytes:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._file, gzip.GzipFile):
            self._file.close()

    def read(self, size: int) -> bytes:
        """Next bytes, fewer at the end only; raises PackedArchive beyond the bounds."""
        if self._of_headers is not None:
            self._of_headers -= size
            if self._of_headers < 0:
                raise PackedArchive(
                    self._path, f"a member's headers take more than {_LONGEST_HEADER} bytes"
                )
        return self._take(size)

    @contextlib.contextmanager
    def contents(self) -> Iterator[None]:
        """In the block a member's contents are read; behind it the next one's headers."""
        self._of_headers = None
        yield
        self._of_headers = _LONGEST_HEADER

    def _take(self, size: int) -> bytes:
        self.last = self._file.read(size)
        self._at += len(self.last)
        if self._at > self._most:
            raise too_large(self._path, self.most_bytes)
        return self.last

    def tell(self) -> int:
        """How many bytes were read."""
        return self._at

    def seek(self, offset: int) -> None:
        """Forward, by reading; tarfile goes back nowhere."""
        while self._at < offset and self._take(min(_CHUNK, offset - self._at)):
            pass


def too_large(path: Path, limit: int) -> PackedArchive:
    """limit: bytes that it may take."""
    return PackedArchive(path, f"it takes more than {limit} bytes when it is extracted")


def _extract(path: Path, tar_bytes: _Bytes, into: Path, limits: ExtractionLimits) -> None:
    tree = _Tree(path, into, tar_bytes.most_bytes)
    count = 0
    with tarfile.open(mode="r:", fileobj=cast("IO[bytes]", tar_bytes)) as archive:
        for member in archive:
            count += 1
            if count > limits.members:
                raise PackedArchive(path, f"it has more than {limits.members} members")
            if len(archive.pax_headers) > _MOST_GLOBAL:
                raise PackedArchive(path, f"it has more than {_MOST_GLOBAL} headers of all members")
            with tar_bytes.contents():
                tree.add(archive, member)
            archive.members.clear()  # type: ignore[attr-defined]  # they would pile up
    if any(tar_bytes.last):
        raise PackedArchive(path, "one of its headers is damaged")
    with tar_bytes.contents():
        while tar_bytes.read(_CHUNK):  # gzip's checksum stands at the end
            pass
    if not count:
        raise PackedArchive(path, "there are no files in it")
    tree.make_links()


class _Tree:
    """The files that are written below `into`."""

    def __init__(self, path: Path, into: Path, most_bytes: int) -> None:
        self._path, self._into, self._most_bytes = path, into, most_bytes
        self._written = 0
        #: The last of a name wins.
        self._links: dict[Path, str] = {}

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write a member and the directories above it; raises PackedArchive, FilterError."""
        filtered = tarfile.data_filter(member, str(self._into))
        parts = Path(filtered.name).parts
        if len(parts) > _MOST_DEPTH or ".." in parts:
            raise self._refusal(member, "it lies too deep, or above where it is extracted")
        path = self._into.joinpath(*parts)
        self._make_directories(member, path if member.isdir() else path.parent)
        if member.isdir():
            return
        if path.is_dir():
            raise self._refusal(member, "it is a directory, too")
        path.unlink(missing_ok=True)
        self._links.pop(path, None)
        if member.issym():
            self._links[path] = member.linkname
        elif member.islnk():
            self._link_hard(filtered, path)
        elif member.isreg() and not member.issparse():
            self._write(archive, member, path)
        else:
            raise self._refusal(member, "it is neither a file, nor a directory, nor a link")

    def _make_directories(self, member: tarfile.TarInfo, path: Path) -> None:
        above = {path, *path.parents}
        if above & self._links.keys():
            raise self._refusal(member, "it lies below a link")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise self._refusal(member, "it lies below a file") from error

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        self._written += member.size
        if self._written > self._most_bytes:
            raise too_large(self._path, self._most_bytes)
        source: Any = archive.extractfile(member)
        with path.open("xb") as file:
            while chunk := source.read(_CHUNK):
                file.write(chunk)
            os.fchmod(file.fileno(), 0o755 if member.mode & 0o100 else 0o644)

    def _link_hard(self, member: tarfile.TarInfo, path: Path) -> None:
        target = self._into / member.linkname
        if ".." in target.parts or target.is_symlink() or not target.is_file():
            raise self._refusal(member, "it is a link to no file before it")
        os.link(target, path)

    def make_links(self) -> None:
        """The symbolic ones; each is followed, as the system would, through all the others."""
        for path, target in self._links.items():
            path.symlink_to(target)
        within = os.path.realpath(self._into)
        for path, target in self._links.items():
            end = os.path.realpath(path)
            if os.path.isabs(target) or os.path.commonpath([end, within]) != within:
                raise PackedArchive(
                    self._path,
                    f"its link {quoted(path.name)} leads to {quoted(target)}, out of the archive",
                )

    def _refusal(self, member: tarfile.TarInfo, why: str) -> PackedArchive:
        return PackedArchive(self._path, f"its member {quoted(member.name)} is refused: {why}")
