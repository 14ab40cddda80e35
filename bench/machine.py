"""Where it was measured, and with what: the facts that the figures depend on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import TypedDict

_ROOT = Path(__file__).parents[1]
_ANSWER_S = 10
#: tritonserver's start-up table.
_TRITON_VERSION = re.compile(r"server_version\s*\|\s*([\w.+-]+)")


class Facts(TypedDict):
    """Ready to be printed; memory in bytes, load_before the load average of the minute before."""

    cpu: str
    cores: int
    memory_bytes: int
    load_before: float
    system: str
    tritonserver: str
    python: str
    commit: str
    dirty: bool
    wrk: str


def facts(triton_log: str, wrk: str, load_before: float) -> Facts:
    """triton_log holds tritonserver's start-up table; wrk is the program."""
    version = _TRITON_VERSION.search(triton_log)
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_before": round(load_before, 2),
        "system": f"{platform.system()} {platform.release()}",
        "tritonserver": version.group(1) if version else "not known",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short=12", "HEAD") or "not known",
        "dirty": bool(_git("status", "--porcelain")),
        "wrk": wrk_version(_said(wrk, "--version")),
    }


def cores() -> int:
    """How many this process, and what it starts, may use."""
    return len(os.sched_getaffinity(0))


def wrk_version(said: str) -> str:
    """The version in what `wrk --version` prints."""
    first = said.splitlines()[0] if said else ""
    return first.removeprefix("wrk ").partition(" Copyright")[0].strip() or "not known"


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _git(*words: str) -> str:
    return _said("git", "-C", str(_ROOT), *words)


def _said(*command: str) -> str:
    """What a program prints, whatever its exit code: wrk's is 1; empty where it does not run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
