"""Processes that lost their parents are buried; those that somebody here waits for are not."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, subprocess, sys, time
from pathlib import Path
from container.tritonserver.orphans import bury_orphans
from container.tritonserver.process import _adopt_orphans
from serve.triton.stubs import find_dead_children

async def main():
    burying = asyncio.ensure_future(bury_orphans(0.5))
    mine = subprocess.Popen(["true"])
    for _ in range(20):
        subprocess.run(["sh", "-c", "(sleep 0.1; true) & true"], check=True)
    most = 0
    for _ in range(100):
        await asyncio.sleep(0.02)
        most = max(most, len(find_dead_children()))
        if mine.returncode is None and most > 20:
            assert mine.wait() == 0
    while find_dead_children():
        await asyncio.sleep(0.02)
    assert most > 20, most
    assert mine.returncode == 0
    assert not burying.done()

_adopt_orphans()
asyncio.run(asyncio.wait_for(main(), 30))
"""


def test_orphans_are_buried() -> None:
    """All of them, and a child whose end somebody asks for in time is told how it ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
