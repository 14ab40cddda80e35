"""The directory that a container writes into, and those of containers that were killed.

    serve-x7c2/lock      held by flock for as long as the container lives; names its shared memory
    serve-x7c2/serving   …

A container that is killed leaves its directory and its regions in /dev/shm. The next one that
starts at the same place takes them away. It knows them by a lock that nobody holds: ids of
processes are used again, and several containers may share a /tmp.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from container.errors import WorkDirUnusable
from container.tritonserver.process import SHARED_MEMORY, remove_shared_memory

log = logging.getLogger(__name__)

_PREFIX = "serve-"
_LOCK = "lock"
#: What a lock says: command.name_shm_prefix. Anybody may have written it.
_SHM_PREFIX = re.compile(r"serve_\d{1,10}_[0-9a-f]{8}_", re.ASCII)
_LONGEST = 64


@contextlib.contextmanager
def work_dir(
    configured: Path | None, shm_prefix: str, shared_memory: Path = SHARED_MEMORY
) -> Iterator[Path]:
    """A directory for what this run writes, empty at its start and gone at its end."""
    try:
        if configured is not None:
            configured.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(configured or Path(tempfile.gettempdir()), shared_memory)
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=configured))
        lock = _hold(directory, shm_prefix)
    except OSError as error:
        raise WorkDirUnusable(configured, error.strerror or str(error)) from error
    try:
        yield directory
    finally:
        _remove(directory)
        os.close(lock)


def _hold(directory: Path, shm_prefix: str) -> int:
    """The descriptor of the lock; where there are no locks, nobody finds one."""
    new = directory / f"{_LOCK}.new"
    lock = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(lock, shm_prefix.encode())
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(directory / _LOCK)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _clear_leftovers(parent: Path, shared_memory: Path) -> None:
    """Take away what containers left that live no more; what is not surely theirs stays."""
    with os.scandir(parent) as entries:
        directories = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    for directory in directories:
        with contextlib.suppress(OSError), _lock_abandoned(directory) as shm_prefix:
            if shm_prefix is not None:
                log.info("a killed container's files are removed", extra={"path": str(directory)})
                remove_shared_memory(shm_prefix, shared_memory)
                _remove(directory)


@contextlib.contextmanager
def _lock_abandoned(directory: Path) -> Iterator[str | None]:
    """The beginning of its regions' names, if a container of this user's left it; locked."""
    with contextlib.ExitStack() as opened:

        def at(path: str | Path, flags: int, within: int | None = None) -> int:
            flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(path, flags, dir_fd=within)
            opened.callback(os.close, descriptor)
            return descriptor

        folder = at(directory, os.O_DIRECTORY)
        lock = at(_LOCK, 0, folder)
        known = os.fstat(lock)
        if not stat.S_ISREG(known.st_mode) or {known.st_uid, os.fstat(folder).st_uid} != {
            os.geteuid()
        }:
            yield None
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its container lives
        holder = os.read(lock, _LONGEST).decode(errors="replace")
        is_there = os.fstat(lock).st_nlink == 1  # else another one has just taken it away
        yield holder if is_there and _SHM_PREFIX.fullmatch(holder) else None


def _remove(directory: Path) -> None:
    """The lock last: who is killed meanwhile leaves what the next one finds."""
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if path.name != _LOCK:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
    shutil.rmtree(directory, ignore_errors=True)
