"""What the machine has, and the container of it: what archives' configs are held against."""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools import Limits
from serve.resources.free import Kernel, read_memory_limits


def read_machine_limits(kernel: Kernel | None = None, *, gpus: int = 0) -> Limits:
    """The memory of the machine or of the container, whichever is less. gpus: how many it has."""
    limits = Limits()
    memory = min([limits.memory_bytes, *read_memory_limits(kernel or Kernel())])
    return replace(limits, memory_bytes=memory, gpus=gpus)
