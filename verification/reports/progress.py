"""What is being done, on one line of a terminal; nothing where no one looks."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import TextIO

_TICK_S = 0.2
_CLEAR = "\r\x1b[K"


class Progress:
    """Tells a terminal what goes on and for how long."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._title = ""
        self._since = 0.0

    def tell(self, title: str) -> None:
        """Change what the line says."""
        self._title, self._since = title, time.monotonic()

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """The line, for as long as the block lasts; gone after it."""
        if not self._stream.isatty():
            yield
            return
        ticking = asyncio.ensure_future(self._tick())
        try:
            yield
        finally:
            ticking.cancel()
            self._write(_CLEAR)

    async def _tick(self) -> None:
        while True:
            seconds = time.monotonic() - self._since
            self._write(f"{_CLEAR}{self._title} … {seconds:.0f} s" if self._title else "")
            await asyncio.sleep(_TICK_S)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
