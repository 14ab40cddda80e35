"""What each model's processes hold, looked at now and then: for whoever shows it.

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


class ModelMemory:
    """Bytes by model name, as last looked at. memory: PSS; shared: of the regions in /dev/shm."""

    def __init__(
        self,
        serving_repository: Path,
        kernel: Kernel | None = None,
        round_s: float = _ROUND_S,
        in_thread: InThread = run_in_daemon_thread,
    ) -> None:
        self._serving_repository, self._kernel = serving_repository, kernel or Kernel()
        self._round_s, self._in_thread = round_s, in_thread
        self.memory: Mapping[str, int] = {}
        self.shared: Mapping[str, int] = {}

    async def run(self, loaded: Callable[[], Collection[str]]) -> None:
        """Look until it is cancelled: soon when other models are loaded, else round by round."""
        while True:
            seen, due = set(loaded()), time.monotonic() + self._round_s
            await self.look()
            await asyncio.sleep(_LOOK_S)
            while set(loaded()) == seen and time.monotonic() < due:  # noqa: ASYNC110 (no event)
                await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """One round. Raises OSError or RuntimeError where there is no descriptor or no thread."""
        census = await self._in_thread(self._take_census, "memory")
        models: dict[str, list[str]] = {}
        for triton_name in census.models:
            models.setdefault(_model_name(triton_name), []).append(triton_name)
        # Those that are new first: each look costs its rest, and there may be hundreds.
        for model_name in sorted(models, key=lambda name: name in self.memory):
            began = time.monotonic()
            names = models[model_name]
            pids = tuple(pid for name in names for pid in census.pids[name])
            pages = await self._in_thread(partial(self._sum, pids), "memory")
            region = sum(census.models[name].region for name in names)
            self.memory = {**self.memory, model_name: pages}
            self.shared = {**self.shared, model_name: region}
            await asyncio.sleep((time.monotonic() - began) * (1 / _SHARE - 1))
        self.memory = {name: size for name, size in self.memory.items() if name in models}
        self.shared = {name: size for name, size in self.shared.items() if name in models}

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
