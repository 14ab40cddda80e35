"""Reads files of an archive so that none can hold the reader up, and with three answers.

Absence is an answer (None, False, no names). A shortage of the machine (descriptors, memory,
space) is ResourceLacking: it says nothing about the archive, so nothing may be decided by it. What
the disk fails to give is SourceUnreadable. All else is the archive's fault: EntryRefused.

Every read of an archive's file goes through here, since `Path.read_text` waits for ever at a named
pipe, and `except OSError` takes a lack of descriptors for a file that is not there.

The archive is walked before (walk.py), which holds that its links stay inside of it. The
platform owns the directory and changes nothing in it while it is loaded; if something did, a file
that became a pipe, a socket or a device would still not be waited for: it is opened without
blocking, and looked at before it is read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from ensemble_tools.errors import (
    EnsembleToolsError,
    EntryRefused,
    ResourceLacking,
    SourceUnreadable,
)

_T = TypeVar("_T")

#: How a file begins that Git LFS left in another one's place.
POINTER = b"version https://git-lfs.github.com/spec/"
A_POINTER = "a pointer of Git LFS (`git lfs pull` fetches the file)"
#: Such a file has some 130 bytes.
_LONGEST_POINTER = 1024
#: What another moment, or another model less, may cure.
SHORTAGES = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EAGAIN,
        errno.ENOBUFS,
    }
)
#: There is no such file, or none that could bear the name.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
#: What whoever made the archive can mend; EEXIST is of publishing: a name that is in use.
_THE_ARCHIVES = _ABSENT | {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENXIO, errno.EEXIST}

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_bounded(path: Path, limit: int) -> bytes | None:
    """The file's first limit + 1 bytes, so that more than limit says that it is longer; blocking.

    None when there is no such file. Raises as read_with does.
    """
    return read_with(path, lambda file: file.read(limit + 1))


def read_with(path: Path, read: Callable[[BinaryIO], _T]) -> _T | None:
    """The function's result for the file; blocking. None when there is no such file.

    Raises EntryRefused for what is no regular file and for a link that leads nowhere,
    ResourceLacking, SourceUnreadable, and what the function raises.
    """
    mode = kind(path)
    if mode is None:
        if os.path.islink(path):
            raise EntryRefused(path, "it is a link that leads nowhere", "put the file there")
        return None
    _check_regular(path, mode)  # to open a device may do something
    try:
        with open(path, "rb", opener=_open_without_blocking) as file:
            _check_regular(path, os.fstat(file.fileno()).st_mode)
            return read(file)
    except OSError as error:
        raise judged(error, path) from error
    except MemoryError as error:
        raise ResourceLacking(path, "there is no memory for it") from error


def kind(path: Path) -> int | None:
    """stat.S_IFREG, S_IFDIR, ... of what is there, links followed; None for nothing.

    Raises ResourceLacking, SourceUnreadable, EntryRefused.
    """
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except ValueError:  # a zero byte
        return None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise judged(error, path) from error


def is_file(path: Path) -> bool:
    """Whether it is a regular file, or a link to one; raises as kind does."""
    return kind(path) == stat.S_IFREG


def is_directory(path: Path) -> bool:
    """Whether it is a directory, or a link to one; raises as kind does."""
    return kind(path) == stat.S_IFDIR


def followed(path: str) -> str:
    """The end of a path, as the kernel follows its links: at most 40. Raises OSError.

    os.path.realpath follows any number, a call inside a call for each.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def is_pointer(path: Path) -> bool:
    """Whether Git LFS left it in another file's place; raises as read_with does."""
    if (size_of(path) or _LONGEST_POINTER) >= _LONGEST_POINTER:
        return False
    return read_bounded(path, len(POINTER) - 1) == POINTER


def size_of(path: Path) -> int | None:
    """The bytes of a regular file; None for anything else. Raises as kind does."""
    if not is_file(path):
        return None
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise judged(error, path) from error


def names_in(directory: Path) -> tuple[str, ...]:
    """The names in a directory, sorted; nothing where there is none. Raises as kind does."""
    if not is_directory(directory):
        return ()
    try:
        return tuple(sorted(os.listdir(directory)))
    except OSError as error:
        raise judged(error, directory) from error


def judged(error: OSError, path: Path) -> EnsembleToolsError:
    """Whose fault an error of the file system is."""
    reason = error.strerror or str(error)
    if error.errno in SHORTAGES:
        return ResourceLacking(path, reason)
    if error.errno in _THE_ARCHIVES:
        return EntryRefused(path, f"it cannot be read ({reason})", "expected a readable file")
    return SourceUnreadable(path, reason)


def kind_name(mode: int) -> str:
    """A kind of entry, for people."""
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def _open_without_blocking(path: str, _: int) -> int:
    return os.open(path, _FLAGS)


def _check_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise EntryRefused(path, f"it is {kind_name(mode)}", "expected a regular file")


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}
