"""Ctrl-C while nothing has begun that would have to be ended: while libraries are imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

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


def hold_signals() -> Callable[[], None]:
    """From now on Ctrl-C and SIGTERM wait, until what is returned is called: then they come.

    For what must not be cut in two: a process that is started is then one that will be ended.
    """
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {it: signal.signal(it, lambda late, _: came.append(late)) for it in numbers}

    def release() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)

    return release


def run_uncut(main: Callable[[], Coroutine[None, None, T]]) -> T:
    """asyncio.run, but no signal comes while the event loop is made: half a loop complains."""
    import asyncio  # who is asked for help only is not to wait for it

    release = hold_signals()

    async def run_released() -> T:
        release()
        return await main()

    return asyncio.run(run_released())
