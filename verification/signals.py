"""SIGINT and SIGTERM: what runs is given up in order, wherever it is just then."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

from ensemble_tools.signals import heeded

T = TypeVar("T")


class Interrupted(BaseException):
    """A signal came. No Exception: nothing on the way takes it for an error of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Signals:
    """The first one counts; one that follows must not interrupt the clearing away.

    Code that blocks is interrupted by Interrupted, which is raised in it; what awaits is cancelled.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._work: asyncio.Future[Any] | None = None
        self._blocks = False

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """They are, for as long as the block lasts; only in the main thread."""
        before = [(number, signal.signal(number, self._handle)) for number in heeded()]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    @contextlib.contextmanager
    def blocking(self) -> Iterator[None]:
        """Code of a coroutine that awaits nothing, and may take long."""
        self._blocks = True
        try:
            yield
        finally:
            self._blocks = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work; raises Interrupted when it was given up."""
        running = self._work = asyncio.ensure_future(work)
        try:
            result: T = await running
            return result
        except (asyncio.CancelledError, Exception):
            if self._received is None:
                raise
            raise Interrupted(self._received) from None
        finally:
            self._work = None

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._received is not None:
            return
        self._received = number
        if self._work is None or self._blocks:
            raise Interrupted(number)
        self._work.get_loop().call_soon_threadsafe(self._work.cancel)
