"""Output that is there whole or not at all: made under a hidden name, then renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from ensemble_tools.errors import EnsembleToolsError


class DestinationUnusable(EnsembleToolsError):
    """The place to write to is taken, or is not there: nothing was written."""

    def __init__(self, path: Path, found: str, remedy: str) -> None:
        super().__init__(f"{path}: {found}; {remedy}")


@contextlib.contextmanager
def stage_beside(destination: Path) -> Iterator[Path]:
    """A hidden directory on destination's file system; removed with all that is left in it.

    Raises DestinationUnusable when destination's own directory is missing.
    """
    parent = destination.absolute().parent
    if not parent.is_dir():
        raise DestinationUnusable(
            destination, f"there is no directory {parent}", f"make it first: mkdir -p {parent}"
        )
    staging = parent / f".{destination.name[:100]}.{secrets.token_hex(8)}"
    try:  # from before it is there: a signal may come at any time
        staging.mkdir(mode=0o700)
        yield staging
    finally:
        try:
            shutil.rmtree(staging, ignore_errors=True)
        except BaseException:  # also while it is removed; only the first one is raised
            shutil.rmtree(staging, ignore_errors=True)
            raise


def write_file(destination: Path, content: bytes) -> None:
    """Put content there, in one step; an older file is replaced."""
    check_no_directory(destination)
    with stage_beside(destination) as staging:
        staged = staging / "file"
        staged.write_bytes(content)
        staged.replace(destination)


def check_destination(destination: Path) -> None:
    """Raise DestinationUnusable, or OSError, where write_file would; for before long work."""
    check_no_directory(destination)
    with stage_beside(destination):
        pass


def check_no_directory(destination: Path) -> None:
    """Raise DestinationUnusable where a directory is in the way."""
    if destination.is_dir():
        raise DestinationUnusable(
            destination, "found a directory, expected a file to write", "name a file in it"
        )


def check_empty(destination: Path) -> None:
    """Raise DestinationUnusable unless destination is free, or an empty directory."""
    if not os.path.lexists(destination):
        return
    if destination.is_symlink() or not destination.is_dir():
        raise DestinationUnusable(
            destination, "it exists and is no directory", "name another place, or remove it"
        )
    if any(destination.iterdir()):
        raise DestinationUnusable(
            destination, "it exists and is not empty", "name another place, or empty it"
        )


def read_default_mode(of_new: int) -> int:
    """The mode that open and mkdir would make of this one."""
    mask = os.umask(0)
    os.umask(mask)
    return of_new & ~mask
