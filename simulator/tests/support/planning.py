"""Archives and instances for plans whose answers are known."""

from __future__ import annotations

from merlin_simulator.planning.demand import Figures, Machine
from merlin_simulator.rules import Rules

MIB = 1024**2
#: Of an archive in memory.
SIZE = 10 * MIB


def archives(count: int, **seconds: float) -> list[Figures]:
    """All alike; what comes and leaves takes no time, unless told else."""
    times = {"download_s": 0.0, "load_s": 0.0, "unload_s": 0.0, **seconds}
    return [
        Figures(
            f"m{number:05d}",
            SIZE,
            MIB,
            (times["download_s"],),
            (times["load_s"],),
            (times["unload_s"],),
            services=(0.004, 0.006),
        )
        for number in range(count)
    ]


def machine(places: int, cores: int = 4, disk: int | None = None) -> Machine:
    """An instance that holds so many of these archives. disk: bytes."""
    memory = round((places + 0.5) * SIZE / Rules().memory_threshold)
    return Machine(memory=memory, cores=cores, disk=disk)
