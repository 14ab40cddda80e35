"""A control group of a test's own, for memory and numbers of processes, where one can be made.

Both versions of the kernel's interface: v1 has a tree for each controller, v2 one for all. Where
neither lets this user make a group, `group` gives one without limits, and says so.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_GONE_WITHIN_S = 60.0
_V1_UNLIMITED = "-1"


@dataclass(frozen=True)
class Group:
    """memory and pids: the directories of the two controllers; None where it cannot be made."""

    memory: Path | None
    pids: Path | None

    @property
    def directories(self) -> tuple[str, ...]:
        """Whoever joins all of them is inside."""
        return tuple(sorted({str(path) for path in (self.memory, self.pids) if path}))

    def end_all(self) -> None:
        """Kill whoever is inside still: stubs outlive a server that was killed under them."""
        for directory in self.directories:
            for pid in Path(directory, "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def limit_memory(self, size: int | None) -> None:
        """At most so many bytes; None: no limit. What is cached is given up first."""
        assert self.memory is not None
        v1 = self.memory / "memory.limit_in_bytes"
        if v1.exists():
            v1.write_text(_V1_UNLIMITED if size is None else str(size))
        else:
            (self.memory / "memory.max").write_text("max" if size is None else str(size))

    def memory_bytes(self) -> int:
        """What cannot be given up: anonymous and shared memory."""
        assert self.memory is not None
        v1 = _table(self.memory / "memory.stat")
        names = ("total_rss", "total_shmem") if "total_rss" in v1 else ("anon", "shmem")
        return sum(v1.get(name, 0) for name in names)

    def kills(self) -> int:
        """How many processes the kernel has ended here for want of memory."""
        assert self.memory is not None
        for name in ("memory.oom_control", "memory.events"):
            if (self.memory / name).exists():
                return _table(self.memory / name).get("oom_kill", 0)
        return 0

    def limit_pids(self, count: int | None) -> None:
        """At most so many processes and threads; None: no limit."""
        assert self.pids is not None
        (self.pids / "pids.max").write_text("max" if count is None else str(count))

    def pids_now(self) -> int:
        """Processes and threads inside."""
        assert self.pids is not None
        return int((self.pids / "pids.current").read_text())


@contextlib.contextmanager
def group() -> Iterator[Group]:
    """A group of its own, removed at the end; who is inside must have ended by then."""
    name = f"reliability_{os.getpid()}_{secrets.token_hex(3)}"
    made: list[Path] = []
    try:
        yield Group(*(_made(controller, name, made) for controller in ("memory", "pids")))
    finally:
        for path in dict.fromkeys(made):
            _remove(path)


def _made(controller: str, name: str, made: list[Path]) -> Path | None:
    try:
        parent = _parent(controller)
        path = parent / name
        path.mkdir(exist_ok=True)
        made.append(path)
    except (OSError, LookupError):
        return None
    files = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max",)}
    return path if any((path / file).exists() for file in files[controller]) else None


def _parent(controller: str) -> Path:
    """Where this process may make groups for the controller; raises OSError or LookupError."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(",") or [""], path))
    if controller in own:
        return _ROOT / controller / own[controller].lstrip("/")
    parent = _ROOT / own[""].lstrip("/")
    if controller not in (parent / "cgroup.controllers").read_text().split():
        raise LookupError(controller)
    (parent / "cgroup.subtree_control").write_text(f"+{controller}")
    return parent


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def _remove(path: Path) -> None:
    deadline = time.monotonic() + _GONE_WITHIN_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        time.sleep(0.05)
