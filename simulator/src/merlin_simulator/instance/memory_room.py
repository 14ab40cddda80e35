"""Room in the memory of one instance: models that nobody wants leave it for others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from merlin_simulator.instance.course import Stage
from merlin_simulator.instance.decisions import (
    EvictionTurn,
    MemoryTurn,
    Step,
    Unload,
    UnloadAll,
    decide_eviction,
    decide_memory,
)
from merlin_simulator.instance.loaded_memory import LoadedMemory
from merlin_simulator.instance.resident import Resident, Residents
from merlin_simulator.rules import Rules
from merlin_simulator.watch.view import ModelState

#: How long a wish waits for a model in use to become idle: the threshold of the memory, the budget
#: of the disk. What cannot do without waits for load_timeout_s.
WISH_S = 0.5


class MemoryRoom:
    """Who decides, or waits for a model in use, holds `turn`, and new loads wait behind it.

    Models leave for several loads at the same time: what waits for room counts as coming for all
    who come later, so that none takes what another has had freed.

    evictions counts the models that have left the memory, lost ones too: another number later means
    that there was room. limit: bytes, None: none that the platform looks at. unload(resident,
    reason) begins to, and does its best; whether a model has left is seen by the count.
    """

    def __init__(
        self,
        residents: Residents,
        memory: LoadedMemory,
        limit: int | None,
        rules: Rules,
        unload: Callable[[Resident, str], asyncio.Future[bool]],
    ) -> None:
        self._residents, self._memory, self._limit = residents, memory, limit
        self._rules, self._unload = rules, unload
        self.turn = asyncio.Lock()
        self.evictions = 0
        #: Who waits for room before a load, in the order in which they came.
        self._coming: list[Resident] = []
        self._changed = asyncio.Event()

    def count_eviction(self) -> None:
        """A model has left the memory."""
        self.evictions += 1
        self._memory.outdate()
        self.tell_change()

    def tell_change(self) -> None:
        """Something came, left or failed: who waits looks again."""
        self._changed.set()

    async def wait_for_change(self, deadline: float) -> None:
        """Until something came, left or failed, or until the deadline."""
        self._changed.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, deadline - time.monotonic()))

    async def make(self, resident: Resident) -> None:
        """Down to the threshold, as far as what is idle goes; the container has the last word.

        The model is LOADING then.
        """
        self._coming.append(resident)
        try:
            await self._make(resident)
            resident.state = ModelState.LOADING
        finally:
            self._coming.remove(resident)

    async def _make(self, resident: Resident) -> None:
        deadline = time.monotonic() + self._rules.load_timeout_s
        wish = time.monotonic() + WISH_S
        evictions = 0
        while evictions < self._rules.evictions_per_call and time.monotonic() < deadline:
            resident.course.enter(Stage.TURN)
            async with self.turn:
                resident.course.enter(Stage.ROOM)
                if self._limit is None:
                    return
                since = self.evictions
                await self._memory.read()
                step = decide_memory(self._memory_turn(resident, self._limit))
                if step is Step.DONE:
                    return
                if step is Step.EVICT:
                    evictions += 1
                    if not await self.evict_another("memory", resident, since, wish):
                        return
                    continue
                leaving: list[asyncio.Future[bool]] = []
                if isinstance(step, UnloadAll):
                    evictions += 1
                    leaving = [self._begin_unload(name) for name in step.target_models]
            if leaving:
                await asyncio.wait(leaving)
            elif self.evictions == since:
                await self.wait_for_change(deadline)

    def _begin_unload(self, target_model: str) -> asyncio.Future[bool]:
        return self._unload(self._residents.of(target_model), "memory")

    def _memory_turn(self, resident: Resident, limit: int) -> MemoryTurn:
        before = self._coming[: self._coming.index(resident)]
        loading = [
            r.needed for r in self._residents if r.state is ModelState.LOADING and r is not resident
        ]
        loading += [r.needed for r in before]
        held, used = self._residents.held_models(), self._memory.reading.used
        return MemoryTurn(held, resident.needed, loading, used, limit, self._rules.memory_threshold)

    async def make_beside(self, resident: Resident, since: int) -> bool:
        """For an invocation that lacked memory: whether another model has left since then.

        While its caller waits here, the model may itself be what leaves for another one, and is
        then brought again: two that have no room beside each other would else wait for ever.
        """
        deadline = time.monotonic() + self._rules.load_timeout_s
        resident.waiting += 1
        self.tell_change()
        try:
            async with self.turn:
                return await self.evict_another("507", resident, since, deadline)
        finally:
            resident.waiting -= 1

    async def evict_another(self, reason: str, keep: Resident, since: int, deadline: float) -> bool:
        """Whether a model has left the memory since then: the least recently used is made to.

        Waits until the deadline for one that is in use; False where there is none, or none leaves.
        The caller has the turn.
        """
        spared = {keep.target_model}
        while True:
            has_left, over = self.evictions != since, time.monotonic() >= deadline
            held = self._residents.held_models()
            step = decide_eviction(EvictionTurn(held, spared, has_left, over))
            if isinstance(step, Unload):
                spared.add(step.target_model)  # where it fails to leave, the next one is tried
                leaving = self._unload(self._residents.of(step.target_model), reason)
                await asyncio.wait({leaving})
            elif step is Step.WAIT:
                await self.wait_for_change(deadline)
            else:
                return step is Step.DONE
