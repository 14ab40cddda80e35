"""The machine and the programs that figures depend on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_ANSWER_S = 10
#: tritonserver's start-up table.
_TRITON_VERSION = re.compile(r"server_version\s*\|\s*([\w.+-]+)")


def read_cpu_model() -> str:
    """As the kernel names it; else the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def count_cores() -> int:
    """How many this process, and what it starts, may use."""
    return len(os.sched_getaffinity(0))


def read_memory_bytes() -> int:
    """All that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def name_system() -> str:
    """The kernel and its release."""
    return f"{platform.system()} {platform.release()}"


def find_triton_version(log: str) -> str | None:
    """From the start-up table in what tritonserver writes; None without one."""
    version = _TRITON_VERSION.search(log)
    return version.group(1) if version else None


def read_commit() -> str | None:
    """The checkout's, twelve digits; None where there is no checkout."""
    return run_program("git", "-C", str(_PACKAGE), "rev-parse", "--short=12", "HEAD") or None


def is_changed(*paths: str) -> bool:
    """Whether files of the checkout, or those below the paths, differ from its commit."""
    return bool(run_program("git", "-C", str(_PACKAGE), "status", "--porcelain", "--", *paths))


def run_program(*command: str) -> str:
    """The output of a program, whatever its exit code: wrk's is 1; empty where it does not run."""
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.strip()
