"""Is there room for another model? Read from the kernel, since nothing else knows all processes.

A load that is let in when memory is nearly gone ends with the kernel killing a process, perhaps
tritonserver with every model in it. A refused load (507) ends with the platform unloading a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from serve.errors import ResourceExhausted

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_MIB = 1024 * 1024


def admit(model_name: str, reserve_bytes: int) -> None:
    """Raise ResourceExhausted when less than reserve_bytes of memory is available; 0 admits all."""
    if not reserve_bytes:
        return
    available = available_memory()
    if available < reserve_bytes:
        raise ResourceExhausted(
            f"no memory to load the model {model_name}: {available // _MIB} MiB available, and "
            f"{reserve_bytes // _MIB} MiB are kept free (SERVE_MEMORY_RESERVE_MB); unload a model"
        )


def available_memory(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int:
    """Bytes that a new process could use: the least of the machine's and the container's limits."""
    return min(
        limit
        for limit in (_machine(meminfo), _cgroup_v2(cgroup), _cgroup_v1(cgroup / "memory"))
        if limit is not None
    )


def _machine(meminfo: Path) -> int:
    return int(_table(meminfo)["MemAvailable:"]) * 1024


def _cgroup_v2(cgroup: Path) -> int | None:
    """memory.max less what is used and cannot be given back (Documentation/cgroup-v2)."""
    return _left(cgroup, "memory.max", "memory.current", "inactive_file")


def _cgroup_v1(cgroup: Path) -> int | None:
    return _left(cgroup, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left(cgroup: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    try:
        bound = (cgroup / limit).read_text().strip()
        if bound == "max":
            return None
        used = int((cgroup / usage).read_text())
        cache = int(_table(cgroup / "memory.stat").get(reclaimable, "0"))
        return int(bound) - used + cache
    except (OSError, ValueError):
        return None


def _table(path: Path) -> Mapping[str, str]:
    """A kernel file of lines `key value ...`."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1}
