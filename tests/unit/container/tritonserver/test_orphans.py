"""Processes that lost their parents are buried; those that somebody here waits for are not."""

from __future__ import annotations

import subprocess
import sys

from tests.unit.container.conftest import ROOT

#: Between two looks are seconds of its own clock, which goes on when it has seen what there is.
PROGRAM = """
import asyncio, subprocess, time
from container.tritonserver.orphans import bury_orphans
from container.tritonserver.process import _adopt_orphans
from serve.triton.stubs import find_dead_children
from tests.support.clock import Clock

async def main():
    mine = subprocess.Popen(["true"])
    for _ in range(20):
        subprocess.run(["sh", "-c", "(sleep 0.1; true) & true"], check=True)
    while len(find_dead_children()) <= 20:
        await asyncio.sleep(0.02)
    burying = asyncio.ensure_future(bury_orphans(1000))
    await asyncio.sleep(0.02)
    clock.advance(1001)
    await asyncio.sleep(0.3)
    assert len(find_dead_children()) > 20, "one look buries none"
    assert mine.wait() == 0
    while find_dead_children():
        clock.advance(1001)
        await asyncio.sleep(0.1)
    assert mine.returncode == 0
    assert not burying.done()

_adopt_orphans()
clock = time.monotonic = Clock()
asyncio.run(main())
"""


def test_orphans_are_buried() -> None:
    """All of them, and a child whose end somebody asks for in time is told how it ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
