"""Buries what models have started and left: whoever loses his parent becomes the container's child.

(PR_SET_CHILD_SUBREAPER, process.py.) Such a process that has ended keeps its id until its
parent asks for it, and a model that starts one for each request would use up all ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

from serve.threads import run_in_daemon_thread
from serve.triton.stubs import Descendant, find_dead_children

#: Whoever starts a process here waits for it, and asks for it well within this time, in seconds.
_LOOK_S = 10.0


async def bury_orphans(look_s: float = _LOOK_S) -> None:
    """Ask, for ever, for those that nobody has asked for since the look before."""
    known: frozenset[Descendant] = frozenset()
    while True:
        await asyncio.sleep(look_s)
        dead = await run_in_daemon_thread(find_dead_children, "orphans")
        _bury(dead & known)
        known = dead


def _bury(orphans: frozenset[Descendant]) -> None:
    for orphan in orphans:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(orphan.pid, os.WNOHANG)
