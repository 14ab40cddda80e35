"""The archive's bytes. The same input gives the same ones, up to zlib's release.

Entries are sorted, times are 0, owners are root, modes are 0755 for directories and programs and
0644 for files.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable
from typing import IO, cast

from ensemble_tools.packing.source_tree import Entry, SourceTree

#: Is told of bytes that are done.
Advance = Callable[[int], object]
#: gzip's own default: on model files 9 takes twice as long for a percent.
LEVEL = 6


def write_archive(tree: SourceTree, file: IO[bytes], advance: Advance) -> None:
    """The gzip tar, to an open file; advance is told of the unpacked bytes done."""
    with (
        gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as compressed,
        tarfile.open(mode="w", fileobj=compressed, format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in tree.entries:
            header = _describe(entry)
            if entry.is_directory:
                archive.addfile(header)
                continue
            with entry.source.open("rb") as source:
                archive.addfile(header, cast("IO[bytes]", _ReportingFile(source, advance)))


class _ReportingFile:
    """A file that tells of what is read from it, for tarfile."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file, self._advance = file, advance

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._advance(len(data))
        return data


def _describe(entry: Entry) -> tarfile.TarInfo:
    """A header that says nothing about the machine or the day; TarInfo's owner is 0 and nameless."""  # noqa: E501  # one fact each
    header = tarfile.TarInfo(entry.path)
    header.mtime = 0
    header.type = tarfile.DIRTYPE if entry.is_directory else tarfile.REGTYPE
    header.mode = 0o755 if entry.is_directory or entry.executable else 0o644
    header.size = entry.size
    return header
