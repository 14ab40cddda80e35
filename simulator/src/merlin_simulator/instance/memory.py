"""Memory of an instance: how much a model takes, and whether there is room for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from merlin_simulator.instance.decisions import (
    Course,
    EvictionTurn,
    HeldModel,
    MemoryBefore,
    MemoryTurn,
    Stage,
    Step,
    Unload,
    UnloadAll,
    decide_eviction,
    decide_memory,
    find_added_memory,
)
from merlin_simulator.instance.requests import make_model_name
from merlin_simulator.proc import (
    ProcessStat,
    read_anonymous_bytes,
    read_command_line,
    read_private_bytes,
    read_program,
    read_tree,
)
from merlin_simulator.rules import Rules
from merlin_simulator.threads import run_in_thread
from merlin_simulator.watch.state import ModelState, ModelView


@dataclass
class Resident:
    """state is None while nothing of it is here. Written by its instance's event loop only.

    A record is one model's for as long as somebody holds it: forgotten only when nobody does.
    """

    target_model: str
    model_name: str
    state: ModelState | None = None
    memory: int | None = None  # bytes, of its processes, while loaded
    needed: int | None = None  # bytes, the most it was seen to use
    disk: int = 0
    callers: int = 0  # those that wait for it or ask it
    waiting: int = 0  # those of them that wait for others to make room
    invocations: int = 0
    last_used: float = 0.0
    failed_at: float | None = None  # when its load last failed, by the monotonic clock
    loads: int = 0  # successful ones: tells one load from the next
    load_task: asyncio.Task[None] | None = field(default=None, repr=False)
    course: Course = field(default_factory=Course, repr=False)  # of the last load
    leaving: asyncio.Task[bool] | None = field(default=None, repr=False)

    @property
    def idle(self) -> bool:
        """Nobody wants it, and nobody brings it here or takes it away."""
        return not self.callers and self.load_task is None and self.leaving is None

    def as_held_model(self) -> HeldModel | None:
        """The model for decisions about eviction; None while nothing of it is here."""
        if self.state is None:
            return None
        wanted = self.callers > self.waiting or self.load_task is not None
        return HeldModel(
            self.target_model, self.state, wanted, self.last_used, self.memory, self.disk
        )

    def as_view(self) -> ModelView | None:
        """The model for the page; None while nothing of it is here."""
        if self.state is None:
            return None
        return ModelView(
            self.target_model,
            self.model_name,
            self.state,
            self.memory,
            self.disk,
            self.callers,
            self.invocations,
            self.last_used or None,
        )


class Residents:
    """The records of one instance, of models that are gone too."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._records: dict[str, Resident] = {}

    def __iter__(self) -> Iterator[Resident]:
        return iter(self._records.values())

    def of(self, target_model: str) -> Resident:
        """The record of a target model; made when there is none."""
        resident = self._records.get(target_model)
        if resident is None:
            name = make_model_name(self._instance, target_model)
            resident = self._records[target_model] = Resident(target_model, name)
        return resident

    def find(self, target_model: str) -> Resident | None:
        """The record of a target model, if it was ever asked here."""
        return self._records.get(target_model)

    def forget(self, resident: Resident) -> None:
        """Nothing of it is here, and nobody holds its record."""
        self._records.pop(resident.target_model, None)

    def held_models(self) -> list[HeldModel]:
        """All models here, for decisions about eviction."""
        models = (resident.as_held_model() for resident in self)
        return [model for model in models if model is not None]


@dataclass(frozen=True)
class MemoryReading:
    """used is None where it cannot be seen; by_model has the models with processes of their own.

    cpu_percent is of one core, since the reading before; None at the first.
    """

    used: int | None = None
    by_model: Mapping[str, int] = field(default_factory=dict)
    cpu_percent: float | None = None


class MemoryGauge(Protocol):
    """Reads one instance's memory; never raises, since an instance may end while it is read."""

    async def read(self, model_names: Collection[str]) -> MemoryReading:
        """What is used now."""


class NoGauge:
    """An instance that cannot be looked into."""

    async def read(self, model_names: Collection[str]) -> MemoryReading:
        """Nothing is known."""
        return MemoryReading()


class ProcessTreeGauge:
    """A process of this machine with all it started."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu = CpuMeter()
        self._commands: dict[tuple[int, int], str] = {}
        self._forked: dict[tuple[int, int], int] = {}

    async def read(self, model_names: Collection[str]) -> MemoryReading:
        """Read in a thread: two hundred processes take some ms."""
        return await run_in_thread(lambda: self._read(frozenset(model_names)))

    def _read(self, model_names: frozenset[str]) -> MemoryReading:
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
        """Bytes of each process that it does not share with its parent.

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


def share_out(seen: Iterable[tuple[str, int]], model_names: Collection[str]) -> MemoryReading:
    """(command line, bytes) of each process, shared out among the models and the server."""
    used, by_model = 0, dict[str, int]()
    for command, size in seen:
        used += size
        owner = next((name for name in model_names if name in command), None)
        if owner is not None:
            by_model[owner] = by_model.get(owner, 0) + size
    return MemoryReading(used, by_model)


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


#: How long a reading of the memory stands for what is there, where nothing hangs on it.
_FRESH_S = 1.0


class LoadedMemory:
    """Writes what each resident takes; all of it runs in one event loop."""

    def __init__(self, residents: Residents) -> None:
        self.gauge: MemoryGauge = NoGauge()
        self.reading = MemoryReading()
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
        """Begin an unload: memory that loads add meanwhile cannot be told apart."""
        self._moves += 1

    def outdate(self) -> None:
        """A model has left: what was read counts it."""
        self._read_at = 0.0

    def clear(self) -> None:
        """Forget the readings of a container that ended."""
        self.reading = MemoryReading()


#: How long a wish waits for a model in use to become idle: the threshold of the memory, the budget
#: of the disk. What cannot do without waits for load_timeout_s.
WISH_S = 0.5


class Evictor:
    """Unloads models for others that lack memory.

    Who decides, or waits for a model in use, holds `turn`, and new loads wait behind it.

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

    async def free_for_load(self, resident: Resident) -> None:
        """Unload idle models down to the threshold; the container has the last word.

        The model is LOADING then.
        """
        self._coming.append(resident)
        try:
            await self._free_for_load(resident)
            resident.state = ModelState.LOADING
        finally:
            self._coming.remove(resident)

    async def _free_for_load(self, resident: Resident) -> None:
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
                step = decide_memory(self._describe_turn(resident, self._limit))
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

    def _describe_turn(self, resident: Resident, limit: int) -> MemoryTurn:
        before = self._coming[: self._coming.index(resident)]
        loading = [
            r.needed for r in self._residents if r.state is ModelState.LOADING and r is not resident
        ]
        loading += [r.needed for r in before]
        held, used = self._residents.held_models(), self._memory.reading.used
        return MemoryTurn(held, resident.needed, loading, used, limit, self._rules.memory_threshold)

    async def free_for_invocation(self, resident: Resident, since: int) -> bool:
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
