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


#: How often a program may be done before it is interrupted.
TRIES = 10


def until_it_heeds(
    process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM
) -> None:
    """Return as soon as it handles the signal, or is over; Python itself handles no SIGTERM."""
    until(
        lambda: process.poll() is not None or _handled(process.pid) >> (number - 1) & 1,
        f"{process.pid} handles {number.name}",
    )


def interrupt(command: Sequence[str | Path], after_s: float, said: Path) -> None:
    """Ctrl-C, so long after the program heeds it: exit code 130, no words but those of its
    progress, and no shared memory left. said: the file that it prints to.

    Once more where it was done before that: who sends it may be kept waiting.
    """
    for _ in range(TRIES):
        with as_in_front(), said.open("wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        try:
            until_it_heeds(process)
            time.sleep(after_s)
            process.send_signal(signal.SIGINT)
            code = process.wait(120)
        finally:
            process.kill()
            process.wait()
        if code != 0:
            break
    assert code == INTERRUPTED
    assert all(line.startswith("[") for line in said.read_text().splitlines())
    assert not list(SHARED_MEMORY.glob(f"serve_{process.pid}_*"))


def _handled(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("SigCgt:")[2].split()[0], 16)
