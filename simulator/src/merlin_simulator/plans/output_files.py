"""Where a plan's answers go: a file is whole, or as it was before. All raise UnusableFile."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from merlin_simulator.plans.errors import UnusableFile
from merlin_simulator.plans.text_files import reason_of


def check_place(path: Path) -> None:
    """Before the plan, which takes a while: there is a folder for the file."""
    with _writing(path):
        folder = path.resolve().parent
        if path.is_dir() or not folder.is_dir():
            raise _unwritable(
                path, "it is a folder" if path.is_dir() else "there is no such folder"
            )


def make_folder(folder: Path) -> None:
    """Before the plan, which takes a while."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnusableFile(
            folder,
            f"no files can be written there ({error.strerror}), expected a folder; name another "
            "with --report",
        ) from error


def write_json(path: Path, answer: Mapping[str, Any]) -> None:
    """As write_text."""
    write_text(path, json.dumps(answer, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """What is there already stays until all of the text is written, or where that fails."""
    with _writing(path):
        whole = path.resolve()
        if whole.exists() and not (whole.is_file() and os.access(whole.parent, os.W_OK)):
            path.write_text(text, "utf-8")  # a pipe, a device, or a folder that takes no new files
            return
        beside = whole.with_name(f".{whole.name[:200]}.new")
        try:
            beside.write_text(text, "utf-8")
            if whole.exists():
                shutil.copymode(whole, beside)
            beside.replace(whole)
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise _unwritable(path, reason_of(error)) from error


def _unwritable(path: Path, why: str) -> UnusableFile:
    return UnusableFile(path, f"cannot be written ({why}); name another place")
