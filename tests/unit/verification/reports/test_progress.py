"""Whoever waits for verify sees what it does, on a terminal or in a log."""

from __future__ import annotations

import asyncio
import io

from verification.reports.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, seconds: float) -> str:
    async def work() -> None:
        progress = Progress(stream, first_line_s=0.1, lines_apart_s=0.2)
        async with progress.shown():
            progress.tell("loading")
            await asyncio.sleep(seconds)

    asyncio.run(work())
    return stream.getvalue()


def test_no_terminal() -> None:
    """A line now and then, none of a run that is over before, and no character of control."""
    assert shown(io.StringIO(), 0.0) == ""
    text = shown(io.StringIO(), 0.4)
    assert text.startswith("[0 s] loading\n")
    assert len(text.splitlines()) == 2
    assert text.replace("\n", "").isprintable()


def test_terminal() -> None:
    """One line, which is gone at the end."""
    text = shown(Terminal(), 0.1)
    assert "loading … 0 s" in text
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text
