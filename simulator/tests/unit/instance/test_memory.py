"""Whose memory is whose."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from merlin_simulator.instance.memory import (
    CpuMeter,
    MemoryReading,
    NoGauge,
    ProcessTreeGauge,
    share_out,
)
from tests.support.container import until


def test_a_process_belongs_to_the_model_in_its_command_line() -> None:
    """The rest is the server's: counted in the sum, and nobody's."""
    seen = [("tritonserver", 100), ("stub /models/ab12/1/model.py", 20), ("stub ab12.step", 3)]
    assert share_out(seen, {"ab12", "cd34"}) == MemoryReading(123, {"ab12": 23})


def test_a_tree_of_processes_is_read() -> None:
    """A child's memory counts, and by the name in its command line."""
    hold = "held = bytearray(b'x' * 50 * 2**20); print('ready', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", hold, "model-ab12"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        reading = asyncio.run(ProcessTreeGauge(os.getpid()).read(["model-ab12"]))
    finally:
        child.communicate(b"\n")
    assert 50 * 2**20 < reading.by_model["model-ab12"] < 100 * 2**20
    assert reading.used is not None
    assert reading.used > reading.by_model["model-ab12"]


def test_what_forked_processes_share_counts_once() -> None:
    """And what one of them makes its own counts for it."""
    fork = (
        "import os, time; held = bytearray(b'x' * 80 * 2**20)\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        own = bytearray(b'x' * 20 * 2**20); print('ready', flush=True); time.sleep(100)\n"
        "print('ready', flush=True); input(); os.killpg(0, 9)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", fork],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        for _ in range(4):
            parent.stdout.readline()
        gauge = ProcessTreeGauge(parent.pid)
        readings = [asyncio.run(gauge.read([])) for _ in range(2)]
        parent.communicate(b"\n")
    for reading in readings:
        assert reading.used is not None
        assert 140 * 2**20 < reading.used < 200 * 2**20


def test_a_process_that_becomes_a_models_is_the_models() -> None:
    """A stub is its parent's copy until it executes itself: what was seen before does not count."""
    become = "import os, sys; print('ready', flush=True); input(); os.execv(sys.executable, " + (
        "[sys.executable, '-c', 'print(1, flush=True); input()', 'model-ab12'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", become], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        gauge, name = ProcessTreeGauge(os.getpid()), "ab12"
        assert child.stdout.readline() == b"ready\n"
        before = asyncio.run(gauge.read(["other-model"]))
        child.stdin.write(b"\n")
        assert child.stdout.readline() == b"1\n"
        after = asyncio.run(gauge.read([name]))
        child.communicate(b"\n")
    assert before.by_model == {}
    assert name in after.by_model


def test_a_process_that_ended_uses_nothing() -> None:
    """A gauge never raises: an instance may end while it is read."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    until(lambda: not os.path.exists(f"/proc/{ended.pid}"), "it is gone")
    assert asyncio.run(ProcessTreeGauge(ended.pid).read(["a"])) == MemoryReading(0)
    assert asyncio.run(NoGauge().read(["a"])) == MemoryReading(None)


def test_cpu_is_percent_of_one_core_since_the_reading_before() -> None:
    """Three seconds of CPU in two are 150 %; the first reading says nothing."""
    times: Iterator[float] = iter([10.0, 12.0, 13.0])
    meter = CpuMeter(lambda: next(times))
    assert meter.percent(5.0) is None
    assert meter.percent(8.0) == 150.0
    # A process of the sum has ended.
    assert meter.percent(1.0) == 0.0


@pytest.mark.slow
def test_two_readings_at_once_do_not_disturb_each_other() -> None:
    """Processes come and go, and readings overlap: neither fails, each sees its own."""
    gauge = ProcessTreeGauge(os.getpid())

    async def read_often() -> None:
        for _ in range(60):
            assert (await gauge.read(["a"])).used

    async def start_often() -> None:
        for _ in range(30):
            process = await asyncio.create_subprocess_exec("sleep", "0.01")
            await process.wait()

    async def both() -> None:
        await asyncio.gather(*(read_often() for _ in range(4)), *(start_often() for _ in range(6)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        asyncio.run(both())
    finally:
        sys.setswitchinterval(interval)
