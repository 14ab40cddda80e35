"""A suspect of tritonserver's death goes there alone: no other suspect is beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from serve.triton.suspects import Standing, Suspects, Work

_T = TypeVar("_T")

#: A suspect that takes longer goes on beside the next: it may hang, and neighbours wait. Of two
#: that are there at a death neither is condemned at once (suspects.DEATHS_IN_COMPANY). In seconds.
TURN_S = 5.0


class Trials:
    """The turns of suspects, in the order in which they come. Innocents do not wait."""

    def __init__(self, suspects: Suspects | None = None) -> None:
        self.suspects = suspects or Suspects()
        self._turn = asyncio.Lock()

    async def run(self, work: Work, carry_out: Callable[[], Awaitable[_T]]) -> _T:
        """Carries it out: returns or raises what that does, or a culprit's error.

        The wait for a turn is unbounded: the caller names the limit.
        """
        if self._standing(work) is Standing.INNOCENT:
            return await carry_out()
        await self._turn.acquire()
        try:
            self._standing(work)  # it may have been condemned meanwhile
            trial = asyncio.ensure_future(carry_out())
            try:
                await asyncio.wait({trial}, timeout=TURN_S)
            except BaseException:
                trial.cancel()
                raise
        finally:
            self._turn.release()
        return await trial

    def _standing(self, work: Work) -> Standing:
        standing = self.suspects.standing(work)
        if standing is Standing.CULPRIT:
            raise work.refused()
        return standing
