"""Processes that /proc shows as python stubs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

STUB = "/opt/tritonserver/backends/python/triton_python_backend_stub"


@contextlib.contextmanager
def stub(
    serving_repository: Path, name: str, seconds: float, holds_mib: int = 0
) -> Iterator[subprocess.Popen[bytes]]:
    """A stub of the model that ends by itself after so many seconds.

    It has threads, as real ones have, and gives back its memory when the last one has ended, which
    the more of it takes the longer.
    """
    model_file = serving_repository / name / "stub.py"
    model_file.parent.mkdir(parents=True, exist_ok=True)
    model_file.write_text(
        "import os, threading, time\n"
        f"held = b'x' * ({holds_mib} << 20)\n"
        "for _ in range(4): threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "print(flush=True)\n"
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
