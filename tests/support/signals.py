"""When a program begins to heed signals: before that Python itself starts, with a traceback."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ensemble_tools.signals import INTERRUPTED
from tests.support.container import ROOT, SHARED_MEMORY, until


@contextlib.contextmanager
def as_in_front() -> Iterator[None]:
    """What is started here heeds Ctrl-C: a job behind `&` ignores it, and hands that on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def until_it_heeds(pid: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Return as soon as the process handles the signal; Python itself handles no SIGTERM."""
    until(lambda: _handled(pid) >> (number - 1) & 1, f"{pid} handles {number.name}")


def interrupt(command: Sequence[str | Path], after_s: float, said: Path) -> None:
    """Ctrl-C, so long after the program heeds it: exit code 130, no words but those of its
    progress, and no shared memory left. said: the file that it prints to.
    """
    with as_in_front(), said.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        until_it_heeds(process.pid)
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == INTERRUPTED
    finally:
        process.kill()
        process.wait()
    assert all(line.startswith("[") for line in said.read_text().splitlines())
    assert not list(SHARED_MEMORY.glob(f"serve_{process.pid}_*"))


def _handled(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("SigCgt:")[2].split()[0], 16)
