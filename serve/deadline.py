"""The one bounded wait. Nothing else in the container's path limits work in time by cancelling it.

asyncio.wait_for of Python 3.10 and 3.11 may lose a cancellation that comes as the work ends (the
task that was to end goes on), and waits for work that does not let itself be ended. asyncio.timeout
is not there in 3.10. Here a cancellation always arrives, and a limit always ends the wait: the work
is told to end and is not waited for. A lint rule keeps the other two out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

from serve.errors import TritonTimeout

_T = TypeVar("_T")


async def within(work: Awaitable[_T], limit_s: float) -> _T:
    """What the work returns; raises asyncio.TimeoutError when that takes longer.

    Work whose time is over already is not begun. Work that is late, or whose caller is cancelled,
    is cancelled.
    """
    task = await _over_within(work, limit_s)
    if task is None:
        raise asyncio.TimeoutError
    return task.result()


class Deadline:
    """The time that is left for something that takes several steps.

    limit_s: for all of them, from now on; a TimeLimit, where a message is to name its setting.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._end = time.monotonic() + limit_s

    @property
    def remaining(self) -> float:
        """Seconds that are left; 0 when it is over."""
        return max(0.0, self._end - time.monotonic())

    async def bound(self, work: Awaitable[_T], what: str) -> _T:
        """What the work returns, if it does so in time, as within() has it.

        what: the subject of the sentence in TritonTimeout, which is raised otherwise.
        """
        task = await _over_within(work, self.remaining)
        if task is None:
            raise self.missed(what)
        return task.result()

    def missed(self, what: str) -> TritonTimeout:
        """The error that says that this was not done in time."""
        return TritonTimeout(what, self.limit_s)


async def _over_within(work: Awaitable[_T], limit_s: float) -> asyncio.Future[_T] | None:
    """The work once it is over; None when that takes longer."""
    task = asyncio.ensure_future(work) if limit_s > 0 else None
    if task is None:
        _not_begun(work)
        return None
    try:
        await asyncio.wait({task}, timeout=limit_s)
    except asyncio.CancelledError:
        _give_up(task)
        raise
    if task.done():
        return task
    _give_up(task)
    return None


def _not_begun(work: Awaitable[Any]) -> None:
    if asyncio.iscoroutine(work):
        work.close()
    elif isinstance(work, asyncio.Future):
        work.cancel()


def _give_up(task: asyncio.Future[Any]) -> None:
    task.cancel()
    task.add_done_callback(_look_at)


def _look_at(task: asyncio.Future[Any]) -> None:
    """asyncio logs the exceptions of tasks that nobody has looked at."""
    if not task.cancelled():
        task.exception()
