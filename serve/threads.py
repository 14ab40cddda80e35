"""Blocking work in a thread that the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class NoThread(RuntimeError):
    """The machine has no thread to give, for its limit of processes or want of memory."""


class InThread(Protocol):
    """The type of run_in_daemon_thread."""

    def __call__(self, work: Callable[[], _T], name: str) -> Awaitable[_T]: ...


async def run_in_daemon_thread(work: Callable[[], _T], name: str) -> _T:
    """What the work returns or raises; asyncio.to_thread's threads are waited for at the end.

    Raises NoThread where none can be started.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def run() -> None:
        try:
            value = work()
        except BaseException as error:
            outcome = functools.partial(future.set_exception, error)
        else:
            outcome = functools.partial(future.set_result, value)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        raise NoThread(str(error)) from error
    return await future
