"""What a Python that a test starts finds the package by."""

from __future__ import annotations

import os
from pathlib import Path

_SOURCES = Path(__file__).parents[2] / "src"


def environment_of_ours() -> dict[str, str]:
    """This process's, with the package that need not be installed."""
    return {**os.environ, "PYTHONPATH": str(_SOURCES)}


def find_marked(mark: str) -> dict[int, str]:
    """Processes that have this NAME=VALUE in their environment: their command lines, by pid."""
    marked = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if mark.encode() in environment:
            marked[int(entry.name)] = words
    return marked
