"""Reads the machine's memory, and the container's of it: archives' configs are held against it."""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools import Limits
from serve.resources.free import Kernel, read_memory_limits


def read_machine_limits(kernel: Kernel | None = None, *, gpus: int = 0) -> Limits:
    """The memory of the machine or of the container, whichever is less. gpus: how many it has."""
    limits = Limits()
    memory = min([limits.memory_bytes, *read_memory_limits(kernel or Kernel())])
    return replace(limits, memory_bytes=memory, gpus=gpus)
