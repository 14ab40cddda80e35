"""Archives and instances for plans whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from merlin_simulator.rules import Rules
from merlin_simulator.simulation.scenario import ArchiveFigures, InstanceSpec

MIB = 1024**2
#: Of an archive in memory.
SIZE = 10 * MIB


def archives(count: int, **seconds: float) -> list[ArchiveFigures]:
    """All alike; what comes and leaves takes no time, unless told else."""
    times: dict[str, Any] = {name: (value,) for name, value in seconds.items()}
    kind = ArchiveFigures("", memory=SIZE, load_s=(0.0,), service_s=(0.004, 0.006), disk=MIB)
    kind = replace(kind, **times)
    return [replace(kind, name=f"m{number:05d}") for number in range(count)]


def instance_spec(places: int, cores: int = 4, disk: int | None = None) -> InstanceSpec:
    """An instance that holds so many of these archives. disk: bytes."""
    memory = round((places + 0.5) * SIZE / Rules().memory_threshold)
    return InstanceSpec(memory=memory, cores=cores, disk=disk)
