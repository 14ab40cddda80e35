"""Freed memory is kept, and given back when nothing happens; seen in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.support.container import ROOT

#: Bodies of 1 MB, some of them alive at a time, as they pass the container.
_BODIES = """
import asyncio, resource, sys, time
from container.machine import allocator

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

def pass_bodies(number, size=1_000_000, alive=4):
    kept = []
    for _ in range(number):
        kept = [*kept[-alive:], bytes(bytearray(size))]
"""


def _printed(program: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", _BODIES + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


def test_no_page_is_mapped_anew() -> None:
    """Once it has had such bodies, the process needs no more memory from the kernel for others."""
    without, with_it = _printed("""
pass_bodies(20)
before = faults(); pass_bodies(50); print(faults() - before)
assert allocator.keep_freed_memory()
pass_bodies(20)
before = faults(); pass_bodies(50); print(faults() - before)
""")
    assert with_it < 500 < without


def _watched(steps: str) -> list[float]:
    """What the steps print, which count their requests, while kept memory is given back."""
    return _printed(f"""
async def main():
    allocator.keep_freed_memory()
    allocator._LOOK_S = 0.05
    requests = 0
    print(start := resident_mb())
    giving = asyncio.create_task(allocator.trim_forever(lambda: requests))
    await asyncio.sleep(0)
{textwrap.indent(textwrap.dedent(steps), "    ")}
    print(resident_mb())
    giving.cancel()
asyncio.run(main())
""")


def test_it_is_given_back_when_idle() -> None:
    """Not while requests come, and once when none does."""
    start, busy, idle = _watched("""
        for _ in range(20):
            pass_bodies(1, size=20_000_000)
            requests += 1
            await asyncio.sleep(0.02)
        print(resident_mb())
        until = time.monotonic() + 30
        while resident_mb() > start + 5 and time.monotonic() < until:
            await asyncio.sleep(0.02)
    """)
    assert busy > start + 15
    assert idle < start + 5


def test_much_is_given_back_while_requests_come() -> None:
    """Many large bodies at once, and then a trickle that never ends."""
    start, burst, later = _watched("""
        bodies = [bytes(bytearray(5_000_000)) for _ in range(40)]
        walls = [bytes(100_000) for _ in range(40)]
        print(resident_mb())
        del bodies
        for _ in range(50):
            requests += 1
            await asyncio.sleep(0.02)
    """)
    assert burst > start + 150
    assert later < start + 70
