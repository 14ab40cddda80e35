"""Progress on one line of a terminal, written over; elsewhere a line now and then."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import TextIO

_TICK_S = 0.2
_CLEAR = "\r\x1b[K"
#: Where output is no terminal: when the first line comes, and how far apart the others are.
_FIRST_LINE_S, _LINES_APART_S = 2.0, 10.0


class Progress:
    """Tells whoever looks what goes on and for how long."""

    def __init__(
        self,
        stream: TextIO | None = None,
        first_line_s: float = _FIRST_LINE_S,
        lines_apart_s: float = _LINES_APART_S,
    ) -> None:
        self._stream = stream or sys.stderr
        self._first_line_s, self._lines_apart_s = first_line_s, lines_apart_s
        self._title = ""
        self._since = 0.0

    def tell(self, title: str) -> None:
        """Change what the line says."""
        self._title, self._since = title, time.monotonic()

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """The line, for as long as the block lasts; on a terminal it is gone after it."""
        is_terminal = self._stream.isatty()
        ticking = asyncio.ensure_future(self._write_over() if is_terminal else self._write_lines())
        try:
            yield
        finally:
            ticking.cancel()
            if is_terminal:
                self._write(_CLEAR)

    async def _write_over(self) -> None:
        while True:
            seconds = time.monotonic() - self._since
            self._write(f"{_CLEAR}{self._title} … {seconds:.0f} s" if self._title else "")
            await asyncio.sleep(_TICK_S)

    async def _write_lines(self) -> None:
        started = time.monotonic()
        await asyncio.sleep(self._first_line_s)
        while True:
            self._write(f"[{time.monotonic() - started:.0f} s] {self._title}\n")
            await asyncio.sleep(self._lines_apart_s)

    def _write(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # nobody reads it
            self._stream.write(text)
            self._stream.flush()
