"""Processes that /proc shows as python stubs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.container import Process, processes

STUB = "/opt/tritonserver/backends/python/triton_python_backend_stub"


@contextlib.contextmanager
def stub(
    serving_repository: Path,
    name: str,
    seconds: float,
    holds_mib: int = 0,
    more: str = "",
    after: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A stub of the model that ends by itself after so many seconds. more: what it does before.

    after: a file; the seconds count from when it is there.

    It has threads, as real ones have, and gives back its memory when the last one has ended, which
    the more of it takes the longer.
    """
    model_file = serving_repository / name / "stub.py"
    model_file.parent.mkdir(parents=True, exist_ok=True)
    model_file.write_text(
        "import os, subprocess, threading, time\n"
        f"{more}\n"
        f"held = b'x' * ({holds_mib} << 20)\n"
        "for _ in range(4): threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "print(flush=True)\n"
        f"while not os.path.exists({str(after or model_file)!r}): time.sleep(0.01)\n"
        f"time.sleep({seconds})\n"
        "os._exit(0)\n"
    )
    command = [STUB, str(model_file)]
    with subprocess.Popen(command, executable=sys.executable, stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline()
            yield started
        finally:
            started.kill()


def starting(marker: Path, seconds: float = 1000) -> str:
    """For a stub: a shell in a session of its own, and what that starts, for so many seconds.

    The marker's path is among the words of both.
    """
    shell = f"sh -c 'sleep {seconds}; :' {marker}"
    return (
        f'subprocess.Popen(["sh", "-c", "{shell} & wait", {str(marker)!r}], start_new_session=True)'
    )


def started_by(marker: Path) -> list[Process]:
    """What runs of that."""
    return [it for it in processes() if str(marker) in it.command]
