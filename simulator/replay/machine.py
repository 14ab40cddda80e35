"""Where a replay ran, and with what: the facts that its numbers depend on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import psutil

_ROOT = Path(__file__).parents[2]
_ANSWER_S = 10
#: tritonserver's start-up table.
_TRITON_VERSION = re.compile(r"server_version\s*\|\s*([\w.+-]+)")


def machine() -> dict[str, str | int | None]:
    """CPU model, cores that this process may use, bytes of memory."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
    }


def versions(logs: Path | None) -> dict[str, str | None]:
    """None for what is not known; tritonserver's stands in a container's log, if in any there."""
    return {
        "python": platform.python_version(),
        "simulator_commit": _commit(),
        "tritonserver": _tritonserver(logs) if logs else None,
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _commit() -> str | None:
    """The checkout's commit, `+` when files differ from it."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    return commit + "+" if _git("status", "--porcelain", "--", "simulator") else commit


def _git(*words: str) -> str | None:
    command = ["git", "-C", str(_ROOT), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _tritonserver(logs: Path) -> str | None:
    texts = (log.read_text(errors="replace") for log in sorted(logs.glob("*.log")))
    found = (_TRITON_VERSION.search(text) for text in texts)
    return next((match.group(1) for match in found if match), None)
