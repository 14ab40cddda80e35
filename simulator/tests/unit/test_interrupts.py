"""Signals at moments in which nothing may be cut in two."""

from __future__ import annotations

import asyncio
import signal

import pytest

from merlin_simulator.interrupts import run_uncut


def test_ctrl_c_while_the_loop_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the whole of it: a loop that is half made complains when it is thrown away."""
    made = []

    def make_interrupted() -> asyncio.AbstractEventLoop:
        signal.raise_signal(signal.SIGINT)
        made.append(make())
        return made[-1]

    async def never() -> None:
        raise AssertionError("it was interrupted before")

    make = asyncio.new_event_loop
    monkeypatch.setattr(asyncio.events, "new_event_loop", make_interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_uncut(never)
    assert [loop.is_closed() for loop in made] == [True]
