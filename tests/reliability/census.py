"""What a container holds, counted from outside: /proc, /dev/shm, its directories.

RSS counts a shared page once for each process, PSS once in all. Zombies are counted where their
parent is the container's or below it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, fields
from pathlib import Path

from bench.proc import read_proportional_mb, read_resident_mb
from tests.support.container import SHARED_MEMORY, Container


@dataclass(frozen=True)
class Census:
    """One look; sizes in MB of 10^6 bytes, server: the container's own process.

    triton_threads: without those of gRPC's timers, of which it starts one or two more as it needs
    them (seen: two at first, three after 18 or after 600 cycles, three after 2,000).
    """

    at_s: float
    cycles: int
    processes: int
    zombies: int
    descriptors: int
    triton_descriptors: int
    threads: int
    triton_threads: int
    shm_files: int
    shm_mb: float
    work_files: int
    tmp_files: int
    log_mb: float
    server_rss_mb: float
    server_pss_mb: float
    triton_rss_mb: float
    triton_pss_mb: float


#: As the kernel cuts the name of gRPC's thread.
_GRPC_TIMERS = "grpc_global_tim"
#: Everything that must be at the end as it was after the warm-up.
COUNTED = (
    "processes",
    "zombies",
    "descriptors",
    "triton_descriptors",
    "threads",
    "triton_threads",
    "shm_files",
    "work_files",
    "tmp_files",
)
NAMES = tuple(each.name for each in fields(Census))


def look(container: Container, tmp: Path, at_s: float, cycles: int) -> Census:
    """Count now; processes that end meanwhile count as nothing. tmp: the container's /tmp."""
    server, triton = container.process.pid, container.triton()
    regions = [SHARED_MEMORY / name for name in container.regions()]
    return Census(
        at_s=round(at_s, 1),
        cycles=cycles,
        processes=len(container.descendants()) + 1,
        zombies=zombies(server),
        descriptors=_entries(f"/proc/{server}/fd"),
        triton_descriptors=_entries(f"/proc/{triton}/fd"),
        threads=_entries(f"/proc/{server}/task"),
        triton_threads=_threads(triton),
        shm_files=len(regions),
        shm_mb=round(sum(_size(path) for path in regions) / 1e6, 1),
        work_files=_below(container.work_dir),
        tmp_files=_below(tmp),
        log_mb=round(_size(container.log_path) / 1e6, 2),
        server_rss_mb=round(read_resident_mb([server]), 2),
        server_pss_mb=round(read_proportional_mb([server]), 2),
        triton_rss_mb=round(read_resident_mb([triton]), 2),
        triton_pss_mb=round(read_proportional_mb([triton]), 2),
    )


def zombies(root: int) -> int:
    """Ended children, of the process or of one below it, that nobody has asked for."""
    states = dict(_states())
    below, waiting = {root}, True
    while waiting:
        found = {pid for pid, (_, parent) in states.items() if parent in below} - below
        below |= found
        waiting = bool(found)
    return sum(states[pid][0] == "Z" for pid in below if pid in states)


def _states() -> list[tuple[int, tuple[str, int]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                found.append((int(name), (words[0], int(words[1]))))
    return found


def _threads(pid: int) -> int:
    names = []
    for task in Path(f"/proc/{pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            names.append(task.read_text())
    return sum(not name.startswith(_GRPC_TIMERS) for name in names)


def _entries(path: str) -> int:
    try:
        return len(os.listdir(path))
    except OSError:
        return 0


def _below(directory: Path) -> int:
    return sum(len(names) + len(files) for _, names, files in os.walk(directory))


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
