"""The path that every command takes: a directory, or the packed archive itself."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from ensemble_tools.archive.packed import opened
from ensemble_tools.errors import EnsembleToolsError, RepositoryUnusable


def parse_path(text: str) -> Path:
    """Raises ArgumentTypeError for what would be taken for this directory, or for another path."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; expected an archive's")
    if "://" in text and not Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text} is no path; download the archive first")
    return Path(text)


def add_path(parser: argparse.ArgumentParser, metavar: str = "path") -> None:
    """The argument; options.path has it."""
    parser.add_argument(
        "path",
        type=parse_path,
        metavar=metavar,
        help="the archive: the directory that it was extracted or exported into, or its .tar.gz, "
        "which is extracted to a temporary directory",
    )


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Add an option for one or several paths; options.paths has them."""
    parser.add_argument(
        "paths",
        type=parse_path,
        nargs="+",
        metavar="path",
        help="the archive: the directory that it was extracted or exported into, or its .tar.gz, "
        "which is extracted to a temporary directory. Of several each is taken by itself; one that "
        "fails does not stop the others, a table at the end has all, and the exit code is the "
        "worst of theirs",
    )


@contextlib.contextmanager
def open_path(given: Path) -> Iterator[Path]:
    """The directory that is looked at, gone afterwards if it is temporary.

    What is raised names the archive, and not that directory. Raises RepositoryUnusable where there
    is nothing.
    """
    if not given.exists():
        raise RepositoryUnusable(
            given,
            "there is no such file or directory",
            "expected an archive: a directory, or its .tar.gz",
        )
    if not given.is_dir() and not given.is_file():
        raise RepositoryUnusable(
            given,
            "it is neither a directory nor a regular file",
            "expected an archive: a directory, or its .tar.gz",
        )
    with opened(given) as directory:
        try:
            yield directory
        except EnsembleToolsError as error:
            if directory == given:
                raise
            raise EnsembleToolsError(str(error).replace(str(directory), str(given))) from error
