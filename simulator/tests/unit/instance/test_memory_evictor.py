"""Room in an instance's memory, and what a load is seen to add to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace

from merlin_simulator.instance.memory import (
    Evictor,
    LoadedMemory,
    MemoryReading,
    Resident,
    Residents,
)
from merlin_simulator.rules import Rules
from merlin_simulator.watch.state import ModelState


class Played:
    """An instance whose models take 40 bytes each, without a container; some refuse to leave."""

    def __init__(self, *loaded: str, refusing: Collection[str] = ()) -> None:
        self.residents, self.refusing = Residents("one"), refusing
        self.asked: list[tuple[str, str]] = []
        self.memory = LoadedMemory(self.residents)
        self.memory.gauge = self
        rules = replace(Rules(), memory_threshold=1.0)
        self.evictor = Evictor(self.residents, self.memory, 100, rules, self.unload)
        for number, name in enumerate(loaded):
            resident = self.residents.of(name)
            resident.state, resident.last_used = ModelState.LOADED, float(number)

    async def read(self, model_names: Collection[str]) -> MemoryReading:
        """As a gauge that tells models apart."""
        return MemoryReading(40 * len(model_names), dict.fromkeys(model_names, 40))

    def unload(self, resident: Resident, reason: str) -> asyncio.Future[bool]:
        self.asked.append((resident.target_model, reason))
        left = resident.target_model not in self.refusing
        if left:
            resident.state = ModelState.ON_DISK
            self.evictor.count_eviction()
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        told.set_result(left)
        return told


async def test_room_is_made_down_to_the_threshold() -> None:
    """The least recently used goes, and no more than has to."""
    played = Played("a", "b")
    await played.evictor.free_for_load(played.residents.of("new"))
    assert played.asked == [("a", "memory")]
    await played.evictor.free_for_load(played.residents.of("new"))
    assert played.evictor.evictions == len(played.asked) == 1


async def test_one_that_does_not_leave_is_asked_once_and_the_next_one_goes() -> None:
    """Whoever lacks memory waits for the first that leaves."""
    played = Played("a", "b", refusing={"a"})
    since = played.evictor.evictions
    assert await played.evictor.free_for_invocation(played.residents.of("new"), since)
    assert played.asked == [("a", "507"), ("b", "507")]


async def test_room_that_was_made_meanwhile_is_room() -> None:
    """Nobody is asked to leave for it."""
    played = Played("a")
    since = played.evictor.evictions
    played.evictor.count_eviction()
    assert await played.evictor.free_for_invocation(played.residents.of("new"), since)
    assert played.asked == []


async def test_a_model_in_use_is_waited_for_until_the_deadline() -> None:
    """It is never unloaded, and the caller is told."""
    played = Played("a")
    played.residents.of("a").callers = 1
    deadline = time.monotonic() + 0.1
    keep = played.residents.of("new")
    assert not await played.evictor.evict_another("507", keep, played.evictor.evictions, deadline)
    assert time.monotonic() >= deadline
    assert played.asked == []


class Slow(Played):
    """Whose models take their time to leave; what is used is seen until they have left."""

    def __init__(self, *loaded: str) -> None:
        super().__init__(*loaded)
        self.leave = asyncio.Event()

    async def read(self, model_names: Collection[str]) -> MemoryReading:
        there = (ModelState.LOADED, ModelState.UNLOADING)
        used = 40 * sum(resident.state in there for resident in self.residents)
        return MemoryReading(used, dict.fromkeys(model_names, 40))

    def unload(self, resident: Resident, reason: str) -> asyncio.Future[bool]:
        resident.state = ModelState.UNLOADING
        self.asked.append((resident.target_model, reason))
        return asyncio.ensure_future(self._go(resident))

    async def _go(self, resident: Resident) -> bool:
        await self.leave.wait()
        resident.state = ModelState.ON_DISK
        self.evictor.count_eviction()
        return True

    async def until_asked(self, count: int) -> None:
        while len(self.asked) < count:  # noqa: ASYNC110 # what is tested tells nobody
            await asyncio.sleep(0)


async def test_models_leave_for_several_loads_at_the_same_time() -> None:
    """One for each that comes, the oldest first; none takes what another has had freed."""
    played = Slow("a", "b")
    coming = [played.residents.of(name) for name in ("x", "y")]
    for resident in coming:
        resident.state, resident.needed = ModelState.ON_DISK, 40
    making = [asyncio.ensure_future(played.evictor.free_for_load(resident)) for resident in coming]
    await asyncio.wait_for(played.until_asked(2), 60)
    assert played.asked == [("a", "memory"), ("b", "memory")]
    assert [resident.state for resident in coming] == [ModelState.ON_DISK] * 2
    played.leave.set()
    await asyncio.wait_for(asyncio.gather(*making), 60)
    assert [resident.state for resident in coming] == [ModelState.LOADING] * 2
    assert played.evictor.evictions == 2


async def test_who_comes_first_is_not_held_up_by_who_comes_later() -> None:
    played = Slow("a")
    first, later = (played.residents.of(name) for name in ("x", "y"))
    for resident in (first, later):
        resident.state, resident.needed = ModelState.ON_DISK, 90
    waiting = asyncio.ensure_future(played.evictor.free_for_load(first))
    await asyncio.wait_for(played.until_asked(1), 60)
    others = asyncio.ensure_future(played.evictor.free_for_load(later))
    await asyncio.sleep(0)
    played.leave.set()
    await asyncio.wait_for(waiting, 60)
    assert first.state is ModelState.LOADING
    first.state = ModelState.ON_DISK
    played.evictor.count_eviction()
    await asyncio.wait_for(others, 60)


class Unseparated(Played):
    """Whose models have no processes of their own: only the sum is seen."""

    async def read(self, model_names: Collection[str]) -> MemoryReading:
        return MemoryReading(10 + 40 * len(model_names))


async def test_a_load_that_moved_alone_weighs_what_it_added() -> None:
    """Two that load together do not: nobody knows whose the memory is."""
    played = Unseparated()
    first, second, third = (played.residents.of(name) for name in "abc")
    before = await played.memory.before_load()
    first.state = ModelState.LOADED
    await played.memory.after_load(first, before)
    assert (first.memory, first.needed) == (40, 40)
    befores = [await played.memory.before_load() for _ in range(2)]
    for resident, before in zip((second, third), befores, strict=True):
        resident.state = ModelState.LOADED
        await played.memory.after_load(resident, before)
    assert second.memory is None
    assert third.memory is None
