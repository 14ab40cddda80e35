"""A control group of the kernel's with a memory limit, where this machine lets us make one."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryGroup:
    """Of version 1 or 2; what is started by a member is a member."""

    path: Path
    limit_file: str
    usage_file: str
    kills_file: str

    def add(self, pid: int) -> None:
        """Move a process into it."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def limit(self, size: int) -> None:
        """At most so many bytes from now on."""
        (self.path / self.limit_file).write_text(str(size))

    @property
    def usage(self) -> int:
        """Bytes now, the cache of files included."""
        return int((self.path / self.usage_file).read_text())

    @property
    def kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        rows = (row.split() for row in (self.path / self.kills_file).read_text().splitlines())
        return int(dict(rows)["oom_kill"])  # type: ignore[arg-type, unused-ignore]


@contextlib.contextmanager
def memory_group() -> Iterator[MemoryGroup | None]:
    """A group without a limit yet; None where none can be made. It is empty when it is left."""
    group = _made(f"serve-test-{uuid.uuid4().hex}")
    try:
        yield group
    finally:
        if group is not None:
            group.path.rmdir()


def _made(name: str) -> MemoryGroup | None:
    """Beside the group that we are in, on version 2 where that hands its controllers on."""
    for v2, parent in _parents():
        if v2 and not _hands_on(parent):
            continue
        with contextlib.suppress(OSError):
            (parent / name).mkdir()
            group = (
                MemoryGroup(parent / name, "memory.max", "memory.current", "memory.events")
                if v2
                else MemoryGroup(
                    parent / name,
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "memory.oom_control",
                )
            )
            if (group.path / group.limit_file).exists() and "oom_kill " in _text(group):
                return group
            group.path.rmdir()
    return None


def _parents() -> Iterator[tuple[bool, Path]]:
    for row in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = row.split(":", 2)
        if "memory" in controllers.split(","):
            yield False, _MOUNT / "memory" / path.lstrip("/")
            yield False, _MOUNT / "memory"
        elif not controllers:
            yield True, (_MOUNT / path.lstrip("/")).parent
            yield True, _MOUNT


def _hands_on(parent: Path) -> bool:
    with contextlib.suppress(OSError):
        return "memory" in (parent / "cgroup.subtree_control").read_text().split()
    return False


def _text(group: MemoryGroup) -> str:
    with contextlib.suppress(OSError):
        return (group.path / group.kills_file).read_text()
    return ""


def may_be_made() -> bool:
    """Whether a group can be made here: root, and control groups that are not read-only."""
    if os.getuid() != 0:
        return False
    with memory_group() as group:
        return group is not None
