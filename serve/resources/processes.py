"""Processes as the kernel tells of them in /proc: their parents, states and command lines.

One that has ended, or ends while it is read, is no process. Paths are strings: joining Paths would
be half of the time.
"""

from __future__ import annotations

import os
from typing import NamedTuple

PROC = "/proc"
#: How the program ends that tritonserver runs a Python model with.
STUB = "triton_python_backend_stub"
#: What the command of a process begins with that was forked for a stub (container/warm).
FORKED = "merlin-model"


class Process(NamedTuple):
    """A process by proc_pid_stat(5). started: in clock ticks since the machine's start."""

    pid: int
    state: str
    parent: int
    threads: int
    started: int


def list_ids(proc: str = PROC) -> list[int]:
    """Of all processes. Raises OSError where they cannot be looked at."""
    return [int(name) for name in os.listdir(proc) if name.isdigit()]


def list_processes(proc: str = PROC) -> list[Process]:
    """Every process that has not ended. Raises OSError."""
    return [it for pid in list_ids(proc) if (it := read_process(pid, proc)) is not None]


def read_process(pid: int, proc: str = PROC) -> Process | None:
    """None for one that is gone. Raises OSError where that cannot be told."""
    fields = read(f"{proc}/{pid}/stat").rpartition(b") ")[2].split()
    if not fields:
        return None
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[17]), int(fields[19]))


def read_command(pid: int, proc: str = PROC) -> str:
    """Its words, each with a null after it; empty when it ends or has ended. Raises OSError."""
    return read(f"{proc}/{pid}/cmdline").decode(errors="replace")


def name_model(path: str, serving_repository: object) -> str:
    """The directory in the repository that a model's file lies in; empty for another file."""
    repository = f"{serving_repository}/"
    return path[len(repository) :].partition("/")[0] if path.startswith(repository) else ""


def read(path: str) -> bytes:
    """A file of a process, empty where that is gone or somebody else's. Raises OSError."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def find_children(proc: str = PROC) -> dict[int, list[Process]]:
    """All processes by their parents' ids."""
    children: dict[int, list[Process]] = {}
    for process in list_processes(proc):
        children.setdefault(process.parent, []).append(process)
    return children


def find_family(first: Process, children: dict[int, list[Process]]) -> list[Process]:
    """A process and all below it; each once, though ids are used again while /proc is read."""
    family, ids = [first], {first.pid}
    for process in family:  # which grows meanwhile
        below = [it for it in children.get(process.pid, ()) if it.pid not in ids]
        family += below
        ids.update(it.pid for it in below)
    return family
