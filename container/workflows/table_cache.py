"""Compiled workflows' tables of earlier loads, kept on disk by the content they were made of.

    tables/7/0.0.keys.npy    a hard link to the file that was published for the model

    tables/7/rows.json       what program.json says of them

Kept files are worth something to this process alone: what they are of, and their digest, is in its
memory. Their key is the job of the process that writes tables, with the digest of each category
file in the place of its path; that process's code and libraries are the same for as long as the
container runs. A model maps its own links, so an entry may go at any time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import math
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ensemble_tools import EnsembleToolsError, TableWriter
from ensemble_tools.archive.files import is_directory, is_file, read_with
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import job_text

#: A category file may be a directory; with more entries than this nothing is kept of it.
_MOST_ENTRIES = 1_000
_CHUNK_BYTES = 2**20
#: What an entry is counted as at least, since it takes memory and inodes as well.
_LEAST_BYTES = 2**16
_ROWS = "rows.json"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class _Content(NamedTuple):
    """Of a file: its digest, and what changes with each change of the file."""

    digest: str
    inode: int
    changed_ns: tuple[int, int]
    size: int


#: By the paths of category files, and below these by names: their content; None for a directory.
_Sources = Mapping[Path, Mapping[str, _Content | None]]


@dataclass(frozen=True)
class _Entry:
    directory: Path
    digest: str  # of all its files
    size: int


class TableCache:
    """Writes tables, or links those that an earlier load has written from the same content.

    write: what writes them. directory: where they are kept; made at once. most_bytes: what is kept,
    0 for nothing; it is never more than what is free on the disk beside it. Nor are category files
    read for it that have more. count: told of each load's tables, `hit` or `miss`.
    """

    def __init__(
        self,
        write: TableWriter,
        directory: Path,
        most_bytes: int,
        count: Callable[[str], None] = lambda result: None,
    ) -> None:
        self._write, self._directory, self._most_bytes = write, directory, most_bytes
        self._count = count
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # least recently loaded first
        self._writing: dict[str, threading.Event] = {}
        self._numbers = itertools.count()
        directory.mkdir(mode=0o700)

    def write(self, tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        """As TableWriter; directory: on the same disk, without arrays of others. Blocking."""
        sources = self._read_sources(tables) if self._most_bytes and tables else None
        if sources is None:
            return self._write(tables, directory)
        key = _make_key(tables, sources)
        with self._after_others(key):
            rows = self._link(key, directory)
            self._count("miss" if rows is None else "hit")
            if rows is None:
                rows = self._write_with_room(tables, directory)
                if sources == self._read_sources(tables):  # else of what no digest may be of
                    self._keep(key, rows, directory)
        return rows

    def _read_sources(self, tables: Sequence[Table]) -> _Sources | None:
        """What the tables are made of, but for what they bring; None where that cannot be said.

        Files of more than is kept are not read: tables are no smaller, and a file with holes, which
        whoever writes tables refuses at once, may be read for hours.
        """
        overall = [table.means.overall for table in tables if table.means and table.means.overall]
        paths = dict.fromkeys([*(table.path for table in tables if not table.given), *overall])
        sources: dict[Path, Mapping[str, _Content | None]] = {}
        left: float = self._most_bytes
        try:
            for path in paths:
                sources[path] = dict(_read_files(path, left))
                left -= sum(content.size for content in sources[path].values() if content)
        except (OSError, EnsembleToolsError):  # whoever writes tables says what it is
            return None
        return sources

    @contextlib.contextmanager
    def _after_others(self, key: str) -> Iterator[None]:
        """The block, which waits for whoever writes the same at this moment; only for the first."""
        with self._lock:
            other = self._writing.get(key)
            own = self._writing.setdefault(key, threading.Event())
        if other is not None:
            other.wait()
        try:
            yield
        finally:
            if other is None:
                with self._lock:
                    del self._writing[key]
                own.set()

    def _link(self, key: str, directory: Path) -> list[dict[str, Any]] | None:
        """Put the kept tables into the directory; None where there are none that are whole."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
        linked: list[Path] = []
        try:
            for name in {*os.listdir(entry.directory)} - {_ROWS}:
                os.link(entry.directory / name, directory / name)
                linked.append(directory / name)
            if _digest_all(entry.directory) == entry.digest:
                rows: list[dict[str, Any]] = json.loads((entry.directory / _ROWS).read_bytes())
                return rows
        except (OSError, EnsembleToolsError):  # damaged, or gone meanwhile
            pass
        for path in linked:  # a model may have mapped what would be written to
            path.unlink()
        return None

    def _write_with_room(self, tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        """On a disk that is full, what is kept makes room."""
        try:
            return self._write(tables, directory)
        except OSError as error:
            if error.errno not in _NO_SPACE or not self._entries:
                raise
        with self._lock:
            for key in [*self._entries]:
                self._forget(key)
        return self._write(tables, directory)

    def _keep(self, key: str, rows: list[dict[str, Any]], directory: Path) -> None:
        arrays = [*directory.glob("*.npy")] if rows else []
        size = max(_LEAST_BYTES, sum(_disk_bytes(path) for path in arrays))
        if size > self._most_bytes:
            return
        own = self._directory / str(next(self._numbers))
        try:
            own.mkdir(mode=0o700)
            (own / _ROWS).write_text(json.dumps(rows), encoding="utf-8")
            for path in arrays:
                path.chmod(0o400)
                os.link(path, own / path.name)
            digest = _digest_all(own)
            free = shutil.disk_usage(own).free
        except (OSError, EnsembleToolsError):  # the load goes on without
            shutil.rmtree(own, ignore_errors=True)
            return
        with self._lock:
            if key in self._entries:  # damaged, or of one who did not wait
                self._forget(key)
            self._entries[key] = _Entry(own, digest, size)
            self._trim(free)

    def make_room(self) -> None:
        """Let go of what is kept where the disk has become full. Blocking."""
        with contextlib.suppress(FileNotFoundError), self._lock:
            self._trim(shutil.disk_usage(self._directory).free)

    def _trim(self, free: int) -> None:
        """Forget the least recently loaded until the bound holds, and as much is free as kept."""
        while sum(entry.size for entry in self._entries.values()) > min(self._most_bytes, free):
            self._forget(next(iter(self._entries)))

    def _forget(self, key: str) -> None:
        shutil.rmtree(self._entries.pop(key).directory, ignore_errors=True)


def _make_key(tables: Sequence[Table], sources: _Sources) -> str:
    """The job that writes the tables, with content in the place of paths.

    Two files of one content are two: what is refused for its size depends on their number.
    """
    names = {
        path: Path(f"/{number}", _combine(files))
        for number, (path, files) in enumerate(sources.items())
    }

    def rename(table: Table) -> Table:
        means = table.means
        if means is not None and means.overall is not None:
            means = replace(means, overall=names[means.overall])
        return replace(table, path=names.get(table.path, Path("/given")), means=means)

    job = job_text([rename(table) for table in tables], Path("/"))
    return hashlib.blake2b(job.encode()).hexdigest()


def _combine(files: Mapping[str, _Content | None]) -> str:
    listing = [(name, content and content.digest) for name, content in files.items()]
    return hashlib.blake2b(repr(listing).encode(), digest_size=32).hexdigest()


def _read_files(path: Path, most_bytes: float = math.inf) -> Iterator[tuple[str, _Content | None]]:
    """Below the path by names; raises OSError where all have more bytes."""
    if not is_directory(path):
        yield "", _read_content(path, most_bytes)
        return
    entries = [*itertools.islice(path.rglob("*"), _MOST_ENTRIES + 1)]
    if len(entries) > _MOST_ENTRIES:
        raise OSError(errno.EFBIG, "it has too many entries", str(path))
    for entry in sorted(entries):
        content = _read_content(entry, most_bytes) if is_file(entry) else None
        most_bytes -= content.size if content else 0
        yield str(entry.relative_to(path)), content


def _read_content(path: Path, most_bytes: float) -> _Content:
    def read(file: BinaryIO) -> _Content:
        status = os.fstat(file.fileno())
        if status.st_size > most_bytes:
            raise OSError(errno.EFBIG, "it has too many bytes", str(path))
        digest = hashlib.blake2b(digest_size=32)
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
        changed_ns = (status.st_mtime_ns, status.st_ctime_ns)
        return _Content(digest.hexdigest(), status.st_ino, changed_ns, status.st_size)

    content = read_with(path, read)
    if content is None:
        raise FileNotFoundError(errno.ENOENT, "it is not there", str(path))
    return content


def _digest_all(directory: Path) -> str:
    return _combine(dict(_read_files(directory)))


def _disk_bytes(path: Path) -> int:
    status = path.stat()
    return max(status.st_size, status.st_blocks * 512)
