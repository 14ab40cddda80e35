"""Where archives come from: a folder, or what stands for one."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from merlin_simulator.errors import ArchiveUnavailable, PlatformFailed

#: What archives end in.
SUFFIX = ".tar.gz"
#: Bytes that are passed on at a time. Small, so that a slow store cannot keep a download from being
#: given up.
CHUNK = 64 * 1024


class ArchiveStore(Protocol):
    """Archives by target model. Its methods block, and may be called from several threads."""

    description: str
    #: The bucket in messages; a folder's path stands for one.
    bucket: str

    def key(self, target_model: str) -> str:
        """The archive's key in messages."""

    def download(self, target_model: str, file: Path, cancelled: Callable[[], bool]) -> int:
        """Put the archive at file, whole or not at all; its bytes.

        Raises ArchiveUnavailable, or PlatformFailed: the store, the disk, or cancelled.
        """

    def names(self, limit: int) -> list[str]:
        """At most limit target models that end in .tar.gz, sorted; others can be asked for too."""


def save(chunks: Iterable[bytes], file: Path, cancelled: Callable[[], bool]) -> int:
    """Write beside file and rename; the bytes. What chunks raises passes, nothing is left then."""
    partial, written = file.with_name(f"{file.name}.partial"), 0
    try:
        with partial.open("wb") as out:
            for chunk in chunks:
                if cancelled():
                    raise PlatformFailed("The download was given up: the endpoint is stopping.")
                written += out.write(chunk)
        partial.replace(file)
    except OSError as error:
        raise PlatformFailed(
            f"An archive cannot be written to {file.parent}: {error.strerror}. "
            "Make room there, or name another folder."
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return written


class FolderArchives:
    """Archives in a folder and its sub-folders; no account is needed."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise PlatformFailed(
                f"There is no folder {folder} to take archives from: make it, put model.tar.gz "
                "files into it, or name another one or s3://BUCKET/PREFIX."
            )
        self._folder = folder.resolve()
        self.description = self.bucket = str(self._folder)

    def key(self, target_model: str) -> str:
        """The target model itself."""
        return target_model

    def download(self, target_model: str, file: Path, cancelled: Callable[[], bool]) -> int:
        """Copy the archive; see ArchiveStore."""
        source = self._open(target_model)
        try:
            return save(self._chunks(source, target_model), file, cancelled)
        finally:
            os.close(source)

    def names(self, limit: int) -> list[str]:
        """See ArchiveStore."""
        names = []
        for folder, _, files in os.walk(self._folder):
            below = Path(folder).relative_to(self._folder)
            names += [str(below / name) for name in files if name.endswith(SUFFIX)]
        return list(itertools.islice(filter(self._is_one, sorted(names)), limit))

    def _is_one(self, target_model: str) -> bool:
        try:
            return self._inside(target_model).is_file()
        except (ArchiveUnavailable, OSError):
            return False

    def _open(self, target_model: str) -> int:
        path = self._inside(target_model)
        try:
            # Not blocking: a named pipe in the folder must not hold the opening.
            source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            raise self._unopened(target_model, error) from error
        if not stat.S_ISREG(os.fstat(source).st_mode):
            os.close(source)
            raise self._unavailable(target_model, "It is no file.")
        return source

    def _inside(self, target_model: str) -> Path:
        try:
            path = Path(os.path.realpath(self._folder / target_model))
        except (OSError, ValueError) as error:
            raise self._unavailable(
                target_model, f"It cannot be a file's name: {error}."
            ) from error
        if not path.is_relative_to(self._folder):
            raise self._unavailable(target_model, "It leads out of the folder of the archives.")
        return path

    def _chunks(self, source: int, target_model: str) -> Iterator[bytes]:
        before, copied = os.fstat(source), 0
        for chunk in _file_chunks(source, target_model):
            copied += len(chunk)
            yield chunk
        if _changed(before, os.fstat(source)) or copied != before.st_size:
            raise self._unavailable(
                target_model, "It was changed while it was copied: try again when it is whole."
            )

    def _unopened(self, target_model: str, error: OSError) -> ArchiveUnavailable | PlatformFailed:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            have = ", ".join(self.names(3)) or f"no {SUFFIX} files"
            return self._unavailable(target_model, f"No such file is there; there are: {have}.")
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP):
            return self._unavailable(target_model, f"It cannot be opened: {error.strerror}.")
        return PlatformFailed(f"{self._folder / target_model} cannot be opened: {error.strerror}.")

    def _unavailable(self, target_model: str, reason: str) -> ArchiveUnavailable:
        return ArchiveUnavailable(self.bucket, target_model, reason)


def _file_chunks(source: int, target_model: str) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(source, 16 * CHUNK)
        except OSError as error:
            raise PlatformFailed(f"{target_model} cannot be read: {error.strerror}.") from error
        if not chunk:
            return
        yield chunk


def _changed(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)


def open_archives(location: str, s3_endpoint_url: str | None = None) -> ArchiveStore:
    """The store at s3://bucket/prefix or in a folder, seen to be there; else PlatformFailed."""
    if not location.startswith("s3://"):
        return FolderArchives(Path(location))
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    if not bucket:
        raise PlatformFailed(f"{location} names no bucket: expected s3://BUCKET/PREFIX.")
    from merlin_simulator.archives.s3 import (  # boto3: a fifth of a second
        S3Archives,
        make_s3_client,
    )

    store = S3Archives(bucket, prefix, make_s3_client(s3_endpoint_url))
    store.check()
    return store
