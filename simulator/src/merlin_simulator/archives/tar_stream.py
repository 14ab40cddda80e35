"""The bytes of a tar, inflated where they are compressed, and counted."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from merlin_simulator.archives.archive_faults import REMEDY, NotExtractable, too_large
from merlin_simulator.errors import PlatformFailed
from merlin_simulator.rules import ExtractionLimits

BLOCK = 512  # bytes; POSIX ustar
CHUNK = 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_OTHER_FORMATS = {
    b"PK": "a zip file",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstandard",
}


class TarStream:
    """The tar's bytes, inflated where they are compressed; every reader of them counts here."""

    def __init__(
        self, raw: IO[bytes], limits: ExtractionLimits, cancelled: Callable[[], bool]
    ) -> None:
        self._cancelled = cancelled
        size = os.fstat(raw.fileno()).st_size
        start = raw.read(8)
        raw.seek(0)
        self.compressed = start.startswith(_GZIP_MAGIC)
        self._check_start(start, size)
        self._bytes: IO[bytes] = gzip.GzipFile(fileobj=raw) if self.compressed else raw  # type: ignore[assignment]
        self.limit = _most_bytes(size, limits)
        # Headers and padding come on top of the files, in measure.
        self._remaining = self.limit + 4 * BLOCK * limits.members

    def _check_start(self, start: bytes, size: int) -> None:
        if not start:
            raise NotExtractable(f"It is empty (0 bytes): {REMEDY}.")
        if size < BLOCK and not self.compressed:
            raise NotExtractable(
                f"It is no archive ({size} bytes, expected a gzip-compressed tar): {REMEDY}."
            )
        for magic, what in _OTHER_FORMATS.items():
            if start.startswith(magic):
                raise NotExtractable(f"It is {what}, expected a gzip-compressed tar: {REMEDY}.")

    def read(self, size: int) -> bytes:
        """As many bytes as asked for; fewer at the end only. size is small (a chunk)."""
        if self._cancelled():
            raise PlatformFailed("The extraction was given up: the endpoint is stopping.")
        try:
            data = self._read(size)
        except EOFError as error:
            raise NotExtractable(f"It is cut off inside its gzip data: {REMEDY}.") from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise NotExtractable(f"Its gzip data is damaged ({error}): {REMEDY}.") from error
        self._remaining -= len(data)
        if self._remaining < 0:
            raise too_large(self.limit)
        return data

    def _read(self, size: int) -> bytes:
        parts = []
        while size and (part := self._bytes.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """As many bytes as asked for, or NotExtractable."""
        data = self.read(size)
        if len(data) != size:
            raise NotExtractable(f"It is cut off: {REMEDY}.")
        return data

    def chunks(self, size: int) -> Iterator[bytes]:
        """Exactly size bytes in parts."""
        while size:
            chunk = self.exactly(min(size, CHUNK))
            size -= len(chunk)
            yield chunk

    def check_rest(self) -> None:
        """Read to the end: gzip's checksums stand there. What follows the tar's end is ignored."""
        while self.read(CHUNK):
            pass


def pad_size(size: int) -> int:
    """With what fills the last block."""
    return -(-size // BLOCK) * BLOCK


def _most_bytes(archive_bytes: int, limits: ExtractionLimits) -> int:
    by_ratio = max(limits.ratio_from_bytes, int(limits.ratio * archive_bytes))
    return min(limits.total_bytes, by_ratio)
