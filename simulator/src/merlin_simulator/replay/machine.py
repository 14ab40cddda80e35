"""Where a replay ran, and with what: the facts that its numbers depend on."""

from __future__ import annotations

import platform
from pathlib import Path

from merlin_simulator.measuring.machine import (
    count_cores,
    find_triton_version,
    is_changed,
    name_system,
    read_commit,
    read_cpu_model,
    read_memory_bytes,
)


def describe_machine() -> dict[str, str | int | None]:
    """CPU model, cores that this process may use, bytes of memory."""
    return {
        "cpu": read_cpu_model(),
        "cores": count_cores(),
        "memory_bytes": read_memory_bytes(),
        "system": name_system(),
    }


def find_versions(logs: Path | None) -> dict[str, str | None]:
    """None for what is not known; tritonserver's stands in a container's log, if in any there."""
    return {
        "python": platform.python_version(),
        "simulator_commit": _commit(),
        "tritonserver": _tritonserver(logs) if logs else None,
    }


def _commit() -> str | None:
    """The checkout's commit, `+` when the simulator's files differ from it."""
    commit = read_commit()
    return commit + "+" if commit and is_changed(".") else commit


def _tritonserver(logs: Path) -> str | None:
    texts = (log.read_text(errors="replace") for log in sorted(logs.glob("*.log")))
    return next(filter(None, map(find_triton_version, texts)), None)
