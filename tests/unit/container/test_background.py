"""Work beside serving: none of it may end the container."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from container.background import restart_for_ever


async def test_what_fails_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of failure is logged once, and a return is the end."""
    tries = 0

    async def work() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    await restart_for_ever("memory", work, again_s=0)
    assert tries == 4
    (record,) = caplog.records
    assert (record.message, record.work) == ("work beside serving failed", "memory")  # type: ignore[attr-defined]


async def test_it_can_be_ended() -> None:
    """Cancelled, it is no failure."""

    async def work() -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(restart_for_ever("memory", work))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
