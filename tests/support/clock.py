"""A clock that a test moves on, so that no test waits for a time, or goes by how long it took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest
import uvloop

#: How far `until` moves the clock at once, and for how many turns of the loop it then waits.
_STEP_S, _TURNS = 0.05, 20


class Clock:
    """time.monotonic, and with it the event loop's time, ahead by what the test has passed.

    A limit of half a minute is over when the test says so, and no sooner on a busy machine. The
    loop is asyncio's, or a ClockedLoop.
    """

    def __init__(self) -> None:
        self._machine, self._ahead = time.monotonic, 0.0
        self._stands_at: float | None = None
        self._looked_at: float | None = None

    def __call__(self) -> float:
        now = self._machine() if self._stands_at is None else self._stands_at
        if self._looked_at is not None:
            self._ahead -= max(0.0, now - self._looked_at - _STEP_S)
            self._looked_at = now
        return now + self._ahead

    def advance(self, seconds: float) -> None:
        """What is due until then happens in the next turn of the loop."""
        self._ahead += seconds
        loop = asyncio.get_running_loop()
        if isinstance(loop, ClockedLoop):
            loop.time_has_passed()

    def stop(self) -> None:
        """From now on it stands still, but for what the test passes."""
        self._stands_at = self._machine()

    def pass_by_steps(self) -> None:
        """From now on a small step passes between two looks at it, however long this process was
        kept waiting: for what waits for small times alone.
        """
        self._looked_at = self._machine()

    async def until(self, true: Callable[[], bool], within_s: float) -> None:
        """Return when it is true; fails where more than so much time of this clock has to pass.

        The clock stands still but for small steps, and each has turns of the loop enough, however
        slow the machine is.
        """
        before, self._stands_at = self._stands_at, self._stands_at or self._machine()
        try:
            for _ in range(round(within_s / _STEP_S) + 1):
                for _ in range(_TURNS):
                    if true():
                        return
                    await asyncio.sleep(0)
                    time.sleep(0.0005)  # noqa: ASYNC251 # the kernel carries what was sent
                self.advance(_STEP_S)
            raise AssertionError(f"not within {within_s} s")
        finally:
            self._stands_at = before


class _Timer:
    """What a ClockedLoop is to call, in the place of asyncio's TimerHandle."""

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self._when, self.call = when, call
        self.armed: asyncio.TimerHandle | None = None
        self._cancelled = False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self._cancelled = True
        if self.armed is not None:
            self.armed.cancel()

    def cancelled(self) -> bool:
        return self._cancelled


class ClockedLoop(uvloop.Loop):  # type: ignore[misc] # untyped
    """uvloop's, whose timers go by time.monotonic, as those of asyncio's own loop do."""

    def __init__(self) -> None:
        super().__init__()
        self._timers: set[_Timer] = set()

    def time(self) -> float:
        return time.monotonic()

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        timer = _Timer(when, lambda: self.call_soon(callback, *args, context=context))
        self._timers.add(timer)
        self._arm(timer)
        return timer

    def time_has_passed(self) -> None:
        """What is due by now is due in the next turn."""
        for timer in [*self._timers]:
            if timer.armed is not None:
                timer.armed.cancel()
            self._arm(timer)

    def _arm(self, timer: _Timer) -> None:
        if timer.cancelled():
            self._timers.discard(timer)
        else:
            left = max(0.0, timer.when() - self.time())
            timer.armed = super().call_later(left, self._fire, timer)

    def _fire(self, timer: _Timer) -> None:
        if timer.cancelled() or timer.when() <= self.time() + 0.001:  # uvloop rounds to 1 ms
            self._timers.discard(timer)
            if not timer.cancelled():
                timer.call()
        else:  # the clock stands still
            timer.armed = super().call_later(0.01, self._fire, timer)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of this process, for as long as the test lasts."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock
