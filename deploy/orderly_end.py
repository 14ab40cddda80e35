"""A command that has something to clear away, also when a signal ends it."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from types import FrameType
from typing import Any

from deploy.errors import Refused
from ensemble_tools.errors import sentence_of
from ensemble_tools.signals import heeded


@contextmanager
def orderly_end() -> Iterator[None]:
    """In the block the first Ctrl-C or SIGTERM is raised, as KeyboardInterrupt or SystemExit.

    Those after it do not interrupt the clearing away. Temporary files of the block lie in a
    directory of their own, which is gone at its end. For the main thread. Raises Refused where
    there is no room for it.
    """
    before: dict[int, Any] = {number: signal.getsignal(number) for number in heeded()}
    outer, own = tempfile.tempdir, Path(tempfile.gettempdir()) / f"deploy-{token_hex(8)}"
    try:
        try:
            for number in before:
                signal.signal(number, _raise)
            _make(own)
            tempfile.tempdir = str(own)
            yield
        finally:
            _clear_away(own, before)
    except BaseException:  # also while it is removed; only the first one is raised
        _clear_away(own, before)
        raise
    finally:
        tempfile.tempdir = outer
        for number, handler in before.items():
            signal.signal(number, handler)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700)
    except OSError as error:
        raise Refused(
            f"{sentence_of(error)}; temporary files want a directory with room: set TMPDIR"
        ) from error


def _clear_away(directory: Path, numbers: Mapping[int, Any]) -> None:
    _ignore(numbers)
    shutil.rmtree(directory, ignore_errors=True)


def _ignore(numbers: Mapping[int, Any]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def _raise(number: int, _: FrameType | None) -> None:
    _ignore(dict.fromkeys(heeded()))
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
