"""Answers /ping for the container, and logs a line whenever the answer changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class HealthCheck:
    """Whether the container is healthy; what `GET /ping` asks.

    is_up: whether what has to answer does so, tritonserver or the single model; down: the sentence
    for when it does not. trouble: why nobody can be served although it does; None if all is well.
    """

    def __init__(
        self, is_up: Callable[[], Awaitable[bool]], down: str, trouble: Callable[[], str | None]
    ) -> None:
        self._is_up, self._down, self._trouble = is_up, down, trouble
        self._healthy = False  # nobody need be told that it has not started yet

    async def __call__(self) -> bool:
        """Ask now; never raises."""
        reason = self._trouble() if await self._is_up() else self._down
        if reason is None and not self._healthy:
            log.info("healthy: /ping answers 200")
        elif reason is not None and self._healthy:
            log.error("unhealthy: /ping answers 503", extra={"reason": reason})
        self._healthy = reason is None
        return self._healthy
