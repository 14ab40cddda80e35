"""Containers of a simulator that was killed: noted while they run, ended at the next start."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil


def note(folder: Path, pid: int) -> None:
    """A container was started; pid: of it and of its process group."""
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
        began = psutil.Process(pid).create_time()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(pid)).write_text(repr(began))


def end_left(folder: Path) -> int:
    """SIGKILL to each that was noted and still runs; how many. The notes are the caller's."""
    ended = 0
    for path in folder.iterdir() if folder.is_dir() else ():
        # A pid may be another program's by now, which began at another time.
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, ValueError, OSError):
            pid = int(path.name)
            if psutil.Process(pid).create_time() == float(path.read_text()):
                os.killpg(pid, signal.SIGKILL)
                ended += 1
    return ended
