"""When a program begins to heed signals: before that Python itself starts, with a traceback."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.support.container import until


def until_it_heeds(pid: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Return as soon as the process handles the signal; Python itself handles no SIGTERM."""
    until(lambda: _handled(pid) >> (number - 1) & 1, f"{pid} handles {number.name}")


def _handled(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("SigCgt:")[2].split()[0], 16)
