"""Reads the machine's memory, and the container's of it: archives' configs are held against it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ensemble_tools import Limits
from serve.resources.free import Kernel, read_memory_limits


def read_machine_limits(kernel: Kernel | None = None, *, gpus: int = 0) -> Limits:
    """The memory of the machine or of the container, whichever is less. gpus: how many it has."""
    limits = Limits()
    memory = min([limits.memory_bytes, *read_memory_limits(kernel or Kernel())])
    return replace(limits, memory_bytes=memory, gpus=gpus)


def is_in_memory(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Whether its file system is one of memory: what is written there is taken from processes."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.read_text("utf-8", "replace").splitlines():
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == number:
            return kind.split()[0] in ("tmpfs", "ramfs")
    return False
