"""Ctrl-C while nothing has begun that would have to be ended: while libraries are imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: What shells say after Ctrl-C.
INTERRUPTED = 130


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Within the block Ctrl-C ends the process at once and without a word: exit code 130.

    An exception would come in the middle of a library's import, which may print it, or lose it.
    In the main thread, and only where nothing is left behind: no process, no folder, no answer.
    """
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
