"""The platform's time, which may go faster than that of this machine.

With a scale of 60 the platform's minute takes a second: metrics, alarms, cooldowns and schedules
go by it. What containers do takes as long as ever. It begins at this machine's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Clock:
    """scale: of the platform's seconds for one of this machine's.

    earliest: seconds since the epoch before which it does not begin: what is kept is older.
    """

    def __init__(
        self,
        scale: float = 1.0,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        earliest: float = 0.0,
    ) -> None:
        self.scale = scale
        self._began, self._monotonic = max(wall(), earliest), monotonic
        self._since = monotonic()

    def now(self) -> float:
        """Seconds since the epoch, on the platform."""
        return self.at(self._monotonic())

    def at(self, monotonic: float) -> float:
        """The platform's time at a reading of this machine's monotonic clock."""
        return self._began + (monotonic - self._since) * self.scale

    async def sleep(self, seconds: float) -> None:
        """So many of the platform's seconds."""
        await asyncio.sleep(max(0.0, seconds) / self.scale)
