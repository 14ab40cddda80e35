"""When a program begins to heed signals: before that Python itself starts, with a traceback."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.support.container import until


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


def _handled(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("SigCgt:")[2].split()[0], 16)
