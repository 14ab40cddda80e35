"""Where it was measured, and with what: the facts that the figures depend on."""

from __future__ import annotations

import platform
from typing import TypedDict

from merlin_simulator.measuring.machine import (
    count_cores,
    find_triton_version,
    is_changed,
    name_system,
    read_commit,
    read_cpu_model,
    read_memory_bytes,
    run_program,
)


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


def collect_facts(triton_log: str, wrk: str, load_before: float) -> Facts:
    """triton_log holds tritonserver's start-up table; wrk is the program."""
    return {
        "cpu": read_cpu_model(),
        "cores": count_cores(),
        "memory_bytes": read_memory_bytes(),
        "load_before": round(load_before, 2),
        "system": name_system(),
        "tritonserver": find_triton_version(triton_log) or "not known",
        "python": platform.python_version(),
        "commit": read_commit() or "not known",
        "dirty": is_changed(),
        "wrk": find_wrk_version(run_program(wrk, "--version")),
    }


def find_wrk_version(printed: str) -> str:
    """The version in what `wrk --version` prints."""
    first = printed.splitlines()[0] if printed else ""
    return first.removeprefix("wrk ").partition(" Copyright")[0].strip() or "not known"
