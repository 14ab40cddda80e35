"""Bytes of objects as files, and a record of each object: one JSON file that names the bytes.

Whoever reads a value reads its file in pieces, so that no object is in memory as a whole. Bytes
that no record names any more are removed; those of a record only after it was replaced.
"""

from __future__ import annotations

import json
import mmap
import os
import threading
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from merlin_simulator.errors import PlatformFailed

#: Values up to this size are handed out as bytes, and longer ones are read in pieces of it.
PIECE = 1024 * 1024
_RECORD = ".json"
#: Of a quoted key, so much is in a file's name: file systems take 255 bytes.
_LONGEST_NAME = 200


def no_object(path: Path, error: Exception) -> PlatformFailed:
    """What is said of a file that is no record."""
    return PlatformFailed(
        f"{path} holds no object of this simulator ({type(error).__name__}: {error}): "
        "remove it, or name another --state."
    )


class Fresh:
    """Bytes that were just written to a file: whoever is given them may keep it."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size

    def __len__(self) -> int:
        return self.size


class Mapped(mmap.mmap):
    """A file's bytes, read as they are asked for; see open_mapped."""

    def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
        return _pieces(self, 0, len(self))

    def __getitem__(self, wanted: Any) -> Any:
        if not isinstance(wanted, slice):
            return super().__getitem__(wanted)
        start, stop, _ = wanted.indices(len(self))
        if stop - start <= PIECE:
            return super().__getitem__(wanted)
        return Window(self, start, stop)


class Window:
    """Some of a file's bytes in the middle."""

    def __init__(self, whole: Mapped, start: int, stop: int) -> None:
        self._whole, self._start, self._stop = whole, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[bytes]:
        return _pieces(self._whole, self._start, self._stop)


def _pieces(whole: Mapped, start: int, stop: int) -> Iterator[bytes]:
    """Pages that were read are let go of at once: a process is not as large as what it sends."""
    for begin in range(start, stop, PIECE):
        yield bytes(whole[begin : min(begin + PIECE, stop)])
        whole.madvise(mmap.MADV_DONTNEED)


def open_mapped(path: Path) -> Mapped:
    """The file's bytes; it is not empty. They stay readable while it is removed."""
    with path.open("rb") as file:
        return Mapped(file.fileno(), 0, access=mmap.ACCESS_READ)


class Shelf:
    """A folder of bytes and of records. keeps: whether there are records; False: none is written.

    Called from several threads.
    """

    def __init__(self, folder: Path, keeps: bool) -> None:
        self._bytes, self._records, self._keeps = folder / "bytes", folder / "objects", keeps
        self._lock, self._closed = threading.Lock(), False
        #: By bucket and key, the file that a record names; these; and those that wait to be free.
        self._named: dict[str, dict[str, str]] = {}
        self._in_use: set[str] = set()
        self._waiting: set[str] = set()
        for needed in (self._bytes, self._records):
            needed.mkdir(parents=True, exist_ok=True)

    def write(self, pieces: Iterable[bytes]) -> Fresh:
        """A new file with these bytes."""
        path = self._bytes / uuid.uuid4().hex
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        return Fresh(path)

    def drop(self, path: Path) -> None:
        """Nobody needs these bytes any more, but for a record that is replaced or removed soon."""
        with self._lock:
            if self._closed or path.name in self._in_use:
                self._waiting.add(path.name)
            else:
                self._remove(path.name)

    def put(self, bucket: str, key: str, record: dict[str, Any]) -> None:
        """Keep what is known of an object; its member "bytes" names a file of this shelf."""
        if not self._keeps:
            return
        path = self.path_of(bucket, key)
        path.parent.mkdir(exist_ok=True)
        beside = path.with_name(f".{uuid.uuid4().hex}.new")
        beside.write_text(json.dumps({**record, "bucket": bucket, "key": key}))
        with self._lock:
            os.replace(beside, path)
            self._name(bucket, key, record["bytes"])

    def remove(self, bucket: str, key: str) -> None:
        """There is no such object any more."""
        if not self._keeps:
            return
        path = self.path_of(bucket, key)
        with self._lock:
            path.unlink(missing_ok=True)
            self._name(bucket, key, None)

    def remove_bucket(self, bucket: str) -> None:
        """A bucket is gone, which was empty."""
        for key in self.names(bucket):
            self.remove(bucket, key)

    def names(self, bucket: str) -> dict[str, str]:
        """Of the records of a bucket: each key and the name of its file."""
        with self._lock:
            return dict(self._named.get(bucket, {}))

    def restore(self, bucket: str) -> Iterator[tuple[dict[str, Any], Fresh]]:
        """Each object's record with its bytes. Raises PlatformFailed with the file's name."""
        for path in sorted((self._records / bucket).glob(f"*{_RECORD}")):
            try:
                record = json.loads(path.read_text())
                kept = self._bytes / Path(record["bytes"]).name
                size, known = kept.stat().st_size, record["size"]
                if path != self.path_of(record["bucket"], record["key"]):
                    raise ValueError("its name is not that of its key")
                if size != known:
                    raise ValueError(f"{kept} has {size} bytes instead of {known}")
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise no_object(path, error) from error
            self._name(bucket, record["key"], kept.name)
            yield record, Fresh(kept)

    def close(self) -> None:
        """From now on what moto lets go of stays on the disk."""
        self._closed = True

    def sweep(self) -> None:
        """After restoring: what was being written when the last simulator ended is removed."""
        for path in self._bytes.iterdir():
            if path.name not in self._in_use:
                path.unlink()
        for path in self._records.glob("*/.*.new"):
            path.unlink()

    def _name(self, bucket: str, key: str, bytes_name: str | None) -> None:
        named = self._named.setdefault(bucket, {})
        before = named.pop(key, None)
        if before is not None:
            self._in_use.discard(before)
        if bytes_name is not None:
            named[key] = bytes_name
            self._in_use.add(bytes_name)
        if before is not None and before != bytes_name and before in self._waiting:
            self._remove(before)

    def _remove(self, name: str) -> None:
        self._waiting.discard(name)
        (self._bytes / name).unlink(missing_ok=True)

    def path_of(self, bucket: str, key: str) -> Path:
        """Where the record of an object is."""
        quoted = urllib.parse.quote(key, safe="")
        if len(quoted) > _LONGEST_NAME:
            digest = uuid.uuid5(uuid.NAMESPACE_URL, key).hex
            quoted = f"{quoted[: _LONGEST_NAME - len(digest)]}{digest}"
        return self._records / bucket / f"{quoted}{_RECORD}"
