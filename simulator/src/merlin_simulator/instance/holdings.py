"""What one instance holds: models are brought, kept, unloaded and deleted.

A model comes in one order: archive → extracted → POST /models, once, however many callers wait for
it (`Resident.load_task`). It leaves by DELETE /models and, when the disk is full, from the disk.

Making room. A load first looks at the memory that is used; above the threshold, as many models that
nobody wants are unloaded at once as are needed, the least recently used first. Loads that lack room
do so side by side, and what waits for room counts as coming, so that none takes what another has
had freed. Whenever the container answers 507 one more is unloaded and the load is tried again, a
bounded number of times, one load at a time (`Evictor.turn`). A model that callers wait
for is held (`hold`) from their arrival to their answer, so it is never unloaded between its load
and its first invocation. What is decided is decided in decisions.py; here it is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from merlin_simulator.archives.model_disk import ModelDisk
from merlin_simulator.archives.stores import ArchiveStore
from merlin_simulator.errors import ContainerFailed, PlatformFailed
from merlin_simulator.instance.container_client import ContainerClient, InstanceGone
from merlin_simulator.instance.decisions import (
    ALREADY_LOADED,
    LACKS_MEMORY,
    NOT_FOUND,
    AfterUse,
    Course,
    Delete,
    DiskTurn,
    FullDisk,
    Stage,
    Step,
    decide_after_full_disk,
    decide_after_use,
    decide_disk,
)
from merlin_simulator.instance.memory import WISH_S, Evictor, LoadedMemory, Resident, Residents
from merlin_simulator.rules import Rules
from merlin_simulator.threads import run_in_thread
from merlin_simulator.watch.events import EventLog, Value
from merlin_simulator.watch.state import ModelState

#: What begins when a step of the disk's work is told.
_BEGINNING = {"download_started": Stage.DOWNLOAD, "download_finished": Stage.EXTRACTION}
#: Archives that are fetched and extracted at the same time.
DOWNLOADS_AT_ONCE = 8
#: Room is made for so many times the loads that run at the same time.
ROOM_AHEAD = 2


@dataclass(frozen=True)
class Budget:
    """Bytes an instance may use; None: no limit that the platform looks at."""

    memory: int | None = None
    disk: int | None = None


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
        self._stopping = False
        self.residents = Residents(instance)
        self.memory = LoadedMemory(self.residents)
        self.evictor = Evictor(self.residents, self.memory, budget.memory, rules, self.begin_unload)
        self._disk_turns = asyncio.Lock()
        self._loads = asyncio.Semaphore(rules.loads_at_once)
        # No model leaves for one whose load is far off: it may be asked for until then.
        self._upcoming_loads = asyncio.Semaphore(ROOM_AHEAD * rules.loads_at_once)
        self._threads = asyncio.Semaphore(DOWNLOADS_AT_ONCE)

    # -- looking

    def disk_used(self) -> int:
        """Bytes of extracted archives."""
        return self._disk.used()

    @contextmanager
    def hold(self, resident: Resident) -> Iterator[None]:
        """Within the block the model is neither unloaded nor deleted."""
        resident.callers += 1
        resident.last_used = time.time()
        try:
            yield
        finally:
            resident.callers -= 1
            self._leave_use(resident)

    # -- loads

    def start_load(self, resident: Resident) -> asyncio.Task[None]:
        """The one task that loads a model here; it goes on when its callers stop waiting."""
        if resident.load_task is None:
            resident.course = Course()
            resident.load_task = asyncio.create_task(self._fetch_and_load(resident))
            resident.load_task.add_done_callback(lambda task: self._end_load_task(resident, task))
        return resident.load_task

    def _end_load_task(self, resident: Resident, task: asyncio.Task[None]) -> None:
        resident.load_task = None
        # Each caller has the exception; without one left nobody asks for it.
        if not task.cancelled() and task.exception() is not None:
            resident.failed_at = time.monotonic()
        self._leave_use(resident)

    async def _fetch_and_load(self, resident: Resident) -> None:
        while resident.leaving is not None:
            resident.course.enter(Stage.ROOM)
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
            resident.course.enter(Stage.TURN)
            async with self._disk_turns:
                resident.course.enter(Stage.ROOM)
                if await self._make_disk_room(resident):
                    return
                needed, others = resident.disk, len(self.residents.held_models()) > 1
                await self._delete(resident)
            over, budget = time.monotonic() > deadline, self.budget.disk or 0
            step = decide_after_full_disk(
                FullDisk(needed, budget, others, bool(self.residents.held_models()), over)
            )
            if step is Step.GIVE_UP:
                raise PlatformFailed(
                    f"The disk of {self._instance} is full: {resident.target_model} needs "
                    f"{needed:,} bytes of {budget:,}; give it more, or ask fewer models at once."
                )
            if step is Step.WAIT:
                await self.evictor.wait_for_change(deadline)

    async def _fetch(self, resident: Resident) -> None:
        resident.state = ModelState.DOWNLOADING
        loop, limits = asyncio.get_running_loop(), self._rules.extraction
        if self.budget.disk is not None:
            limits = replace(limits, total_bytes=min(limits.total_bytes, self.budget.disk))

        def tell_from_thread(kind: str, fields: Mapping[str, Value]) -> None:
            at = time.monotonic()
            loop.call_soon_threadsafe(lambda: self._tell_step(resident, kind, at, fields))

        def fetch() -> int:
            return self._disk.fetch(
                resident.target_model,
                resident.model_name,
                self._store,
                limits,
                lambda: self._stopping,
                tell_from_thread,
            )

        resident.course.enter(Stage.TURN)
        try:
            async with self._threads:
                resident.disk = await run_in_thread(fetch)
        except BaseException:
            resident.state = None
            raise
        resident.state = ModelState.ON_DISK

    async def _load_with_room(self, resident: Resident) -> None:
        resident.course.enter(Stage.TURN)
        async with self._upcoming_loads:
            await self._make_room_and_load(resident)

    async def _make_room_and_load(self, resident: Resident) -> None:
        await self.evictor.free_for_load(resident)
        since = self.evictor.evictions
        try:
            await self._load(resident)
        except ContainerFailed as error:
            if error.status != LACKS_MEMORY:
                raise
            await self._load_after_evicting(resident, error, since)

    async def _load_after_evicting(
        self, resident: Resident, error: ContainerFailed, since: int
    ) -> None:
        deadline = time.monotonic() + self._rules.load_timeout_s
        resident.course.enter(Stage.TURN)
        async with self.evictor.turn:
            for _ in range(self._rules.evictions_per_call):
                resident.course.enter(Stage.ROOM)
                if not await self.evictor.evict_another("507", resident, since, deadline):
                    break
                since = self.evictor.evictions
                try:
                    return await self._load(resident)
                except ContainerFailed as again:
                    if again.status != LACKS_MEMORY:
                        raise
                    error = again
        raise error

    async def _load(self, resident: Resident) -> None:
        resident.state = ModelState.LOADING
        resident.course.enter(Stage.TURN)
        try:
            async with self._loads:
                resident.course.enter(Stage.LOAD)
                await self._load_now(resident)
        except BaseException:
            resident.state = ModelState.ON_DISK
            self.evictor.tell_change()
            raise

    async def _load_now(self, resident: Resident) -> None:
        target = resident.target_model
        self._tell("load_started", target_model=target)
        before = await self.memory.before_load()
        start = time.monotonic()
        try:
            url = self._disk.url(resident.model_name)
            await self._client.load(resident.model_name, url, target)
        except (ContainerFailed, InstanceGone) as error:
            # It has the model already where the answer to an earlier load was lost.
            if find_status(error) != ALREADY_LOADED:
                seconds = time.monotonic() - start
                self._tell_failure("load_failed", resident, error, seconds=seconds)
                raise
        seconds = time.monotonic() - start
        resident.state, resident.loads = ModelState.LOADED, resident.loads + 1
        await self.memory.after_load(resident, before)
        self._tell("loaded", target_model=target, seconds=seconds, memory=resident.memory)

    async def _make_disk_room(self, resident: Resident) -> bool:
        """Whether the disk is within its budget, after what nobody wants was deleted."""
        deadline = time.monotonic() + WISH_S
        while True:
            step = decide_disk(self._disk_turn(resident))
            if isinstance(step, Delete):
                await self.delete(self.residents.of(step.target_model))
            elif step is Step.EVICT:
                resident.course.enter(Stage.TURN)
                async with self.evictor.turn:
                    resident.course.enter(Stage.ROOM)
                    since = self.evictor.evictions
                    if not await self.evictor.evict_another("disk", resident, since, deadline):
                        return False
            else:
                return step is Step.DONE

    def _disk_turn(self, resident: Resident) -> DiskTurn:
        held, used, budget = self.residents.held_models(), self._disk.used(), self.budget.disk
        return DiskTurn(held, resident.target_model, resident.disk, used, budget)

    # -- leaving

    def begin_unload(self, resident: Resident, reason: str) -> asyncio.Task[bool]:
        """DELETE /models/{name}, once; the archive stays on disk. Its failure is an event.

        Nobody chooses the model from now on. Whether it has left.
        """
        if resident.leaving is None:
            resident.state = ModelState.UNLOADING
        return self._leave(resident, self._unload(resident, reason))

    async def delete(self, resident: Resident) -> None:
        """Remove an archive that is not loaded from the disk."""
        await asyncio.shield(self._leave(resident, self._delete(resident)))

    def _leave(self, resident: Resident, going: Coroutine[None, None, bool]) -> asyncio.Task[bool]:
        if resident.leaving is not None:
            going.close()
            return resident.leaving
        resident.leaving = asyncio.create_task(going)
        resident.leaving.add_done_callback(lambda task: self._end_leaving(resident, task))
        return resident.leaving

    def _end_leaving(self, resident: Resident, task: asyncio.Task[bool]) -> None:
        resident.leaving = None
        self.evictor.tell_change()
        if not task.cancelled() and task.exception() is None and task.result():
            self._leave_use(resident)

    def _leave_use(self, resident: Resident) -> None:
        """Carry out the fate of a model that nobody asks for, loads or removes any more."""
        self.evictor.tell_change()
        if not resident.idle or self._stopping:
            return
        step = decide_after_use(resident.state, self._rules.cache)
        if step is AfterUse.FORGET:
            self.residents.forget(resident)
        elif step is AfterUse.UNLOAD:
            self.begin_unload(resident, "not cached")
        elif step is AfterUse.DELETE:
            self._leave(resident, self._delete(resident))

    async def _unload(self, resident: Resident, reason: str) -> bool:
        self.memory.begin_unload()
        target = resident.target_model
        self._tell("unload_started", target_model=target, reason=reason)
        start = time.monotonic()
        try:
            await self._client.unload(resident.model_name, target)
        except (ContainerFailed, InstanceGone) as error:
            if find_status(error) != NOT_FOUND:
                # Still loaded, as far as anybody knows; the next one in line is tried before it.
                resident.state, resident.last_used = ModelState.LOADED, time.time()
                self._tell_failure("unload_failed", resident, error)
                return False
        self._leave_memory(resident)
        seconds = time.monotonic() - start
        self._tell("unloaded", target_model=target, seconds=seconds, reason=reason)
        return True

    def _leave_memory(self, resident: Resident) -> None:
        resident.state, resident.memory = ModelState.ON_DISK, None
        self.evictor.count_eviction()

    async def _delete(self, resident: Resident) -> bool:
        resident.state = None
        freed = await run_in_thread(lambda: self._disk.remove(resident.model_name))
        resident.disk = 0
        self._tell("deleted", target_model=resident.target_model, bytes=freed)
        return True

    # -- what the container says of itself

    def loads(self) -> dict[str, int]:
        """The loaded models' names, each with the number of its load."""
        loaded = (r for r in self.residents if r.state is ModelState.LOADED)
        return {resident.model_name: resident.loads for resident in loaded}

    def reconcile(self, before: Mapping[str, int], listed: Collection[str]) -> None:
        """Models that were loaded before the container listed its own, and are not in the list."""
        for resident in self.residents:
            same = before.get(resident.model_name) == resident.loads
            if same and resident.state is ModelState.LOADED and resident.model_name not in listed:
                self.lose(resident, "the container no longer lists it")

    def lose(self, resident: Resident, message: str) -> None:
        """The container has a model no more that it had loaded."""
        self._leave_memory(resident)
        self._tell("lost", target_model=resident.target_model, message=message)

    def lose_all(self) -> None:
        """The container ended: nothing is loaded, everything is still on disk."""
        for resident in self.residents:
            if resident.state is ModelState.LOADED:
                self._leave_memory(resident)
        self.memory.clear()

    async def stop(self) -> None:
        """End what is under way; its threads are not waited for."""
        self._stopping = True
        for resident in self.residents:
            if resident.load_task is not None:
                resident.load_task.cancel()

    # -- telling

    def _tell(self, kind: str, **fields: Value) -> None:
        self._log.tell(kind, self._instance, **fields)

    def _tell_step(
        self, resident: Resident, kind: str, at: float, fields: Mapping[str, Value]
    ) -> None:
        """A step of the disk's work, which was told in its thread at that time."""
        if (stage := _BEGINNING.get(kind)) is not None:
            resident.course.enter(stage, at)
        self._tell(kind, **fields)

    def _tell_failure(
        self, kind: str, resident: Resident, error: Exception, **fields: Value
    ) -> None:
        self._tell(
            kind,
            target_model=resident.target_model,
            status=find_status(error),
            message=str(error),
            **fields,
        )


def find_status(error: Exception) -> int:
    """The container's HTTP status in an error; 0 where it did not answer."""
    return error.status if isinstance(error, ContainerFailed) else 0
