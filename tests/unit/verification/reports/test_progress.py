"""Whoever waits for verify sees what it does, on a terminal or in a log."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.clock import Clock
from verification.reports.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@asynccontextmanager
async def shown(clock: Clock, stream: io.StringIO) -> AsyncIterator[None]:
    """What is shown while the clock stands still but for what the test passes."""
    clock.stop()
    progress = Progress(stream, first_line_s=10, lines_apart_s=20)
    async with progress.shown():
        progress.tell("loading")
        await asyncio.sleep(0)
        yield


async def test_no_terminal(clock: Clock) -> None:
    """A line now and then, none of a run that is over before, and no character of control."""
    stream = io.StringIO()
    async with shown(clock, stream):
        clock.advance(9)
        for _ in range(5):
            await asyncio.sleep(0)
    assert stream.getvalue() == ""
    async with shown(clock, stream):
        for lines, seconds in ((1, 10), (2, 20)):
            clock.advance(seconds)
            while stream.getvalue().count("\n") < lines:  # noqa: ASYNC110 # a task of the loop
                await asyncio.sleep(0)
    assert stream.getvalue() == "[10 s] loading\n[30 s] loading\n"


async def test_terminal(clock: Clock) -> None:
    """One line, which is gone at the end."""
    stream = Terminal()
    async with shown(clock, stream):
        pass
    text = stream.getvalue()
    assert "loading … 0 s" in text
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text
