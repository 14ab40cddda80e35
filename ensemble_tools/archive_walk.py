"""The one walk over an archive before anything in it is read: what it may be made of, and how much.

An archive is regular files, directories, and links that stay inside of it. Everything else is
refused by name: a named pipe, a socket or a device would hold up whoever opens it, a link out of
the archive reads other tenants' files or the container's environment, and tritonserver follows
links that lead back to where they are for ever (seen with 2.51: 2.5 GB of log in five minutes).

Inside means: what a link ends at, after all links are followed, lies in the archive's own
directory, the one that the load's `url` names. Relative and absolute links count alike: where they
end is what matters. A link that ends inside at nothing is an entry that nobody can read; it is
refused where something reads it (files.py). Links to directories are walked as tritonserver walks
them: they may neither lead back nor, taken together, to more entries than an archive may have.

The platform owns the directory, and nothing changes it between this walk and the end of the load.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_tools.errors import EntryRefused, shown
from ensemble_tools.files import followed, is_directory, judged, kind_name

#: Files, directories and links. A conda environment with Merlin, torch and RAPIDS has some 120,000;
#: a plain one with Merlin and torch 43,000.
MAX_ENTRIES = 250_000
#: Directories in one another; a python environment with its packages' tests has some 20.
MAX_DEPTH = 100
#: Of a place in the archive, in bytes: a quarter of PATH_MAX, which the serving repository's own
#: path is to fit into as well. Python environments stay below 250.
MAX_PATH_BYTES = 1024
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


@dataclass(frozen=True)
class Walked:
    """How much an archive holds: files, directories (its own too) and links."""

    files: int
    directories: int
    links: int


@dataclass
class _Directory:
    """files: entries that are no directories. inside: directories, and the link to each or None."""

    files: int = 0
    inside: list[tuple[str, str | None]] = field(default_factory=list)


def walk_archive(top: Path) -> Walked:
    """Look at every entry below the directory, following no link; blocking, some µs for each.

    Raises EntryRefused, which names the first entry that an archive may not hold, ResourceLacking,
    SourceUnreadable. What is no directory is left to who reads it.
    """
    root = os.path.realpath(top)
    if not is_directory(Path(root)):
        return Walked(0, 0, 0)
    directories = _Walk(root).directories()
    links = [link for one in directories.values() for _, link in one.inside if link is not None]
    if links:
        _check_links(root, directories)
    files = sum(one.files for one in directories.values())
    return Walked(files, len(directories), len(links))


class _Walk:
    """Real directories, each once."""

    def __init__(self, root: str) -> None:
        self._root, self._inside = root, root.rstrip("/") + "/"
        self._entries = 0

    def directories(self) -> dict[str, _Directory]:
        found: dict[str, _Directory] = {}
        waiting = [(self._root, 0)]
        while waiting:
            path, depth = waiting.pop()
            if depth > MAX_DEPTH:
                reason = f"directories are nested more than {MAX_DEPTH} deep"
                raise EntryRefused(Path(path), reason, "expected an archive of models")
            found[path] = self._read(path)
            waiting += [(one, depth + 1) for one, link in found[path].inside if link is None]
        return found

    def _read(self, directory: str) -> _Directory:
        made = _Directory()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    self._count(entry.path)
                    self._add(entry, made)
        except OSError as error:
            raise judged(error, Path(error.filename or directory)) from error
        return made

    def _add(self, entry: os.DirEntry[str], made: _Directory) -> None:
        if entry.is_symlink():
            target = self._target(entry.path)
            if is_directory(Path(target)):
                made.inside.append((target, entry.path))
            else:
                made.files += 1
        elif entry.is_dir(follow_symlinks=False):
            made.inside.append((entry.path, None))
        elif entry.is_file(follow_symlinks=False):
            made.files += 1
        else:
            found = kind_name(entry.stat(follow_symlinks=False).st_mode)
            raise EntryRefused(
                Path(entry.path), f"it is {found}",
                "an archive holds regular files, directories and links that stay inside of it",
            )  # fmt: skip

    def _target(self, link: str) -> str:
        """Where a link ends; raises EntryRefused for one that ends outside of the archive."""
        target = _real(link)
        if target != self._root and not target.startswith(self._inside):
            raise EntryRefused(
                Path(link), f"it is a link out of the archive, to {shown(target)}",
                "put what it leads to in its place, or remove it",
            )  # fmt: skip
        return target

    def _count(self, path: str) -> None:
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise EntryRefused(
                Path(self._root), f"it holds more than {MAX_ENTRIES} files, directories and links",
                "pack what is many into one file, as conda-pack does with an environment",
            )  # fmt: skip
        if len(os.fsencode(path)) - len(os.fsencode(self._inside)) > MAX_PATH_BYTES:
            raise EntryRefused(
                Path(path), f"its place in the archive is longer than {MAX_PATH_BYTES} bytes",
                "use shorter names",
            )  # fmt: skip


def _real(link: str) -> str:
    """Where a link ends, or would end; one that leads in a circle ends at itself.

    So does one behind more links than the kernel follows (40): nobody can read it.
    """
    try:
        return followed(link)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return link
        if error.errno in _NOTHING_THERE:
            return _would_end(link)
        raise


def _would_end(link: str) -> str:
    """Where a link to nothing points: the directory that it names, followed if there is one."""
    named = os.path.join(os.path.dirname(link), os.readlink(link))
    parent, name = os.path.split(named)
    try:
        return os.path.normpath(os.path.join(followed(parent), name))
    except OSError as error:
        if error.errno in (errno.ELOOP, *_NOTHING_THERE):
            return os.path.normpath(named)
        raise


def _check_links(root: str, directories: Mapping[str, _Directory]) -> None:
    """Follow links to directories, as tritonserver does: to an end, and not to too much."""
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    stack: list[tuple[str, Iterator[tuple[str, str | None]]]] = []
    above: dict[str, str | None] = {}

    def enter(path: str, link: str | None) -> None:
        above[path] = link
        stack.append((path, iter(directories[path].inside)))

    enter(root, None)
    while stack:
        path, inside = stack[-1]
        following = next((one for one in inside if one[0] not in sizes), None)
        if following is None:
            stack.pop()
            del above[path]
            parts = [one for one, _ in directories[path].inside]
            size = directories[path].files + sum(1 + sizes[one] for one in parts)
            sizes[path] = min(size, MAX_ENTRIES + 1)
            depths[path] = 1 + max((depths[one] for one in parts), default=0)
        elif following[0] in above:
            raise _leads_back(above, *following)
        else:
            enter(*following)
    if sizes[root] > MAX_ENTRIES or depths[root] > MAX_DEPTH + 1:
        raise EntryRefused(
            Path(root),
            f"links to directories lead to more than {MAX_ENTRIES} entries, or {MAX_DEPTH} deep",
            "remove links to directories that hold such links",
        )


def _leads_back(above: Mapping[str, str | None], target: str, link: str | None) -> EntryRefused:
    """The circle goes from the target down to where it is met again; one link of it is named."""
    circle = [*above][[*above].index(target) + 1 :]
    named = link or next((above[one] for one in reversed(circle) if above[one]), None)
    return EntryRefused(
        Path(named or target), "it is a link back to a directory that it is in",
        "remove it: tritonserver would follow it for ever",
    )  # fmt: skip
