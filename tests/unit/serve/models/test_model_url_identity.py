"""What tells one archive from another: its content, not its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from serve.models.model_url import identify_archive
from tests.support import models


def test_an_archive_is_known_by_its_content(tmp_path: Path) -> None:
    """Extracted anew it is the same, with new times and inodes; mended it is another."""
    first = models.write_archive(tmp_path / "a/model", {"m": models.identity})
    second = tmp_path / "b/model"
    shutil.copytree(first, second)
    os.utime(second, (1, 1))
    assert identify_archive(str(first)) == identify_archive(str(second))
    program = second / "m/1/model.py"
    program.write_text(program.read_text().replace("IN", "UN", 1))
    assert identify_archive(str(first)) != identify_archive(str(second))


def test_what_cannot_be_read_holds_nobody_up(tmp_path: Path) -> None:
    """A pipe, a link to nowhere, a large file, and a place that is not there."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    assert identify_archive(str(tmp_path)) != identify_archive(str(tmp_path / "nowhere"))
