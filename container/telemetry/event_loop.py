"""How late the event loop is: what every caller waits beside his own work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_EVERY_S = 0.25


async def watch_lag(late: Callable[[float], None], every_s: float = _EVERY_S) -> None:
    """Tell the seconds by which each of our own timers was late, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_s
        await asyncio.sleep(every_s)
        late(max(0.0, loop.time() - due))
