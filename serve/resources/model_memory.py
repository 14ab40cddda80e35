"""What each model's processes hold, looked at now and then: for whoever shows it.

A size is that of one life of a model: one that is loaded again begins without any.

The kernel says a process's proportional memory (PSS) by walking all its pages, some milliseconds
for one with large libraries. So one process is asked at a time, in a thread, with rests between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from ensemble_tools import parse_published
from serve.resources.census import Census, take_census
from serve.resources.free import Kernel
from serve.threads import InThread, run_in_daemon_thread

#: From the end of one round to the next, in seconds, and of that time the share that is spent.
_ROUND_S, _SHARE = 10.0, 0.02
#: How soon a change of what is loaded is seen, in seconds.
_LOOK_S = 0.5

#: A model's name, and how often it was loaded.
Life = tuple[str, int]


class ModelMemory:
    """Bytes by life, as last looked at: PSS, and of the regions in /dev/shm."""

    def __init__(
        self,
        serving_repository: Path,
        kernel: Kernel | None = None,
        round_s: float = _ROUND_S,
        in_thread: InThread = run_in_daemon_thread,
    ) -> None:
        self._serving_repository, self._kernel = serving_repository, kernel or Kernel()
        self._round_s, self._in_thread = round_s, in_thread
        self._memory: Mapping[Life, int] = {}
        self._shared: Mapping[Life, int] = {}

    def measure(self, lives: Collection[Life]) -> tuple[dict[str, int], dict[str, int]]:
        """PSS and shared memory of these lives by model name, where they were looked at."""
        memory, shared = self._memory, self._shared
        return (
            {life[0]: memory[life] for life in lives if life in memory},
            {life[0]: shared[life] for life in lives if life in shared},
        )

    async def run(self, lives: Callable[[], Collection[Life]]) -> None:
        """Look until it is cancelled: soon when other models are loaded, else round by round."""
        while True:
            seen, due = set(lives()), time.monotonic() + self._round_s
            await self.look(seen)
            await asyncio.sleep(_LOOK_S)
            while set(lives()) == seen and time.monotonic() < due:  # noqa: ASYNC110 (no event)
                await asyncio.sleep(_LOOK_S)

    async def look(self, lives: Collection[Life]) -> None:
        """One round. Raises OSError or RuntimeError where there is no descriptor or no thread."""
        census = await self._in_thread(self._take_census, "memory")
        models: dict[str, list[str]] = {}
        for triton_name in census.models:
            models.setdefault(_model_name(triton_name), []).append(triton_name)
        present = [life for life in lives if life[0] in models]
        # Those that are new first: each look costs its rest, and there may be hundreds.
        for life in sorted(present, key=lambda life: life in self._memory):
            began = time.monotonic()
            names = models[life[0]]
            pids = tuple(pid for name in names for pid in census.pids[name])
            pages = await self._in_thread(partial(self._sum, pids), "memory")
            region = sum(census.models[name].region for name in names)
            self._memory = {**self._memory, life: pages}
            self._shared = {**self._shared, life: region}
            await asyncio.sleep((time.monotonic() - began) * (1 / _SHARE - 1))
        self._memory = {life: it for life, it in self._memory.items() if life in present}
        self._shared = {life: it for life, it in self._shared.items() if life in present}

    def _take_census(self) -> Census:
        return take_census(self._serving_repository, self._kernel)

    def _sum(self, pids: tuple[int, ...]) -> int:
        return sum(measure_proportional_memory(self._kernel, pid) for pid in pids)


def measure_proportional_memory(kernel: Kernel, pid: int) -> int:
    """One process's bytes, what it shares in equal parts (proc_pid_smaps(5)); 0 if it has ended."""
    try:
        rows = (kernel.proc / str(pid) / "smaps_rollup").read_bytes().splitlines()
    except OSError:
        return 0
    sizes = (int(row.split()[1]) << 10 for row in rows if row.startswith(b"Pss:"))
    return next(sizes, 0)


def _model_name(triton_name: str) -> str:
    try:
        return parse_published(triton_name)[0]
    except ValueError:
        return triton_name
