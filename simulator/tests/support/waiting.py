"""Waiting for what others do, and for a moment in which they do not disturb."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

WAIT_S = 60.0
#: Of a check that goes by seconds.
_TRIES = 10


async def until(holds: Callable[[], bool], what: str) -> None:
    """Until it holds; an AssertionError that names it after a minute."""

    async def seen() -> None:
        while not holds():  # noqa: ASYNC110 - the state of another program's making
            await asyncio.sleep(0.01)

    try:
        await asyncio.wait_for(seen(), WAIT_S)
    except asyncio.TimeoutError:
        raise AssertionError(f"it never happened: {what}") from None


def in_a_calm_moment(check: Callable[[int], None]) -> None:
    """Check until it holds, ten times at most; each time with another number.

    For what is about seconds: a busy machine may take some of its own each time, but hardly always.
    """
    for number in range(_TRIES - 1):
        with contextlib.suppress(AssertionError):
            check(number)
            return
    check(_TRIES - 1)
