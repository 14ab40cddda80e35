"""What the kernel has denied this container: memory (the OOM killer's kills) and processes.

A python stub that was killed for want of memory, or that was denied a thread, looks to tritonserver
like one that killed itself. The kernel's counters tell the two apart: they are read before a load
and after it failed. They are of the whole container, so that a shortage that hit another one's load
at the same moment counts as this one's, too: it was real all the same.

cgroup v2: memory.events and pids.events (Documentation/admin-guide/cgroup-v2.rst); v1:
memory.oom_control and pids.events. A limit may stand in a group above ours, so those that can be
seen are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from serve.resources.free import Kernel, find_groups

_MEMORY = ("memory.events", "memory.oom_control")


@dataclass(frozen=True)
class Denials:
    """How often so far: processes killed by the OOM killer, processes and threads not begun."""

    oom_kills: int
    processes: int

    def killed_since(self, before: Denials) -> bool:
        """Whether a process was killed between the two."""
        return self.oom_kills > before.oom_kills

    def since(self, before: Denials) -> str | None:
        """Which resource was lacking between the two, in words; None for none."""
        if self.killed_since(before):
            return "the kernel killed a process of the container for want of memory"
        if self.processes > before.processes:
            return "the kernel denied the container a process or a thread (the limit of pids)"
        return None


def denials(kernel: Kernel | None = None) -> Denials:
    """Counts so far; 0 for what this machine does not count. Blocking, below 1 ms."""
    kernel = kernel or Kernel()
    memory = [group for _, group in find_groups(kernel, "memory")]
    return Denials(
        sum(_count(group / name, "oom_kill") for group in memory for name in _MEMORY),
        sum(_count(group / "pids.events", "max") for _, group in find_groups(kernel, "pids")),
    )


def _count(file: Path, event: str) -> int:
    try:
        rows = [line.split() for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return 0
    return sum(
        int(row[1]) for row in rows if len(row) == 2 and row[0] == event and row[1].isdigit()
    )
