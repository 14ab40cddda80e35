"""How much memory an instance uses, and how much of it each model: read from outside of it.

Bytes of anonymous memory, resident: what cannot be given back. Files that are mapped (libraries,
weights that are mapped) and the python backend's shared memory (about 1 MiB a model) are left out.
A process belongs to the model whose model_name stands in its command line; the rest is the
server's own, models that live in its process among it. What a process still shares with the one
that it was forked from counts once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from merlin_simulator.proc import (
    ProcessStat,
    read_anonymous_bytes,
    read_command_line,
    read_private_bytes,
    read_program,
    read_tree,
)
from merlin_simulator.threads import run_in_thread


@dataclass(frozen=True)
class Reading:
    """used is None where it cannot be seen; by_model has the models with processes of their own.

    cpu_percent is of one core, since the reading before; None at the first.
    """

    used: int | None = None
    by_model: Mapping[str, int] = field(default_factory=dict)
    cpu_percent: float | None = None


class MemoryGauge(Protocol):
    """Reads one instance's memory; never raises, since an instance may end while it is read."""

    async def read(self, model_names: Collection[str]) -> Reading:
        """What is used now."""


class NoGauge:
    """An instance that cannot be looked into."""

    async def read(self, model_names: Collection[str]) -> Reading:
        """Nothing is known."""
        return Reading()


class ProcessTreeGauge:
    """A process of this machine with all it started."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu = CpuMeter()
        self._commands: dict[tuple[int, int], str] = {}
        self._forked: dict[tuple[int, int], int] = {}

    async def read(self, model_names: Collection[str]) -> Reading:
        """Read in a thread: two hundred processes take some ms."""
        return await run_in_thread(lambda: self._read(frozenset(model_names)))

    def _read(self, model_names: frozenset[str]) -> Reading:
        family, known = read_tree(self._pid), self._commands
        commands = {p.identity: known.get(p.identity) or read_command_line(p.pid) for p in family}
        # Kept only where a model is named: between its fork and its exec a process has its parent's
        # command line. Another reading may go on in another thread: replaced, never changed.
        self._commands = {
            identity: command
            for identity, command in commands.items()
            if any(name in command for name in model_names)
        }
        sizes = zip((commands[p.identity] for p in family), self._own_bytes(family), strict=True)
        reading = share_out(sizes, model_names)
        cpu = sum(process.cpu_s for process in family)
        return replace(reading, cpu_percent=self._cpu.percent(cpu))

    def _own_bytes(self, family: Sequence[ProcessStat]) -> list[int]:
        """What each has that its parent has not.

        One that executes what its parent does may be its copy. What is its own is asked for once;
        from then on it grows by what it has more.
        """
        programs, known = {p.pid: read_program(p.pid) for p in family}, self._forked
        forked, sizes = dict[tuple[int, int], int](), []
        for process in family:
            size = read_anonymous_bytes(process.pid)
            if programs[process.pid] == programs.get(process.parent, ""):
                shared = known.get(process.identity)
                if shared is None:
                    shared = max(0, size - read_private_bytes(process.pid))
                forked[process.identity] = shared
                size = max(0, size - shared)
            sizes.append(size)
        self._forked = forked  # replaced, as the commands are
        return sizes


def share_out(seen: Iterable[tuple[str, int]], model_names: Collection[str]) -> Reading:
    """(command line, bytes) of each process, shared out among the models and the server."""
    used, by_model = 0, dict[str, int]()
    for command, size in seen:
        used += size
        owner = next((name for name in model_names if name in command), None)
        if owner is not None:
            by_model[owner] = by_model.get(owner, 0) + size
    return Reading(used, by_model)


#: The kernel counts in ticks of 10 ms: over less the percentage is noise.
_CPU_OVER_S = 0.5


class CpuMeter:
    """Seconds of CPU at one time and the next, as percent of one core."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: tuple[float, float] | None = None
        self._percent: float | None = None

    def percent(self, cpu_s: float) -> float | None:
        """Over the last half second or more; None at the first call.

        Processes that ended take their seconds along: the difference is never below 0.
        """
        now, before = self._clock(), self._before
        if before is not None and now - before[0] < _CPU_OVER_S:
            return self._percent
        self._before = (now, cpu_s)
        if before is not None:
            self._percent = max(0.0, 100.0 * (cpu_s - before[1]) / (now - before[0]))
        return self._percent
