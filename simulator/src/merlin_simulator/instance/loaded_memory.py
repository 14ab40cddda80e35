"""The memory of one instance as it was last read, and what each load added to it."""

from __future__ import annotations

import asyncio
import time

from merlin_simulator.instance.decisions import MemoryBefore, find_added_memory
from merlin_simulator.instance.memory import MemoryGauge, NoGauge, Reading
from merlin_simulator.instance.resident import Resident, Residents
from merlin_simulator.watch.view import ModelState

#: How long a reading of the memory stands for what is there, where nothing hangs on it.
_FRESH_S = 1.0


class LoadedMemory:
    """Writes what each resident takes; all of it runs in one event loop."""

    def __init__(self, residents: Residents) -> None:
        self.gauge: MemoryGauge = NoGauge()
        self.reading = Reading()
        self._residents = residents
        self._read_at = 0.0
        self._one_look = asyncio.Lock()
        self._moves = 0

    async def read(self) -> None:
        """Look at the instance's memory now; one look at a time, so that none overtakes another."""
        async with self._one_look:
            loaded = {
                resident.model_name: resident
                for resident in self._residents
                if resident.state is ModelState.LOADED
            }
            self.reading = await self.gauge.read(loaded.keys())
            self._read_at = time.monotonic()
        for name, resident in loaded.items():
            size = self.reading.by_model.get(name)
            if size is not None and resident.state is ModelState.LOADED:
                resident.memory, resident.needed = size, max(size, resident.needed or 0)

    async def before_load(self) -> MemoryBefore:
        """The memory before a load; the reading of a moment ago is as good."""
        if time.monotonic() - self._read_at > _FRESH_S:
            await self.read()
        self._moves += 1
        return MemoryBefore(self.reading.used, self._moves)

    async def after_load(self, resident: Resident, before: MemoryBefore) -> None:
        """Read it, and find what the load has added."""
        await self.read()
        added = find_added_memory(before, self.reading.used, self._moves)
        self._moves += 1
        if resident.memory is None and added is not None:
            resident.memory = added
            resident.needed = max(added, resident.needed or 0)

    def begin_unload(self) -> None:
        """What loads find meanwhile is not theirs alone."""
        self._moves += 1

    def outdate(self) -> None:
        """A model has left: what was read counts it."""
        self._read_at = 0.0

    def clear(self) -> None:
        """The container ended."""
        self.reading = Reading()
