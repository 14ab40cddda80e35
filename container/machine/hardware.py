"""Finds the hardware that defaults of settings depend on: GPUs, and /dev/shm."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from container.machine.cuda_libraries import count_gpus

_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Hardware:
    """GPUs and shared memory of this machine."""

    #: How many GPUs.
    gpus: int = 0
    #: Bytes of /dev/shm, None without a limit, or where it is not known.
    shared_memory: int | None = None


#: Without GPUs, and with as much /dev/shm as anybody wants.
PLAIN = Hardware()


def look_at_hardware(root: Path = Path("/"), shared_memory: Path = _SHARED_MEMORY) -> Hardware:
    """The machine's hardware. root: the machine's root folder, where GPUs are looked for."""
    try:
        filesystem = os.statvfs(shared_memory)
    except OSError:
        return Hardware(count_gpus(root / "dev"))
    return Hardware(count_gpus(root / "dev"), filesystem.f_blocks * filesystem.f_frsize or None)
