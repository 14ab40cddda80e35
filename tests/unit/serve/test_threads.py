"""Blocking work that the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from serve.models.lifecycle import to_its_end
from serve.threads import run_in_daemon_thread
from tests.support.clock import Clock

ROOT = Path(__file__).parents[3]
STUCK = """
import asyncio, os, sys, threading
import uvloop
from serve.threads import run_in_daemon_thread

async def main() -> None:
    os.mkfifo(sys.argv[1])
    read = asyncio.ensure_future(run_in_daemon_thread(lambda: open(sys.argv[1]).read(), "fifo"))
    await asyncio.sleep(0.1)
    print("stuck" if not read.done() else "read", flush=True)

uvloop.run(main())
"""


def test_a_read_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    """asyncio.to_thread does: its threads are joined at the end."""
    ended = subprocess.run(
        [sys.executable, "-c", STUCK, str(tmp_path / "fifo")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "stuck\n"


async def test_a_load_that_is_given_up_waits_for_its_thread_and_not_for_ever(clock: Clock) -> None:
    """What it writes comes before the undoing; but the end of the container comes, too."""
    let_go = threading.Event()
    load = asyncio.ensure_future(to_its_end(run_in_daemon_thread(let_go.wait, "load"), 60))
    await asyncio.sleep(0.05)
    for _ in range(2):
        load.cancel()
        await asyncio.sleep(0.05)
        clock.advance(20)
    assert not load.done()
    clock.advance(21)
    with pytest.raises(asyncio.CancelledError):
        await load
    let_go.set()


async def test_values_and_errors_come_back() -> None:
    """As they do from a call."""

    def fail() -> None:
        raise KeyError("gone")

    assert await run_in_daemon_thread(lambda: 7, "seven") == 7
    with pytest.raises(KeyError, match="gone"):
        await run_in_daemon_thread(fail, "fails")
