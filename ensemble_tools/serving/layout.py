"""The archive's own layout, for its own Python: a copy made of links, beside what is published.

A Python model may read what lies beside it in its archive: another model's labels, a folder of
modules. In the serving repository nothing of it lies there, but models of other archives. So such a
model is handed paths of this copy: as its `model_repository`, as its `__file__`, and for imports.

Directories are made anew and files are links to what was delivered: what is written beside a file
is written here. Links of the archive lead to the same path of the copy. So `..` leads to the same
directory whether a path is taken apart or followed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from ensemble_tools.archive.files import followed
from ensemble_tools.serving.namespace import LAYOUT_LINK, LAYOUT_PREFIX
from ensemble_tools.serving.serving_plan import OwnCode, PublishedModel
from ensemble_tools.steps.sources import render_delivered


def write_layout(archive: Path, entry: Path) -> None:
    """Copy the layout, for an entry model's directory in a staging area of a serving repository.

    The archive was walked: its links stay inside of it, and none leads back. Raises OSError; what
    there is by then goes with remove_layout.
    """
    root = os.path.realpath(archive)
    layout = Path(tempfile.mkdtemp(prefix=LAYOUT_PREFIX, dir=entry.parents[2].resolve()))
    try:
        (entry / LAYOUT_LINK).symlink_to(layout)
    except OSError:
        layout.rmdir()
        raise
    top = layout / entry.name
    top.mkdir()
    waiting = [(root, top)]
    while waiting:
        directory, copy = waiting.pop()
        with os.scandir(directory) as entries:
            for item in entries:
                there = copy / item.name
                if item.is_symlink():
                    there.symlink_to(_find_copied(item.path, root, top, copy))
                elif item.is_dir():
                    there.mkdir()
                    waiting.append((item.path, there))
                else:
                    there.symlink_to(item.path)


def remove_layout(entry: Path) -> None:
    """Remove the copy that belongs to an entry model's directory, if there is one."""
    with contextlib.suppress(OSError):
        layout = os.readlink(entry / LAYOUT_LINK)
        if os.path.basename(layout).startswith(LAYOUT_PREFIX):
            shutil.rmtree(layout, ignore_errors=True)


def _find_copied(link: str, root: str, top: Path, copy: Path) -> str:
    """The link's target in the copy, seen from its own directory there."""
    try:
        target = followed(link)
    except OSError:  # it leads nowhere
        return os.readlink(link)
    return os.path.relpath(top / os.path.relpath(target, root), copy)


def write_own_code(model: PublishedModel, code: OwnCode, directory: Path, entry: str) -> None:
    """Link what tritonserver is to find of the model into the copy.

    A version's directory has the generated file alone, which runs the delivered one. Raises
    OSError.
    """
    text = render_delivered(
        os.path.join("..", "..", entry, LAYOUT_LINK),
        os.path.join(entry, code.model_path),
        os.path.realpath(code.archive),
        code.names,
    )
    for file in code.files:
        (directory / file).parent.mkdir()
        (directory / file).write_text(text, encoding="utf-8")
    versions = {file.partition("/")[0] for file in code.files}
    for name, target in model.links:
        if name not in versions:
            path = os.path.relpath(target, code.archive)
            (directory / name).symlink_to(os.path.join("..", entry, LAYOUT_LINK, entry, path))
