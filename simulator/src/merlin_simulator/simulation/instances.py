"""Simulated instances: the models that they hold, and what is decided on; counts of a run."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from merlin_simulator.instance.decisions import EvictionTurn, HeldModel, MemoryTurn, Stage
from merlin_simulator.instance.holdings import DOWNLOADS_AT_ONCE, ROOM_AHEAD
from merlin_simulator.simulation.event_clock import Cores, Slots
from merlin_simulator.simulation.scenario import ArchiveFigures, Scenario
from merlin_simulator.watch.events import COLD_PARTS
from merlin_simulator.watch.state import ModelState

#: Cold requests whose latencies are kept one by one, and those whose parts are.
_MOST_LATENCIES, _MOST_PARTS = 2_000_000, 200_000


@dataclass
class Counts:
    """Counts of a run: of requests, loads and evictions."""

    cold: int = 0
    loads: int = 0
    evictions: int = 0
    #: Those of the evictions that a container's 507 caused.
    evictions_507: int = 0
    #: Callers who gave up before their model was loaded.
    not_ready: int = 0
    #: Callers whose model the container refused in the end.
    no_memory: int = 0
    without_instance: int = 0
    copies: int = 0
    #: Loads that ended because the disk had no room, and their callers.
    disk_gave_up: int = 0
    no_disk: int = 0
    #: Seconds of cold requests that were answered in time, and of their parts (COLD_PARTS).
    latencies: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in COLD_PARTS})

    @property
    def failed(self) -> int:
        """Requests that were told of a failure instead of an answer."""
        return self.not_ready + self.no_memory + self.no_disk + self.without_instance

    def count_cold(self, wait: float, answer: float, spent: Mapping[Stage, float]) -> None:
        """Count a cold request that was answered. Seconds."""
        self.cold += 1
        if len(self.latencies) < _MOST_LATENCIES:
            self.latencies.append(wait + answer)
        if len(self.parts["answer"]) < _MOST_PARTS:
            for stage in Stage:
                self.parts[stage.value].append(spent.get(stage, 0.0))
            self.parts["answer"].append(answer)


class Copy:
    """A loaded model. Its requests are drawn up to `seen`; `used` is the last of them.

    share: of the model's requests. busy_until: a caller waits for an answer until then.
    """

    __slots__ = ("busy_until", "model", "seen", "share", "used")

    def __init__(self, model: int, now: float, used: float) -> None:
        self.model, self.used, self.seen = model, used, now
        self.share, self.busy_until = 1.0, now


class SimulatedInstance:
    """The models on one instance, and its slots. Bytes, seconds."""

    def __init__(self, number: int, scenario: Scenario, cores: Cores) -> None:
        self.number, self.cores = number, cores
        self._demand, self._archives = scenario.demand, scenario.archives
        self.instance_spec, rules = scenario.instance_spec, scenario.rules
        self._threshold = rules.memory_threshold
        self.name = f"instance-{number:04d}"
        self.in_service, self.version = True, 0
        self.copies: dict[int, Copy] = {}
        #: Archives that are only on the disk: when each was used last; least recent first.
        self.on_disk: dict[int, float] = {}
        #: Memory of models that are loaded now or wait for room, in the order of asking.
        self.pending: dict[int, int] = {}
        #: Those that have their room, and the memory that running loads have taken.
        self.admitted: set[int] = set()
        self.loading: dict[int, int] = {}
        #: Models that leave: their memory, and when they have left.
        self.unloading: dict[int, tuple[int, float]] = {}
        #: Number of archives.
        self.downloading = 0
        self.used_memory, self.used_disk = self.instance_spec.base_memory, 0
        self.used_gpu_memory = self.instance_spec.base_gpu_memory
        self.download_slots = Slots(DOWNLOADS_AT_ONCE)
        self.disk_slot, self.eviction_slot = Slots(1), Slots(1)
        self.upcoming_slots = Slots(ROOM_AHEAD * rules.loads_at_once)
        self.load_slots = Slots(rules.loads_at_once)
        self._by_use: list[tuple[float, int]] = []

    @property
    def emptiness(self) -> tuple[float, int, str]:
        """The order in which the router takes instances, least first."""
        models = len(self.copies) + len(self.on_disk) + len(self.pending) + self.downloading
        limit = self.instance_spec.memory
        return (self.seen_memory / limit if limit else 0.0, models, self.name)

    @property
    def seen_memory(self) -> int:
        """Used memory, with the part that running loads have taken."""
        return self.used_memory + sum(self.loading.values())

    def add(self, copy: Copy, figures: ArchiveFigures) -> None:
        """Count a model as loaded."""
        self.copies[copy.model] = copy
        self.used_memory += figures.memory
        self.used_gpu_memory += figures.gpu_memory
        heapq.heappush(self._by_use, (copy.used, copy.model))

    def leave(self, figures: ArchiveFigures) -> None:
        """Free the memory of a model."""
        self.used_memory -= figures.memory
        self.used_gpu_memory -= figures.gpu_memory

    @property
    def has_others(self) -> bool:
        """Whether the instance holds, loads or unloads any model."""
        return bool(
            self.copies or self.on_disk or self.pending or self.unloading or self.downloading
        )

    # -- room

    def lacks(self, figures: ArchiveFigures) -> bool:
        """Whether the container has too little free memory for the model now."""
        memory, gpu = self.instance_spec.hard_memory, self.instance_spec.gpu_memory
        return (memory is not None and self.used_memory + figures.memory > memory) or (
            gpu is not None and self.used_gpu_memory + figures.gpu_memory > gpu
        )

    def could_hold(self, figures: ArchiveFigures) -> bool:
        """Whether the model would fit alone."""
        instance_spec = self.instance_spec
        memory, gpu = instance_spec.hard_memory, instance_spec.gpu_memory
        return (memory is None or instance_spec.base_memory + figures.memory <= memory) and (
            gpu is None or instance_spec.base_gpu_memory + figures.gpu_memory <= gpu
        )

    def memory_turn(self, model: int, now: float) -> MemoryTurn | None:
        """The state before a load, for decide_memory; None without a limit."""
        limit = self.instance_spec.memory
        if limit is None:
            return None
        before = list(self.pending)
        own = before.index(model)
        others = [
            self.pending[other]
            for index, other in enumerate(before)
            if index < own or (other in self.admitted and other != model)
        ]
        turn = MemoryTurn(
            self._leaving(),
            self.pending[model],
            others,
            self.seen_memory,
            limit,
            self._threshold,
        )
        lack = self.seen_memory + self.pending[model] + sum(others) - int(limit * self._threshold)
        lack -= sum(memory for memory, _ in self.unloading.values())
        if lack <= 0:
            return turn
        return replace(turn, held=[*turn.held, *self._idle(now, lack)])

    def next_left(self, now: float) -> float:
        """Seconds until the next model has left; 0.0 if none leaves."""
        return max(0.0, min((at for _, at in self.unloading.values()), default=now) - now)

    def next_idle(self, now: float) -> float | None:
        """Seconds until the next busy model is idle; None if none is busy."""
        busy = [copy.busy_until for copy in self.copies.values() if copy.busy_until > now]
        return min(busy) - now if busy else None

    def eviction_turn(self, model: int, now: float, over: bool) -> EvictionTurn:
        """The state before an eviction, for decide_eviction.

        Loaded models are listed up to the least recently used idle one, which would be chosen.
        """
        held = list[HeldModel]()
        for loaded in self.least_recent(now):
            held.append(loaded)
            if not loaded.wanted:
                break
        held += self._leaving()
        held += [
            HeldModel(self._archives[other].name, ModelState.LOADING, True, now, memory, 0)
            for other, memory in self.pending.items()
        ]
        return EvictionTurn(held, (self._archives[model].name,), False, over)

    def oldest_on_disk(self) -> list[HeldModel]:
        """The least recently used archive that is only on the disk, if there is one."""
        if not self.on_disk:
            return []
        model = min(self.on_disk, key=self.on_disk.__getitem__)
        figures, used = self._archives[model], self.on_disk[model]
        return [HeldModel(figures.name, ModelState.ON_DISK, False, used, None, figures.disk)]

    def _leaving(self) -> list[HeldModel]:
        return [
            HeldModel(self._archives[leaving].name, ModelState.UNLOADING, False, 0.0, memory, 0)
            for leaving, (memory, _) in self.unloading.items()
        ]

    def _idle(self, now: float, lack: int) -> Iterator[HeldModel]:
        """The least recently used models, until the idle ones of them free so many bytes."""
        for held in self.least_recent(now):
            yield held
            if not held.wanted:
                lack -= held.memory or 0
            if lack <= 0:
                return

    def least_recent(self, now: float) -> Iterator[HeldModel]:
        """Loaded models, the least recently used first.

        A model's last use in the heap is a lower bound: it is drawn when the model is on top.
        """
        heap, taken = self._by_use, []
        try:
            while heap:
                used, model = heap[0]
                copy = self.copies.get(model)
                if copy is None or copy.used != used:
                    heapq.heappop(heap)  # it left, was loaded again, or its last use was drawn
                    continue
                if copy.seen < now:
                    last = self._demand.find_last(model, copy.seen, now, copy.share)
                    copy.seen = now
                    if last is not None:
                        copy.used = last
                        heapq.heapreplace(heap, (last, model))
                        continue
                taken.append(heapq.heappop(heap))
                wanted = copy.busy_until > now
                figures = self._archives[model]
                yield HeldModel(
                    figures.name, ModelState.LOADED, wanted, used, figures.memory, figures.disk
                )
        finally:
            for entry in taken:
                heapq.heappush(heap, entry)
