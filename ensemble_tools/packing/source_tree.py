"""A directory as a sorted list of plain directories and files: what is archived or copied of it.

Links inside the tree stand for what they lead to, since extraction on the other side may drop or
refuse links. Links out of the tree are refused: what they lead to was never meant to be shipped.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools.errors import EnsembleToolsError

#: What archivers, file browsers, editors and Python leave behind; no model needs any of it.
LITTER = frozenset(
    {"__MACOSX", ".DS_Store", "__pycache__", ".git", ".ipynb_checkpoints", "lost+found"}
    | {"Thumbs.db", "desktop.ini"}
)
#: A bound on links to directories that lead to one another: a few of them multiply without end.
MAX_ENTRIES = 1_000_000
#: Directories in one another; a SavedModel or a python package has some ten.
MAX_DEPTH = 100


class TreeUnusable(EnsembleToolsError):
    """A link, a special file or a name that no archive should carry."""

    def __init__(self, path: Path, found: str, remedy: str) -> None:
        super().__init__(f"{path}: {found}; {remedy}")


@dataclass(frozen=True)
class Entry:
    """A directory or a file of the tree."""

    #: Relative, with `/` between the parts.
    path: str
    source: Path
    is_directory: bool
    #: In bytes, 0 for a directory.
    size: int = 0
    executable: bool = False


@dataclass(frozen=True)
class SourceTree:
    """All entries below a directory."""

    #: Each after the directory that it is in.
    entries: tuple[Entry, ...]
    #: Litter that is not packed.
    left_out: tuple[str, ...]

    @property
    def files(self) -> tuple[Entry, ...]:
        """The entries that are files."""
        return tuple(entry for entry in self.entries if not entry.is_directory)

    @property
    def size(self) -> int:
        """Bytes in all files together."""
        return sum(entry.size for entry in self.entries)


def is_litter(name: str) -> bool:
    """Whether a file or directory of this name is left out; `._x` is macOS's shadow of x."""
    return name in LITTER or name.startswith("._")


def walk(top: Path, within: Path) -> SourceTree:
    """Everything below top, sorted by path; links may lead anywhere inside `within`.

    Raises TreeUnusable (a link out, a circle, a device) or OSError.
    """
    entries: list[Entry] = []
    litter: list[str] = []
    waiting: list[tuple[Path, str, frozenset[tuple[int, int]]]] = [(top, "", frozenset())]
    while waiting:
        directory, prefix, above = waiting.pop()
        identity = _identify(directory)
        if identity in above or len(above) > MAX_DEPTH:
            raise TreeUnusable(
                directory,
                "directories or links in it lead in circles or too deep",
                "remove the link",
            )
        for name in os.listdir(directory):
            source, path = directory / name, prefix + name
            if is_litter(name):
                litter.append(path)
                continue
            entry = _make_entry(source, path, within)
            entries.append(entry)
            if entry.is_directory:
                waiting.append((source, path + "/", above | {identity}))
        if len(entries) > MAX_ENTRIES:
            raise TreeUnusable(top, f"it holds more than {MAX_ENTRIES} entries", "split it")
    return SourceTree(
        tuple(sorted(entries, key=lambda entry: entry.path.split("/"))), tuple(sorted(litter))
    )


def _make_entry(source: Path, path: str, within: Path) -> Entry:
    check_link(source, within)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise TreeUnusable(source, "its name is not UTF-8", "rename it") from error
    status = source.stat()
    if stat.S_ISDIR(status.st_mode):
        return Entry(path, source, is_directory=True)
    if not stat.S_ISREG(status.st_mode):
        raise TreeUnusable(source, "it is neither a file nor a directory", "remove it")
    return Entry(
        path, source, False, status.st_size, executable=bool(status.st_mode & stat.S_IXUSR)
    )


def check_link(source: Path, within: Path) -> None:
    """Raise TreeUnusable for a link that leads nowhere or out of `within`."""
    if not source.is_symlink():
        return
    target, real_root = os.path.realpath(source), os.path.realpath(within)
    if not os.path.exists(target):
        raise TreeUnusable(source, "it is a link that leads nowhere", "remove it")
    if os.path.commonpath([target, real_root]) != real_root:
        raise TreeUnusable(
            source,
            f"it is a link out of the archive, to {target}",
            "copy what it leads to into its place, or remove it",
        )


def _identify(directory: Path) -> tuple[int, int]:
    status = directory.stat()
    return status.st_dev, status.st_ino
