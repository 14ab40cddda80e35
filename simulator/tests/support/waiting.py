"""Waiting in an event loop for what others do in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WAIT_S = 60.0


async def until(holds: Callable[[], bool], what: str) -> None:
    """Until it holds; an AssertionError that names it after a minute."""

    async def seen() -> None:
        while not holds():  # noqa: ASYNC110 - the state of another program's making
            await asyncio.sleep(0.01)

    try:
        await asyncio.wait_for(seen(), WAIT_S)
    except asyncio.TimeoutError:
        raise AssertionError(f"it never happened: {what}") from None
