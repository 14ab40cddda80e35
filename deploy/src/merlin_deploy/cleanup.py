"""Clear away temporary files at the end of a command, also if a signal ends it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from ensemble_tools.shipping import heeded, ignore_signals, leave_in_order, sentence_of
from merlin_deploy.errors import Refused

_NAME = re.compile(r"deploy-[0-9a-f]{16}")
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def clean_up_at_end() -> Iterator[None]:
    """Put the block's temporary files into a directory of their own, and remove it at the end.

    In the block the first Ctrl-C or SIGTERM is raised, as KeyboardInterrupt or SystemExit; later
    ones do not interrupt the removal. Directories that killed processes left are removed first.
    For the main thread. Raises Refused if there is no room for the directory.
    """
    before: dict[int, Any] = {number: signal.getsignal(number) for number in heeded()}
    outer, parent = tempfile.tempdir, Path(tempfile.gettempdir())
    own, lock = parent / f"deploy-{token_hex(8)}", -1
    try:
        try:
            leave_in_order()
            _remove_abandoned(parent)
            lock = _make(own)
            tempfile.tempdir = str(own)
            yield
        finally:
            _clear_away(own)
    except BaseException:  # it may come during the removal, too
        _clear_away(own)
        raise
    finally:
        tempfile.tempdir = outer
        if lock >= 0:
            os.close(lock)
        for number, handler in before.items():
            signal.signal(number, handler)


def _make(directory: Path) -> int:
    """A descriptor that locks it; the lock ends with this process, however it ends."""
    try:
        while True:
            directory.mkdir(mode=0o700, exist_ok=True)
            # Before it is locked, another command may remove it as abandoned.
            with suppress(FileNotFoundError):
                lock = os.open(directory, _FLAGS)
                fcntl.flock(lock, fcntl.LOCK_EX)
                if os.fstat(lock).st_nlink:
                    return lock
                os.close(lock)
    except OSError as error:
        raise Refused(
            f"{sentence_of(error)}; temporary files want a directory with room: set TMPDIR"
        ) from error


def _remove_abandoned(parent: Path) -> None:
    """Remove the directories of killed processes: nobody holds their locks."""
    for directory in parent.glob("deploy-*"):
        if not _NAME.fullmatch(directory.name):
            continue
        with suppress(OSError):  # another user's, or in use
            lock = os.open(directory, _FLAGS)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)


def _clear_away(directory: Path) -> None:
    ignore_signals()
    shutil.rmtree(directory, ignore_errors=True)
