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
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

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
from simulator.rules import Rules
from simulator.target_model import model_name_for
from simulator.threads import in_thread
from simulator.view import ModelState

LACKS_MEMORY = 507
NOT_FOUND = 404
ALREADY_LOADED = 409
#: How long a reading of the memory stands for what is there, where nothing hangs on it.
_FRESH_S = 1.0
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
        self._moves = 0
        self._room = asyncio.Lock()
        self._freed = asyncio.Event()
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
        """Look at the instance's memory now."""
        loaded = {r.model_name: r for r in self._residents.values() if r.state is ModelState.LOADED}
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
            self._freed.set()
            self._forget(resident)

    # -- coming

    def bring(self, resident: Resident) -> asyncio.Task[None]:
        """The one task that brings a model here; it goes on when its callers stop waiting."""
        if resident.bringing is None:
            resident.bringing = asyncio.create_task(self._bring(resident))
            resident.bringing.add_done_callback(lambda task: self._brought(resident, task))
        return resident.bringing

    def _brought(self, resident: Resident, task: asyncio.Task[None]) -> None:
        resident.bringing = None
        if not task.cancelled():
            task.exception()  # each caller has it; without one left nobody asks for it
        self._freed.set()
        self._forget(resident)

    def _forget(self, resident: Resident) -> None:
        """Names that nothing stands behind are not kept: callers may make up any number of them."""
        idle = resident.bringing is None and resident.leaving is None and not resident.wanted
        if idle and resident.state is None:
            self._residents.pop(resident.target_model, None)

    async def _bring(self, resident: Resident) -> None:
        if resident.leaving is not None:
            await asyncio.wait([resident.leaving])
        if resident.state is None:
            await self._fetch(resident)
        if resident.state is ModelState.ON_DISK:
            await self._load_with_room(resident)

    async def _fetch(self, resident: Resident) -> None:
        resident.state = ModelState.DOWNLOADING
        loop = asyncio.get_running_loop()

        def told(kind: str, fields: Mapping[str, Value]) -> None:
            loop.call_soon_threadsafe(lambda: self._tell(kind, **fields))

        def fetch() -> int:
            return self._disk.fetch(
                resident.target_model,
                resident.model_name,
                self._store,
                self._rules.extraction,
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
        await self._make_disk_room(resident)

    async def _load_with_room(self, resident: Resident) -> None:
        async with self._room:
            await self._make_memory_room(resident)
            resident.state = ModelState.LOADING
        try:
            await self._load(resident)
        except ContainerFailed as error:
            if error.status != LACKS_MEMORY:
                raise
            await self._load_after_unloading(resident, error)

    async def _load_after_unloading(self, resident: Resident, error: ContainerFailed) -> None:
        async with self._room:
            for _ in range(self._rules.evictions_per_call):
                if not await self._unload_one("507", resident):
                    break
                try:
                    return await self._load(resident)
                except ContainerFailed as again:
                    if again.status != LACKS_MEMORY:
                        raise
                    error = again
        raise error

    async def _load(self, resident: Resident) -> None:
        resident.state = ModelState.LOADING
        self._tell("load_started", target_model=resident.target_model)
        weighing = await self._weighing()
        start = time.monotonic()
        try:
            await self._loaded(resident)
        except (ContainerFailed, InstanceGone) as error:
            if status_of(error) != ALREADY_LOADED:
                resident.state = ModelState.ON_DISK
                seconds = time.monotonic() - start
                self._tell_failure("load_failed", resident, error, seconds=seconds)
                raise
        except BaseException:
            resident.state = ModelState.ON_DISK
            raise
        seconds = time.monotonic() - start
        resident.state, resident.loads = ModelState.LOADED, resident.loads + 1
        await self._weigh(resident, weighing)
        self._tell(
            "loaded",
            target_model=resident.target_model,
            seconds=seconds,
            memory=resident.memory,
        )

    async def _loaded(self, resident: Resident) -> None:
        url = self._disk.url(resident.model_name)
        async with self._loads:
            await self._client.load(resident.model_name, url, resident.target_model)

    # -- making room

    async def make_room_beside(self, resident: Resident) -> bool:
        """Unload one other model, for an invocation that lacked memory; False: there is none."""
        async with self._room:
            return await self._unload_one("507", resident)

    async def _make_memory_room(self, resident: Resident) -> None:
        """Down to the threshold as far as it goes; the container has the last word."""
        if self.budget.memory is None:
            return
        for _ in range(self._rules.evictions_per_call):
            await self.read_memory()
            if self._fits(resident, self.budget.memory) or not await self._unload_one(
                "memory", resident
            ):
                return

    def _fits(self, resident: Resident, limit: int) -> bool:
        if self.reading.used is None:
            return True
        held = self._held()
        loading = [r for r in self._residents.values() if r.state is ModelState.LOADING]
        coming = sum(expected_memory(r.needed, held) for r in (resident, *loading))
        return has_room(self.reading.used, limit, self._rules.memory_threshold, coming)

    async def _make_disk_room(self, resident: Resident) -> None:
        budget = self.budget.disk
        while budget is not None and self._disk.used() > budget:
            if resident.disk > budget or not await self._free_disk(resident):
                needed = resident.disk
                await self.delete(resident)
                raise PlatformFailed(
                    f"The disk of {self._instance} is full: {resident.target_model} needs "
                    f"{needed:,} bytes of {budget:,}; give it more, or ask fewer models at once."
                )

    async def _free_disk(self, keep: Resident) -> bool:
        victim = first_to_delete(self._held(), (keep.target_model,))
        if victim is not None:
            await self.delete(self._residents[victim])
            return True
        async with self._room:
            return await self._unload_one("disk", keep)

    async def _unload_one(self, reason: str, keep: Resident) -> bool:
        """Unload the least recently used model, waiting for one that is in use; False: none is."""
        deadline = time.monotonic() + self._rules.load_timeout_s
        while time.monotonic() < deadline:
            held = self._held()
            victim = first_to_unload(held, (keep.target_model,))
            if victim is not None:
                await self.unload(self._residents[victim], reason)
                return True
            if not may_become_free(held, (keep.target_model,)):
                return False
            self._freed.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._freed.wait(), deadline - time.monotonic())
        return False

    # -- leaving

    async def unload(self, resident: Resident, reason: str) -> None:
        """DELETE /models/{name}, once; the archive stays on disk."""
        await self._leave(resident, lambda: self._unload(resident, reason))

    async def delete(self, resident: Resident) -> None:
        """Remove an archive that is not loaded from the disk."""
        await self._leave(resident, lambda: self._delete(resident))

    async def _leave(
        self, resident: Resident, going: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        if resident.leaving is None:
            resident.leaving = asyncio.create_task(going())
            resident.leaving.add_done_callback(lambda _: self._left(resident))
        await asyncio.shield(resident.leaving)

    def _left(self, resident: Resident) -> None:
        resident.leaving = None
        self._freed.set()
        self._forget(resident)

    async def _unload(self, resident: Resident, reason: str) -> None:
        resident.state = ModelState.UNLOADING
        self._moves += 1
        target = resident.target_model
        self._tell("unload_started", target_model=target, reason=reason)
        start = time.monotonic()
        try:
            await self._client.unload(resident.model_name, target)
        except ContainerFailed as error:
            if error.status != NOT_FOUND:
                # Still loaded, as far as anybody knows; the next one in line is tried before it.
                resident.state, resident.last_used = ModelState.LOADED, time.time()
                self._tell_failure("unload_failed", resident, error)
                return
        except InstanceGone as error:
            self._tell_failure("unload_failed", resident, error)
        resident.state, resident.memory = ModelState.ON_DISK, None
        seconds = time.monotonic() - start
        self._tell("unloaded", target_model=target, seconds=seconds, reason=reason)

    async def _delete(self, resident: Resident) -> None:
        resident.state = None
        freed = await in_thread(lambda: self._disk.remove(resident.model_name))
        resident.disk = 0
        self._tell("deleted", target_model=resident.target_model, bytes=freed)

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
        resident.state, resident.memory = ModelState.ON_DISK, None
        self._tell("lost", target_model=resident.target_model, message=message)
        self._freed.set()

    def lose_all(self) -> None:
        """The container ended: nothing is loaded, everything is still on disk."""
        for resident in self._residents.values():
            if resident.state is ModelState.LOADED:
                resident.state, resident.memory = ModelState.ON_DISK, None
        self.reading = Reading()
        self._freed.set()

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
