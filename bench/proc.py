"""Processes as /proc shows them: who runs below whom, what they hold and what they have used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: util-linux.
_SETPRIV = Path("/usr/bin/setpriv")
_STUB = "triton_python_backend_stub"
#: What the container forks for a stub calls itself so.
_FORKED = "merlin-model"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


@dataclass(frozen=True)
class Process:
    """One that is alive; cpu_s counts its own user and system time, and ended children's."""

    pid: int
    parent: int
    command: tuple[str, ...]
    cpu_s: float

    @property
    def is_stub(self) -> bool:
        """Whether it runs a Python model of tritonserver, or a stub has it run one."""
        return self.command[0].endswith((_STUB, _FORKED))

    @property
    def is_forked(self) -> bool:
        """Whether it runs a model for a stub, and is none."""
        return self.command[0].endswith(_FORKED)

    def serves(self, model: str) -> bool:
        """Whether it runs that model, whose path is its first argument."""
        return self.is_stub and f"/{model}/" in self.command[1]


def die_with_parent(command: Sequence[str]) -> list[str]:
    """The command, told to end by the kernel when this process is killed; where setpriv is not, as
    it was.
    """
    return [*([str(_SETPRIV), "--pdeathsig", "TERM"] if _SETPRIV.exists() else []), *command]


def list_processes() -> list[Process]:
    """All that are alive; zombies are not."""
    processes = (_read(int(entry.name)) for entry in Path("/proc").glob("[0-9]*"))
    return [process for process in processes if process]


def list_descendants(root: int) -> list[Process]:
    """All below a process, at any depth; it itself is not among them."""
    everyone = list_processes()
    below: list[Process] = []
    parents = {root}
    while parents:
        children = [process for process in everyone if process.parent in parents]
        below += children
        parents = {process.pid for process in children}
    return below


def is_alive(pid: int) -> bool:
    """Whether it runs; False for a zombie, which holds nothing any more."""
    return _read(pid) is not None


def read_cpu_seconds(root: int) -> float:
    """CPU time of a process and all below it, those that have ended included."""
    own = _read(root)
    return sum(process.cpu_s for process in (*([own] if own else []), *list_descendants(root)))


def read_resident_mb(pids: Iterable[int]) -> float:
    """Their resident memory, in MB of 10^6 bytes; pages they share count once for each."""
    return sum(_read_kib(Path(f"/proc/{pid}/status"), "VmRSS:") for pid in pids) * _KIB / 1e6


def read_proportional_mb(pids: Iterable[int]) -> float:
    """Their proportional set sizes, in MB of 10^6 bytes; a shared page counts once in all."""
    return sum(_read_kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for pid in pids) * _KIB / 1e6


def read_private_mb(pids: Iterable[int]) -> float:
    """Their memory that no other process has, in MB of 10^6 bytes."""
    rollups = [Path(f"/proc/{pid}/smaps_rollup") for pid in pids]
    names = ("Private_Clean:", "Private_Dirty:")
    return sum(_read_kib(rollup, name) for rollup in rollups for name in names) * _KIB / 1e6


def _read(pid: int) -> Process | None:
    with contextlib.suppress(OSError):  # it ended meanwhile
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if fields[0] not in "ZX":
            ticks = sum(int(field) for field in fields[11:15])  # proc(5): utime to cstime
            return Process(pid, int(fields[1]), (*command, ""), ticks / _TICKS_PER_S)
    return None


def _read_kib(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0
