"""What one instance holds: models are brought, kept, unloaded and deleted.

A model comes in one order: archive → extracted → POST /models, once, however many callers wait for
it (`Resident.bringing`). It leaves by DELETE /models and, when the disk is full, from the disk.

Making room. A load first looks at the memory that is used; above the threshold, and whenever the
container answers 507, the least recently used model that nobody wants is unloaded and the load is
tried again, a bounded number of times. One caller makes room at a time, and new loads wait behind
it (`_room`): otherwise each would take what another had just freed. A model that callers wait for
is `wanted` from their arrival to their answer, so it is never unloaded between its load and its
first invocation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from simulator.archives import ArchiveStore
from simulator.container_client import ContainerClient, InstanceGone
from simulator.errors import ContainerFailed, PlatformFailed
from simulator.events import EventLog, Value
from simulator.eviction import (
    Held,
    expected_memory,
    first_to_delete,
    first_to_unload,
    has_room,
    may_become_free,
)
from simulator.memory import MemoryGauge, NoGauge, Reading
from simulator.model_disk import ModelDisk
from simulator.resident import Resident
from simulator.rules import CacheSetting, Rules
from simulator.target_model import model_name_for
from simulator.threads import in_thread
from simulator.view import ModelState

LACKS_MEMORY = 507
NOT_FOUND = 404
ALREADY_LOADED = 409
#: How long a reading of the memory stands for what is there, where nothing hangs on it.
_FRESH_S = 1.0
#: How long a wish waits for a model in use to become idle: the threshold of the memory, the budget
#: of the disk. What cannot do without waits for load_timeout_s.
_WISH_S = 0.5
#: Archives that are fetched and extracted at the same time.
_DOWNLOADS_AT_ONCE = 8


@dataclass(frozen=True)
class Budget:
    """Bytes an instance may use; None: no limit that the platform looks at."""

    memory: int | None = None
    disk: int | None = None


@dataclass(frozen=True)
class _Weighing:
    """Memory before a load, and the count of moves then: it says whether others moved too."""

    used: int | None
    moves: int


class Holdings:
    """The models of one instance. All of it runs in one event loop, but for the disk's work."""

    def __init__(
        self,
        instance: str,
        client: ContainerClient,
        disk: ModelDisk,
        store: ArchiveStore,
        rules: Rules,
        budget: Budget,
        log: EventLog,
    ) -> None:
        self._instance, self._client, self._disk, self._store = instance, client, disk, store
        self._rules, self.budget, self._log = rules, budget, log
        self.gauge: MemoryGauge = NoGauge()
        self.reading = Reading()
        self._stopping = False
        self._residents: dict[str, Resident] = {}
        self._read_at = 0.0
        self._looking = asyncio.Lock()
        self._moves = 0
        self._room = asyncio.Lock()
        self._disk_room = asyncio.Lock()
        self._changed = asyncio.Event()
        self._departures = 0
        self._loads = asyncio.Semaphore(rules.loads_at_once)
        self._threads = asyncio.Semaphore(_DOWNLOADS_AT_ONCE)

    # -- looking

    def of(self, target_model: str) -> Resident:
        """The record of a target model; made when there is none."""
        resident = self._residents.get(target_model)
        if resident is None:
            name = model_name_for(self._instance, target_model)
            resident = self._residents[target_model] = Resident(target_model, name)
        return resident

    def known(self, target_model: str) -> Resident | None:
        """The record of a target model, if it was ever asked here."""
        return self._residents.get(target_model)

    def residents(self) -> Iterable[Resident]:
        """Every record, of models that are gone too."""
        return self._residents.values()

    def disk_used(self) -> int:
        """Bytes of extracted archives."""
        return self._disk.used()

    async def read_memory(self) -> None:
        """Look at the instance's memory now; one look at a time, so that none overtakes another."""
        async with self._looking:
            states = self._residents.values()
            loaded = {r.model_name: r for r in states if r.state is ModelState.LOADED}
            self.reading = await self.gauge.read(loaded.keys())
            self._read_at = time.monotonic()
        for name, resident in loaded.items():
            size = self.reading.by_model.get(name)
            if size is not None and resident.state is ModelState.LOADED:
                resident.memory, resident.needed = size, max(size, resident.needed or 0)

    async def _weighing(self) -> _Weighing:
        """The memory before a load; the reading of a moment ago is as good."""
        if time.monotonic() - self._read_at > _FRESH_S:
            await self.read_memory()
        self._moves += 1
        return _Weighing(self.reading.used, self._moves)

    async def _weigh(self, resident: Resident, before: _Weighing) -> None:
        """A model without processes of its own weighs what its load added, if it moved alone."""
        await self.read_memory()
        alone = before.moves == self._moves
        self._moves += 1
        if resident.memory is None and alone and before.used is not None:
            added = (self.reading.used or 0) - before.used
            if added > 0:
                resident.memory = added
                resident.needed = max(added, resident.needed or 0)

    @contextmanager
    def wanted(self, resident: Resident) -> Iterator[None]:
        """Within the block the model is neither unloaded nor deleted."""
        resident.wanted += 1
        resident.last_used = time.time()
        try:
            yield
        finally:
            resident.wanted -= 1
            self._settle(resident)

    # -- coming

    def bring(self, resident: Resident) -> asyncio.Task[None]:
        """The one task that brings a model here; it goes on when its callers stop waiting."""
        if resident.bringing is None:
            resident.bringing = asyncio.create_task(self._bring(resident))
            resident.bringing.add_done_callback(lambda task: self._brought(resident, task))
        return resident.bringing

    def _brought(self, resident: Resident, task: asyncio.Task[None]) -> None:
        resident.bringing = None
        # Each caller has the exception; without one left nobody asks for it.
        if not task.cancelled() and task.exception() is not None:
            resident.failed_at = time.monotonic()
        self._settle(resident)

    async def _bring(self, resident: Resident) -> None:
        while resident.leaving is not None:
            await asyncio.wait([resident.leaving])
        if resident.state is None:
            await self._arrive(resident)
        if resident.state is ModelState.ON_DISK:
            await self._load_with_room(resident)

    async def _arrive(self, resident: Resident) -> None:
        """Onto the disk; away again while others need its place there, and then once more."""
        deadline = time.monotonic() + self._rules.load_timeout_s
        while True:
            await self._fetch(resident)
            async with self._disk_room:
                if await self._make_disk_room(resident):
                    return
                needed = resident.disk
                others = len(self._held()) > 1  # those that are still brought included
                await self._delete(resident)
            over = time.monotonic() > deadline
            if needed > (self.budget.disk or 0) or not others or over:
                raise PlatformFailed(
                    f"The disk of {self._instance} is full: {resident.target_model} needs "
                    f"{needed:,} bytes of {self.budget.disk:,}; give it more, or ask fewer models "
                    "at once."
                )
            if self._held():  # or they have left meanwhile
                await self._change(deadline)

    async def _fetch(self, resident: Resident) -> None:
        resident.state = ModelState.DOWNLOADING
        loop, limits = asyncio.get_running_loop(), self._rules.extraction
        if self.budget.disk is not None:
            limits = replace(limits, total_bytes=min(limits.total_bytes, self.budget.disk))

        def told(kind: str, fields: Mapping[str, Value]) -> None:
            loop.call_soon_threadsafe(lambda: self._tell(kind, **fields))

        def fetch() -> int:
            return self._disk.fetch(
                resident.target_model,
                resident.model_name,
                self._store,
                limits,
                lambda: self._stopping,
                told,
            ).disk_bytes

        try:
            async with self._threads:
                resident.disk = await in_thread(fetch)
        except BaseException:
            resident.state = None
            raise
        resident.state = ModelState.ON_DISK

    async def _load_with_room(self, resident: Resident) -> None:
        async with self._room:
            await self._make_memory_room(resident)
            resident.state = ModelState.LOADING
        since = self._departures
        try:
            await self._load(resident)
        except ContainerFailed as error:
            if error.status != LACKS_MEMORY:
                raise
            await self._load_after_unloading(resident, error, since)

    async def _load_after_unloading(
        self, resident: Resident, error: ContainerFailed, since: int
    ) -> None:
        deadline = time.monotonic() + self._rules.load_timeout_s
        async with self._room:
            for _ in range(self._rules.evictions_per_call):
                if not await self._has_left("507", resident, since, deadline):
                    break
                since = self._departures
                try:
                    return await self._load(resident)
                except ContainerFailed as again:
                    if again.status != LACKS_MEMORY:
                        raise
                    error = again
        raise error

    async def _load(self, resident: Resident) -> None:
        resident.state = ModelState.LOADING
        try:
            async with self._loads:
                await self._load_now(resident)
        except BaseException:
            resident.state = ModelState.ON_DISK
            self._changed.set()
            raise

    async def _load_now(self, resident: Resident) -> None:
        target = resident.target_model
        self._tell("load_started", target_model=target)
        weighing = await self._weighing()
        start = time.monotonic()
        try:
            url = self._disk.url(resident.model_name)
            await self._client.load(resident.model_name, url, target)
        except (ContainerFailed, InstanceGone) as error:
            if status_of(error) != ALREADY_LOADED:
                seconds = time.monotonic() - start
                self._tell_failure("load_failed", resident, error, seconds=seconds)
                raise
        seconds = time.monotonic() - start
        resident.state, resident.loads = ModelState.LOADED, resident.loads + 1
        await self._weigh(resident, weighing)
        self._tell("loaded", target_model=target, seconds=seconds, memory=resident.memory)

    # -- making room

    def departures(self) -> int:
        """How many models have left the memory: another number later means that there was room."""
        return self._departures

    async def room_beside(self, resident: Resident, since: int) -> bool:
        """For an invocation that lacked memory: whether another model has left since then.

        While its caller waits here, the model may itself be what leaves for another one, and is
        then brought again: two that have no room beside each other would else wait for ever.
        """
        deadline = time.monotonic() + self._rules.load_timeout_s
        resident.waiting += 1
        self._changed.set()
        try:
            async with self._room:
                return await self._has_left("507", resident, since, deadline)
        finally:
            resident.waiting -= 1

    async def _make_memory_room(self, resident: Resident) -> None:
        """Down to the threshold, as far as what is idle goes; the container has the last word."""
        if self.budget.memory is None:
            return
        deadline = time.monotonic() + _WISH_S
        for _ in range(self._rules.evictions_per_call):
            since = self._departures
            await self.read_memory()
            if self._fits(resident, self.budget.memory):
                return
            if not await self._has_left("memory", resident, since, deadline):
                return

    def _fits(self, resident: Resident, limit: int) -> bool:
        if self.reading.used is None:
            return True
        held = self._held()
        loading = [r for r in self._residents.values() if r.state is ModelState.LOADING]
        coming = sum(expected_memory(r.needed, held) for r in (resident, *loading))
        return has_room(self.reading.used, limit, self._rules.memory_threshold, coming)

    async def _make_disk_room(self, resident: Resident) -> bool:
        """Whether the disk is within its budget, after what nobody wants was deleted."""
        budget, deadline = self.budget.disk, time.monotonic() + _WISH_S
        while budget is not None and self._disk.used() > budget:
            victim = first_to_delete(self._held(), (resident.target_model,))
            if resident.disk > budget:
                return False
            if victim is not None:
                await self.delete(self._residents[victim])
                continue
            async with self._room:
                if not await self._has_left("disk", resident, self._departures, deadline):
                    return False
        return True

    async def _has_left(self, reason: str, keep: Resident, since: int, deadline: float) -> bool:
        """Whether a model has left the memory since then: the least recently used is made to.

        Waits until the deadline for one that is in use; False where there is none, or none leaves.
        """
        kept = {keep.target_model}
        while self._departures == since:
            held = self._held()
            victim = first_to_unload(held, kept)
            if victim is not None:
                kept.add(victim)  # where it fails to leave, the next one is tried
                await self.unload(self._residents[victim], reason)
            elif time.monotonic() >= deadline or not may_become_free(held, kept):
                return False
            else:
                await self._change(deadline)
        return True

    async def _change(self, deadline: float) -> None:
        """Until something came, left or failed, or until the deadline."""
        self._changed.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, deadline - time.monotonic()))

    # -- leaving

    async def unload(self, resident: Resident, reason: str) -> None:
        """DELETE /models/{name}, once; the archive stays on disk. Its failure is an event."""
        await asyncio.shield(self._leave(resident, self._unload(resident, reason)))

    async def delete(self, resident: Resident) -> None:
        """Remove an archive that is not loaded from the disk."""
        await asyncio.shield(self._leave(resident, self._delete(resident)))

    def _leave(self, resident: Resident, going: Coroutine[None, None, bool]) -> asyncio.Task[bool]:
        if resident.leaving is not None:
            going.close()
            return resident.leaving
        resident.leaving = asyncio.create_task(going)
        resident.leaving.add_done_callback(lambda task: self._left(resident, task))
        return resident.leaving

    def _left(self, resident: Resident, task: asyncio.Task[bool]) -> None:
        resident.leaving = None
        self._changed.set()
        if not task.cancelled() and task.exception() is None and task.result():
            self._settle(resident)

    def _settle(self, resident: Resident) -> None:
        """What happens to a model that nobody wants any more, and nobody brings or removes."""
        self._changed.set()
        if not resident.idle or self._stopping:
            return
        if resident.state is None:
            # Callers may make up any number of names.
            self._residents.pop(resident.target_model, None)
        elif self._rules.cache is CacheSetting.DISABLED:
            loaded = resident.state is ModelState.LOADED
            self._leave(
                resident,
                self._unload(resident, "not cached") if loaded else self._delete(resident),
            )

    async def _unload(self, resident: Resident, reason: str) -> bool:
        resident.state = ModelState.UNLOADING
        self._moves += 1
        target = resident.target_model
        self._tell("unload_started", target_model=target, reason=reason)
        start = time.monotonic()
        try:
            await self._client.unload(resident.model_name, target)
        except (ContainerFailed, InstanceGone) as error:
            if status_of(error) != NOT_FOUND:
                # Still loaded, as far as anybody knows; the next one in line is tried before it.
                resident.state, resident.last_used = ModelState.LOADED, time.time()
                self._tell_failure("unload_failed", resident, error)
                return False
        self._depart(resident)
        seconds = time.monotonic() - start
        self._tell("unloaded", target_model=target, seconds=seconds, reason=reason)
        return True

    def _depart(self, resident: Resident) -> None:
        resident.state, resident.memory = ModelState.ON_DISK, None
        self._departures += 1
        self._read_at = 0.0  # what was read counts the model
        self._changed.set()

    async def _delete(self, resident: Resident) -> bool:
        resident.state = None
        freed = await in_thread(lambda: self._disk.remove(resident.model_name))
        resident.disk = 0
        self._tell("deleted", target_model=resident.target_model, bytes=freed)
        return True

    # -- what the container says of itself

    def loads(self) -> dict[str, int]:
        """The loaded models' names, each with the number of its load."""
        loaded = (r for r in self._residents.values() if r.state is ModelState.LOADED)
        return {resident.model_name: resident.loads for resident in loaded}

    def reconcile(self, before: Mapping[str, int], listed: Collection[str]) -> None:
        """Models that were loaded before the container listed its own, and are not in the list."""
        for resident in self._residents.values():
            same = before.get(resident.model_name) == resident.loads
            if same and resident.state is ModelState.LOADED and resident.model_name not in listed:
                self.lose(resident, "the container no longer lists it")

    def lose(self, resident: Resident, message: str) -> None:
        """The container has a model no more that it had loaded."""
        self._depart(resident)
        self._tell("lost", target_model=resident.target_model, message=message)

    def lose_all(self) -> None:
        """The container ended: nothing is loaded, everything is still on disk."""
        for resident in self._residents.values():
            if resident.state is ModelState.LOADED:
                self._depart(resident)
        self.reading = Reading()

    async def stop(self) -> None:
        """End what is under way; its threads are not waited for."""
        self._stopping = True
        for resident in self._residents.values():
            if resident.bringing is not None:
                resident.bringing.cancel()

    # -- telling

    def _held(self) -> list[Held]:
        return [held for r in self._residents.values() if (held := r.as_held()) is not None]

    def _tell(self, kind: str, **fields: Value) -> None:
        self._log.tell(kind, self._instance, **fields)

    def _tell_failure(
        self, kind: str, resident: Resident, error: Exception, **fields: Value
    ) -> None:
        self._tell(
            kind,
            target_model=resident.target_model,
            status=status_of(error),
            message=str(error),
            **fields,
        )


def status_of(error: Exception) -> int:
    """The container's HTTP status in an error; 0 where it did not answer."""
    return error.status if isinstance(error, ContainerFailed) else 0
