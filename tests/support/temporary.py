"""A directory for all temporary files of a program, in which it leaves nothing."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container import processes


@contextlib.contextmanager
def left_empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """TMPDIR for the length of the block; nothing may be left in it, nor run from it.

    Its path is short, since tritonserver's sockets lie in it, which the kernel takes no long paths
    for.
    """
    with tempfile.TemporaryDirectory(prefix="left-") as name:
        directory = Path(name)
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield directory
        assert list(directory.iterdir()) == []
        assert running_from(directory) == []


def running_from(directory: Path) -> list[int]:
    """Processes with a path in the directory on their command line."""
    return [
        process.pid
        for process in processes()
        if any(str(directory) in word for word in process.command)
    ]
