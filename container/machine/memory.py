"""What the machine has, and the container of it: what archives' configs are held against."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ensemble_tools import Limits

#: The container's own limit: cgroup v2, then v1 (whose "none" is a number near 2^63).
_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")


def read_machine_limits(cgroup: Path = _CGROUP, *, gpus: int = 0) -> Limits:
    """The memory of the machine or of the container, whichever is less. gpus: how many it has."""
    limits = Limits()
    memory = min([limits.memory_bytes, *_read_cgroup_limits(cgroup)])
    return replace(limits, memory_bytes=memory, gpus=gpus)


def _read_cgroup_limits(cgroup: Path) -> list[int]:
    limits = []
    for name in _LIMITS:
        try:
            text = (cgroup / name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            limits.append(int(text))
    return limits
