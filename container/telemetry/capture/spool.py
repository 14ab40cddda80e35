"""Files of lines on disk: those that are being written, and whole ones in their folders.

    root/.writing-x7c2/.lock                        held by flock for as long as the container lives
    root/.writing-x7c2/<folder>/<name>.jsonl.part   grows by whole lines
    root/<folder>/<name>.jsonl                      whole: it was renamed when it was closed

A container that is killed leaves what it was writing. The next one with the same root cuts it
behind its last whole line, and closes it. Not for several threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: A file is closed at so many bytes, or so many seconds after its first line.
FILE_BYTES, FILE_S = 4 * 1024 * 1024, 120.0
SUFFIX, PART_SUFFIX = ".jsonl", ".part"
WRITING, _LOCK = ".writing-", ".lock"  # no endpoint has the name, as it may have `lock`
#: Bytes that a file or a folder takes on disk beside what is in it; how many a new file needs of
#: them, with the folders of its target model and hour.
_BLOCK, _NEW_BLOCKS = 4096, 6
#: From one look at how many bytes there are to the next, in seconds, while there are too many.
_MEASURE_S = 10.0


class SpoolFull(Exception):
    """There are as many bytes below the root as there may be."""


@dataclass
class _Part:
    """A file that is being written. name: when it is closed. began: by the spool's clock."""

    name: str
    began: float
    size: int = 0  # bytes
    records: int = 0


class Spool:
    """root: is made where there is none, for this user alone. most_bytes: of all files below it.

    closed: is told each whole file, with how many records it has, or 0 where that is not known.
    Raises OSError where the root cannot be written to.
    """

    def __init__(
        self,
        root: Path,
        most_bytes: int,
        closed: Callable[[Path, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root, self._most_bytes = root, most_bytes
        self._closed, self._clock = closed, clock
        self._parts: dict[str, _Part] = {}
        _make_folder(root)
        for left in [*root.glob(f"{WRITING}*")]:
            self._take_up(left)
        self._writing = Path(tempfile.mkdtemp(prefix=WRITING, dir=root))
        self._lock = _hold(self._writing / _LOCK)
        self._measure()

    def append(self, folder: str, lines: list[bytes]) -> None:
        """Write lines, all or none. Raises SpoolFull and OSError."""
        data = b"".join(lines)
        if self._bytes + len(data) > self._most_bytes:
            if self._clock() - self._measured > _MEASURE_S:  # somebody may have taken some away
                self._measure()
            if self._bytes + len(data) > self._most_bytes:
                raise SpoolFull
        part = self._parts.get(folder) or self._begin(folder)
        try:
            self._write(self._find(part), data, part.size)
        except FileNotFoundError:  # somebody took it away: the next lines begin another
            del self._parts[folder]
            raise
        part.size, part.records = part.size + len(data), part.records + len(lines)
        self._bytes += len(data)

    def close_due(self, *, every: bool = False) -> None:
        """Close files that are large or old enough; every: all. Raises OSError."""
        now = self._clock()
        for folder, part in [*self._parts.items()]:
            if every or part.size >= FILE_BYTES or now - part.began >= FILE_S:
                path = self._find(part)
                with contextlib.suppress(FileNotFoundError):  # somebody took it away
                    if part.size:
                        self._finish(path, part.name, part.records)
                    else:  # its first lines found no room
                        path.unlink()
                del self._parts[folder]

    def close(self) -> None:
        """Close every file; nothing is written any more. Raises OSError."""
        self.close_due(every=True)
        os.close(self._lock)
        shutil.rmtree(self._writing, ignore_errors=True)

    def _begin(self, folder: str) -> _Part:
        now = time.time()
        minute = time.strftime("%M-%S", time.gmtime(now)) + f"-{int(now * 1000) % 1000:03}"
        part = _Part(f"{folder}/{minute}-{uuid.uuid4()}{SUFFIX}", self._clock())
        _make_folder(self._find(part).parent)
        self._parts[folder] = part
        self._bytes += _NEW_BLOCKS * _BLOCK
        return part

    def _find(self, part: _Part) -> Path:
        return self._writing / (part.name + PART_SUFFIX)

    def _write(self, path: Path, data: bytes, start: int) -> None:
        """Behind what is whole; what a full disk took of it is cut off again."""
        new = 0 if start else os.O_CREAT
        file = os.open(path, os.O_WRONLY | new | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.pwrite(file, rest, start + len(data) - len(rest)) :]
        except OSError:
            os.ftruncate(file, start)
            raise
        finally:
            os.close(file)

    def _finish(self, path: Path, name: str, records: int) -> None:
        whole = self.root / name
        while not whole.exists():
            try:
                _make_folder(whole.parent)
                path.rename(whole)
            except FileNotFoundError:  # an upload took its folder away, which was empty
                if not path.exists():
                    raise
        remove_folders(path.parent)
        if self._closed is not None:
            self._closed(whole, records)

    def _take_up(self, left: Path) -> None:
        """Close what a container was writing that lives no more; another's stays."""
        with contextlib.suppress(OSError), _lock_abandoned(left / _LOCK):
            for path in [*left.rglob(f"*{SUFFIX}{PART_SUFFIX}")]:
                if path.is_symlink() or not path.is_file():
                    continue
                with path.open("r+b") as file:
                    size = file.read().rfind(b"\n") + 1
                    file.truncate(size)
                if size:
                    self._finish(path, str(path.relative_to(left).with_suffix("")), 0)
            shutil.rmtree(left)

    def _measure(self) -> None:
        self._measured, self._bytes = self._clock(), 0
        for folder, _, names in os.walk(self.root):
            self._bytes += _BLOCK
            for name in names:
                if not name.endswith((SUFFIX, PART_SUFFIX)):
                    continue
                with contextlib.suppress(OSError):  # it was taken away meanwhile
                    self._bytes += os.stat(os.path.join(folder, name)).st_size + _BLOCK


def _make_folder(path: Path) -> None:
    """With those above it; each new one is for this user alone."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def remove_folders(path: Path) -> None:
    """And those above it, as far as they are empty."""
    with contextlib.suppress(OSError):
        os.removedirs(path)


def _hold(path: Path) -> int:
    """The descriptor of the lock; nobody finds one that is not held yet."""
    new = path.with_name(f"{path.name}.new")
    lock = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(path)
    return lock


@contextlib.contextmanager
def _lock_abandoned(path: Path) -> Iterator[None]:
    """Raises OSError while its container lives."""
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)
