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

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Denials:
    """How often so far: processes killed by the OOM killer, processes and threads not begun."""

    oom_kills: int
    processes: int

    def killed_since(self, before: Denials) -> bool:
        """Whether a process was killed between the two."""
        return self.oom_kills > before.oom_kills

    def since(self, before: Denials) -> str | None:
        """What was lacking between the two, in words; None when nothing was."""
        if self.killed_since(before):
            return "the kernel killed a process of the container for want of memory"
        if self.processes > before.processes:
            return "the kernel denied the container a process or a thread (the limit of pids)"
        return None


def denials(cgroup: Path = _CGROUP, own: Path = _OWN) -> Denials:
    """What was denied so far; 0 for what this machine does not count. Blocking, well below 1 ms."""
    groups = list(_groups(cgroup, own))
    return Denials(
        sum(_counted(group / name, "oom_kill") for group in groups for name in _MEMORY),
        sum(_counted(group / "pids.events", "max") for group in groups),
    )


_MEMORY = ("memory.events", "memory.oom_control")
#: Those of v1 have a mount each; the one of v2 has no name and is the mount itself.
_CONTROLLERS = {"memory", "pids", ""}


def _groups(cgroup: Path, own: Path) -> Iterator[Path]:
    """Our groups and those above them, of either version; what is not mounted has no files."""
    for line in _lines(own):  # "4:memory:/a/b" (v1), "0::/a/b" (v2)
        controllers, _, path = line.partition(":")[2].partition(":")
        for controller in _CONTROLLERS & set(controllers.split(",")):
            group = cgroup / controller
            yield group
            for part in Path(path.lstrip("/")).parts:
                group /= part
                yield group


def _counted(file: Path, word: str) -> int:
    rows = (line.split() for line in _lines(file))
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0] == word and row[1].isdigit())


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
