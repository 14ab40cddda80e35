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

from ensemble_tools.archive.files import followed, is_directory, judged, kind_name
from ensemble_tools.errors import EntryRefused, shown

#: Files, directories and links. A conda environment with Merlin, torch and RAPIDS has some 120,000;
#: a plain one with Merlin and torch 43,000.
MAX_ENTRIES = 250_000
#: Directories in one another; a python environment with its packages' tests has some 20.
MAX_DEPTH = 100
#: Of a path in the archive, in bytes: a quarter of PATH_MAX, which the serving repository's own
#: path is to fit into as well. Python environments stay below 250.
MAX_PATH_BYTES = 1024
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


@dataclass(frozen=True)
class ArchiveSize:
    """How much an archive holds: files, directories (its own too) and links."""

    files: int
    directories: int
    links: int


@dataclass
class _Directory:
    """The entries of one directory."""

    #: How many entries are no directories.
    files: int = 0
    #: Each one's path, and the link to it or None.
    subdirectories: list[tuple[str, str | None]] = field(default_factory=list)


def walk_archive(top: Path, max_entries: int = MAX_ENTRIES) -> ArchiveSize:
    """Look at every entry below the directory, following no link; blocking, some µs for each.

    max_entries: files, directories and links; what links lead to counts each time. Raises
    EntryRefused, which names the first entry that an archive may not hold, ResourceLacking,
    SourceUnreadable. What is no directory is left to who reads it.
    """
    root = os.path.realpath(top)
    if not is_directory(Path(root)):
        return ArchiveSize(0, 0, 0)
    directories = _Walk(root, max_entries).read_directories()
    links = [
        link
        for directory in directories.values()
        for _, link in directory.subdirectories
        if link is not None
    ]
    if links:
        _check_links(root, directories, max_entries)
    files = sum(directory.files for directory in directories.values())
    return ArchiveSize(files, len(directories), len(links))


class _Walk:
    """Real directories, each once."""

    def __init__(self, root: str, max_entries: int) -> None:
        self._root, self._prefix = root, root.rstrip("/") + "/"
        self._entries, self._max_entries = 0, max_entries

    def read_directories(self) -> dict[str, _Directory]:
        by_path: dict[str, _Directory] = {}
        waiting = [(self._root, 0)]
        while waiting:
            path, depth = waiting.pop()
            if depth > MAX_DEPTH:
                reason = f"directories are nested more than {MAX_DEPTH} deep"
                raise EntryRefused(Path(path), reason, "expected an archive of models")
            by_path[path] = self._read(path)
            waiting += [
                (inner, depth + 1) for inner, link in by_path[path].subdirectories if link is None
            ]
        return by_path

    def _read(self, path: str) -> _Directory:
        directory = _Directory()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._count(entry.path)
                    self._add(entry, directory)
        except OSError as error:
            raise judged(error, Path(error.filename or path)) from error
        return directory

    def _add(self, entry: os.DirEntry[str], directory: _Directory) -> None:
        if entry.is_symlink():
            target = self._resolve_inside(entry.path)
            if is_directory(Path(target)):
                directory.subdirectories.append((target, entry.path))
            else:
                directory.files += 1
        elif entry.is_dir(follow_symlinks=False):
            directory.subdirectories.append((entry.path, None))
        elif entry.is_file(follow_symlinks=False):
            directory.files += 1
        else:
            kind = kind_name(entry.stat(follow_symlinks=False).st_mode)
            raise EntryRefused(
                Path(entry.path),
                f"it is {kind}",
                "an archive holds regular files, directories and links that stay inside of it",
            )

    def _resolve_inside(self, link: str) -> str:
        """The end of a link; raises EntryRefused for one that ends outside of the archive."""
        target = _resolve(link)
        if target != self._root and not target.startswith(self._prefix):
            raise EntryRefused(
                Path(link),
                f"it is a link out of the archive, to {shown(target)}",
                "put what it leads to in its place, or remove it",
            )
        return target

    def _count(self, path: str) -> None:
        self._entries += 1
        if self._entries > self._max_entries:
            raise EntryRefused(
                Path(self._root),
                f"it holds more than {self._max_entries} files, directories and links",
                "pack what is many into one file, as conda-pack does with an environment",
            )
        if len(os.fsencode(path)) - len(os.fsencode(self._prefix)) > MAX_PATH_BYTES:
            raise EntryRefused(
                Path(path),
                f"its place in the archive is longer than {MAX_PATH_BYTES} bytes",
                "use shorter names",
            )


def _resolve(link: str) -> str:
    """The end of a link, there or not; one that leads in a circle ends at itself.

    So does one behind more links than the kernel follows (40): nobody can read it.
    """
    try:
        return followed(link)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return link
        if error.errno in _NOTHING_THERE:
            return _resolve_broken(link)
        raise


def _resolve_broken(link: str) -> str:
    """The target of a link to nothing: the directory that it names, followed if there is one."""
    target = os.path.join(os.path.dirname(link), os.readlink(link))
    parent, name = os.path.split(target)
    try:
        return os.path.normpath(os.path.join(followed(parent), name))
    except OSError as error:
        if error.errno in (errno.ELOOP, *_NOTHING_THERE):
            return os.path.normpath(target)
        raise


def _check_links(root: str, directories: Mapping[str, _Directory], max_entries: int) -> None:
    """Follow links to directories, as tritonserver does: to an end, and not to too much."""
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    stack: list[tuple[str, Iterator[tuple[str, str | None]]]] = []
    above: dict[str, str | None] = {}

    def enter(path: str, link: str | None) -> None:
        above[path] = link
        stack.append((path, iter(directories[path].subdirectories)))

    # Depth first, each directory once. Of the directory on top of the stack:
    # 1. all subdirectories have a size: so has it, and it is done with;
    # 2. the next one without a size is still open, above it: a circle;
    # 3. the next one is new: it goes on top.
    enter(root, None)
    while stack:
        path, subdirectories = stack[-1]
        unsized = next((inner for inner in subdirectories if inner[0] not in sizes), None)
        if unsized is None:  # 1
            stack.pop()
            del above[path]
            sized = [inner for inner, _ in directories[path].subdirectories]
            size = directories[path].files + sum(1 + sizes[inner] for inner in sized)
            sizes[path] = min(size, max_entries + 1)
            depths[path] = 1 + max((depths[inner] for inner in sized), default=0)
        elif unsized[0] in above:  # 2
            raise _leads_back(above, *unsized)
        else:  # 3
            enter(*unsized)
    if sizes[root] > max_entries or depths[root] > MAX_DEPTH + 1:
        raise EntryRefused(
            Path(root),
            f"links to directories lead to more than {max_entries} entries, or {MAX_DEPTH} deep",
            "remove links to directories that hold such links",
        )


def _leads_back(above: Mapping[str, str | None], target: str, link: str | None) -> EntryRefused:
    """The circle goes from the target down to where it is met again; one link of it is named."""
    circle = [*above][[*above].index(target) + 1 :]
    link_in_circle = link or next((above[path] for path in reversed(circle) if above[path]), None)
    return EntryRefused(
        Path(link_in_circle or target),
        "it is a link back to a directory that it is in",
        "remove it: tritonserver would follow it for ever",
    )
