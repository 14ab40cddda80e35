"""How much memory an instance uses, and how much of it each model: read from outside of it.

Bytes of anonymous memory, resident: what cannot be given back. Files that are mapped (libraries,
weights that are mapped) and the python backend's shared memory (about 1 MiB a model) are left out.
A process belongs to the model whose model_name stands in its command line; the rest is the
server's own, models that live in its process among it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import psutil


@dataclass(frozen=True)
class Reading:
    """used is None where it cannot be seen; by_model has the models with processes of their own."""

    used: int | None = None
    by_model: Mapping[str, int] = field(default_factory=dict)


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

    async def read(self, model_names: Collection[str]) -> Reading:
        """Read in a thread: a hundred processes take some ms."""
        return await asyncio.to_thread(self._read, frozenset(model_names))

    def _read(self, model_names: frozenset[str]) -> Reading:
        try:
            root = psutil.Process(self._pid)
            processes = [root, *root.children(recursive=True)]
        except psutil.Error:
            return Reading(used=0)
        return shared_out(filter(None, map(_seen, processes)), model_names)


def shared_out(seen: Iterable[tuple[str, int]], model_names: Collection[str]) -> Reading:
    """(command line, bytes) of each process, shared out among the models and the server."""
    used, by_model = 0, dict[str, int]()
    for command, size in seen:
        used += size
        owner = next((name for name in model_names if name in command), None)
        if owner is not None:
            by_model[owner] = by_model.get(owner, 0) + size
    return Reading(used, by_model)


def _seen(process: psutil.Process) -> tuple[str, int] | None:
    try:
        memory = process.memory_info()
        return " ".join(process.cmdline()), memory.rss - memory.shared
    except psutil.Error:
        return None
