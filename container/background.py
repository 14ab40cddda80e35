"""Restarts work beside serving when it fails: no such failure may end the container."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

#: From a failure to the next try, in seconds.
_AGAIN_S = 2.0


async def restart_for_ever(
    name: str, work: Callable[[], Awaitable[None]], again_s: float = _AGAIN_S
) -> None:
    """Do the work until it returns; what it raises is logged once, and it begins anew."""
    known: set[str] = set()
    while True:
        try:
            return await work()
        except Exception as error:  # a lack of descriptors, of memory, or a bug: none ends serving
            kind = f"{type(error).__name__}: {error}"
            if kind not in known and len(known) < 100:
                known.add(kind)
                log.warning("work beside serving failed", exc_info=error, extra={"work": name})
        await asyncio.sleep(again_s)
