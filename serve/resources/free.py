"""How much is free of what models take: memory, /dev/shm, descriptors, processes.

Read from the kernel, since nothing else knows all processes. A file that is absent, or vanishes
while it is read, bounds nothing: what is not known never refuses a load. All of it takes about a
millisecond.

The control groups are looked at from our own up to the one at the mount's top: in a container only
the top is there, and on a machine that sets limits by slices each of them counts.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from serve.resources.processes import list_processes

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
_SHARED_MEMORY = Path("/dev/shm")
#: Groups in one another that are looked at; a scheduler makes five or so.
_MAX_GROUPS = 16


@dataclass(frozen=True)
class Resource:
    """Something that a model takes of a machine. unit: what an amount of 1 is."""

    name: str
    unit: str = "MiB"
    gpu: int | None = None

    def amount(self, number: int) -> str:
        """A number of it, for people."""
        return f"{number >> 20} MiB" if self.unit == "MiB" else f"{number} {self.unit}"


MEMORY = Resource("memory")
SHARED_MEMORY = Resource("shared memory in /dev/shm")
DESCRIPTORS = Resource("file descriptors of tritonserver", "descriptors")
OWN_DESCRIPTORS = Resource("file descriptors of the container's server", "descriptors")
TASKS = Resource("processes and threads", "processes and threads")

#: How much of what; a resource that is not in it is not known, or not needed.
Amounts = Mapping[Resource, int]


def gpu_memory(gpu: int) -> Resource:
    """The memory of one GPU."""
    return Resource(f"memory of GPU {gpu}", gpu=gpu)


@dataclass(frozen=True)
class Kernel:
    """Where the kernel tells; tests have directories of their own there."""

    proc: Path = _PROC
    cgroup: Path = _CGROUP
    shared_memory: Path = _SHARED_MEMORY
    statvfs: Callable[[Path], os.statvfs_result] = os.statvfs


def measure_free(kernel: Kernel, tritonserver: int | None) -> dict[Resource, int]:
    """Amounts free now: bytes, or numbers. tritonserver: its process id, if it runs."""
    amounts: dict[Resource, int | None] = {
        MEMORY: _read_known(read_available_memory, kernel),
        SHARED_MEMORY: _read_known(_read_shared_memory, kernel),
        TASKS: _read_known(_count_free_tasks, kernel),
        OWN_DESCRIPTORS: _read_known(_count_free_descriptors, kernel, "self"),
        DESCRIPTORS: _read_known(_count_free_descriptors, kernel, str(tritonserver))
        if tritonserver
        else None,
    }
    return {resource: amount for resource, amount in amounts.items() if amount is not None}


def _read_known(read: Callable[..., int | None], *arguments: object) -> int | None:
    try:
        return read(*arguments)
    except (OSError, ValueError, KeyError, IndexError):
        return None


# -- memory


def read_available_memory(kernel: Kernel = Kernel()) -> int:  # frozen
    """Bytes that a new process could use: the least of the machine's and the groups' limits."""
    limits: list[int | None] = [_read_machine(kernel.proc / "meminfo")]
    for v2, group in find_groups(kernel, "memory"):
        names = _V2 if v2 else _V1
        limits.append(_read_known(_read_group_headroom, group, names))
    return min(limit for limit in limits if limit is not None)


def _read_machine(meminfo: Path) -> int:
    return int(_read_table(meminfo)["MemAvailable:"]) * 1024


@dataclass(frozen=True)
class _Names:
    """How a version of control groups calls what it says of memory."""

    limit: str
    usage: str
    inactive: str
    active: str
    mapped: str


_V2 = _Names("memory.max", "memory.current", "inactive_file", "active_file", "file_mapped")
_V1 = _Names(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
    "total_active_file",
    "total_mapped_file",
)


def _read_group_headroom(group: Path, names: _Names) -> int | None:
    """The limit less what is used and cannot be given back (Documentation/cgroup-v2).

    Files that processes have mapped could be given back, too, and would be read again at once:
    they are libraries that run. A group whose libraries are thrown out again and again stands still
    (seen: /ping late, loads of minutes), so they count as used.
    """
    limit = (group / names.limit).read_text().strip()
    if limit == "max":
        return None
    used = int((group / names.usage).read_text())
    stat = _read_table(group / "memory.stat")
    inactive, active, mapped = (
        int(stat.get(name, "0")) for name in (names.inactive, names.active, names.mapped)
    )
    return int(limit) - used + min(inactive, max(0, inactive + active - mapped))


# -- shared memory, processes, descriptors


def _read_shared_memory(kernel: Kernel) -> int | None:
    filesystem = kernel.statvfs(kernel.shared_memory)
    # Without a limit it has 0 blocks.
    return filesystem.f_bavail * filesystem.f_frsize if filesystem.f_blocks else None


def _count_free_tasks(kernel: Kernel) -> int | None:
    limits = [_read_known(_count_machine_tasks, kernel), _read_known(_count_user_tasks, kernel)]
    limits += [_read_known(_count_group_tasks, group) for _, group in find_groups(kernel, "pids")]
    return min((limit for limit in limits if limit is not None), default=None)


def _count_machine_tasks(kernel: Kernel) -> int:
    """proc(5): the fourth field of loadavg ends with how many there are."""
    there = int((kernel.proc / "loadavg").read_text().split()[3].partition("/")[2])
    limits = (kernel.proc / "sys/kernel" / name for name in ("pid_max", "threads-max"))
    return min(int(limit.read_text()) for limit in limits) - there


def _count_group_tasks(group: Path) -> int | None:
    limit = (group / "pids.max").read_text().strip()
    return None if limit == "max" else int(limit) - int((group / "pids.current").read_text())


def _count_user_tasks(kernel: Kernel) -> int | None:
    """RLIMIT_NPROC counts the user's threads wherever they run; it does not bind root."""
    limit, user = resource.getrlimit(resource.RLIMIT_NPROC)[0], os.getuid()
    if limit == resource.RLIM_INFINITY or user == 0:
        return None
    proc = str(kernel.proc)
    ours = (it for it in list_processes(proc) if _is_of(user, f"{proc}/{it.pid}"))
    return limit - sum(process.threads for process in ours)


def _is_of(user: int, path: str) -> bool:
    try:
        return os.stat(path).st_uid == user
    except OSError:
        return False


def _count_free_descriptors(kernel: Kernel, process: str) -> int | None:
    rows = (kernel.proc / process / "limits").read_text().splitlines()
    row = next(row for row in rows if row.startswith("Max open files"))
    soft = row.split()[3]
    if soft == "unlimited":
        return None
    return int(soft) - len(os.listdir(kernel.proc / process / "fd"))


# -- the kernel's files


def find_groups(kernel: Kernel, controller: str) -> Iterator[tuple[bool, Path]]:
    """(whether of version 2, directory) of our control groups, ours first."""
    for v2, mount, path in _find_mounts(kernel, controller):
        parts = [part for part in path.split("/") if part not in ("", "..")][:_MAX_GROUPS]
        for depth in range(len(parts), -1, -1):
            yield v2, mount.joinpath(*parts[:depth])


def read_memory_limits(kernel: Kernel) -> Iterator[int]:
    """Bytes that our control groups may have, of those that have a limit."""
    for v2, group in find_groups(kernel, "memory"):
        with contextlib.suppress(OSError, ValueError):  # `max`, which is no number
            yield int((group / (_V2 if v2 else _V1).limit).read_text())


def _find_mounts(kernel: Kernel, controller: str) -> Iterator[tuple[bool, Path, str]]:
    """cgroups(7): lines of `number:controllers:path`; version 2 has number 0 and no controllers.

    Where our own group is not told, the mounts' tops are what is looked at.
    """
    try:
        rows = (kernel.proc / "self/cgroup").read_text().splitlines()
    except OSError:
        rows = []
    paths = {row.split(":", 2)[1]: row.split(":", 2)[2] for row in rows if row.count(":") >= 2}
    ours = next((path for names, path in paths.items() if controller in names.split(",")), "")
    yield True, kernel.cgroup, paths.get("", "")
    yield True, kernel.cgroup / "unified", paths.get("", "")
    yield False, kernel.cgroup / controller, ours


def _read_table(path: Path) -> Mapping[str, str]:
    """A kernel file of lines `key value ...`."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1}
