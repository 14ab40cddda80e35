"""One instance of a plan: which models it has, in memory and on the disk."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace

from merlin_simulator.instance.decisions import EvictionTurn, HeldModel, MemoryTurn
from merlin_simulator.instance.holdings import DOWNLOADS_AT_ONCE, SOON
from merlin_simulator.planning.archives import Figures, Machine
from merlin_simulator.planning.demand import Demand
from merlin_simulator.planning.happening import Cores, Places
from merlin_simulator.rules import Rules
from merlin_simulator.watch.state import ModelState


class Copy:
    """A model that is loaded. Nothing is known of its requests after `seen`; `used`: the last
    that is known of. share: of the model's requests. busy_until: somebody waits for it until then.
    """

    __slots__ = ("busy_until", "model", "seen", "share", "used")

    def __init__(self, model: int, now: float, used: float) -> None:
        self.model, self.used, self.seen = model, used, now
        self.share, self.busy_until = 1.0, now


class PlannedInstance:
    """Bytes, seconds. rate and work: of the models that it has, requests a second and the seconds
    that they take, at the demand's mean."""

    def __init__(self, number: int, machine: Machine, rules: Rules, cores: Cores) -> None:
        self.number, self.machine, self.cores = number, machine, cores
        self._threshold = rules.memory_threshold
        self.name = f"instance-{number:04d}"
        self.in_service, self.version = True, 0
        self.copies: dict[int, Copy] = {}
        #: Archives that are only on the disk, and when each was used last; least recent first.
        self.on_disk: dict[int, float] = {}
        #: Memory of models that come, in the order in which they asked for room; and that leave.
        self.coming: dict[int, int] = {}
        #: Those of them that have their room, and what those have taken of it that are loaded now.
        self.admitted: set[int] = set()
        self.loading: dict[int, int] = {}
        #: Memory of models that leave, and when they have left.
        self.unloading: dict[int, tuple[int, float]] = {}
        #: Archives that are being fetched.
        self.fetching = 0
        self.used_memory, self.used_disk = machine.base_memory, 0
        self.used_gpu_memory = machine.base_gpu_memory
        self.downloads = Places(DOWNLOADS_AT_ONCE)
        self.disk_turns, self.room_turn = Places(1), Places(1)
        self.soon = Places(SOON * rules.loads_at_once)
        self.loads = Places(rules.loads_at_once)
        self._by_use: list[tuple[float, int]] = []

    @property
    def emptiness(self) -> tuple[float, int, str]:
        """What the router sees of it."""
        models = len(self.copies) + len(self.on_disk) + len(self.coming) + self.fetching
        limit = self.machine.memory
        return (self.seen_memory / limit if limit else 0.0, models, self.name)

    @property
    def seen_memory(self) -> int:
        """As it is read: models that are loaded now are there in part."""
        return self.used_memory + sum(self.loading.values())

    def add(self, copy: Copy, figures: Figures) -> None:
        """A model is loaded."""
        self.copies[copy.model] = copy
        self.used_memory += figures.memory
        self.used_gpu_memory += figures.gpu_memory
        heapq.heappush(self._by_use, (copy.used, copy.model))

    def leave(self, figures: Figures) -> None:
        """A model has left the memory."""
        self.used_memory -= figures.memory
        self.used_gpu_memory -= figures.gpu_memory

    @property
    def has_others(self) -> bool:
        """Whether there is any model here, beside one that is not counted any more."""
        return bool(self.copies or self.on_disk or self.coming or self.unloading or self.fetching)

    # -- room

    def lacks(self, figures: Figures) -> bool:
        """Whether the container has no memory for it now, with what it has."""
        memory, gpu = self.machine.hard_memory, self.machine.gpu_memory
        return (memory is not None and self.used_memory + figures.memory > memory) or (
            gpu is not None and self.used_gpu_memory + figures.gpu_memory > gpu
        )

    def could_hold(self, figures: Figures) -> bool:
        """Whether there was memory for it if it were alone."""
        machine = self.machine
        memory, gpu = machine.hard_memory, machine.gpu_memory
        return (memory is None or machine.base_memory + figures.memory <= memory) and (
            gpu is None or machine.base_gpu_memory + figures.gpu_memory <= gpu
        )

    def memory_turn(
        self, model: int, now: float, demand: Demand, archives: Sequence[Figures]
    ) -> MemoryTurn | None:
        """What is decided on before a load; None where the platform looks at no limit."""
        limit = self.machine.memory
        if limit is None:
            return None
        before = list(self.coming)
        mine = before.index(model)
        others = [
            self.coming[one]
            for place, one in enumerate(before)
            if place < mine or (one in self.admitted and one != model)
        ]
        turn = MemoryTurn(
            self._leaving(archives),
            self.coming[model],
            others,
            self.seen_memory,
            limit,
            self._threshold,
        )
        lack = self.seen_memory + self.coming[model] + sum(others) - int(limit * self._threshold)
        lack -= sum(memory for memory, _ in self.unloading.values())
        if lack <= 0:
            return turn
        return replace(turn, held=[*turn.held, *self._idle(now, lack, demand, archives)])

    def next_left(self, now: float) -> float:
        """Seconds until one of those that leave has left; 0.0 where none does."""
        return max(0.0, min((at for _, at in self.unloading.values()), default=now) - now)

    def next_idle(self, now: float) -> float | None:
        """Seconds until one of those that somebody waits for is idle; None without one."""
        busy = [copy.busy_until for copy in self.copies.values() if copy.busy_until > now]
        return min(busy) - now if busy else None

    def eviction_turn(
        self, model: int, now: float, over: bool, demand: Demand, archives: Sequence[Figures]
    ) -> EvictionTurn:
        """What is decided on when another one has to leave for a model: all that it is about.

        Of loaded models those up to the least recently used one that nobody wants.
        """
        held = list[HeldModel]()
        for one in self.least_recent(now, demand, archives):
            held.append(one)
            if not one.wanted:
                break
        held += self._leaving(archives)
        held += [
            HeldModel(archives[one].name, ModelState.LOADING, True, now, memory, 0)
            for one, memory in self.coming.items()
        ]
        return EvictionTurn(held, (archives[model].name,), False, over)

    def oldest_on_disk(self, archives: Sequence[Figures]) -> list[HeldModel]:
        """The least recently used of those that are only on the disk, if there is one."""
        if not self.on_disk:
            return []
        model = min(self.on_disk, key=self.on_disk.__getitem__)
        figures, used = archives[model], self.on_disk[model]
        return [HeldModel(figures.name, ModelState.ON_DISK, False, used, None, figures.disk)]

    def _leaving(self, archives: Sequence[Figures]) -> list[HeldModel]:
        return [
            HeldModel(archives[one].name, ModelState.UNLOADING, False, 0.0, memory, 0)
            for one, (memory, _) in self.unloading.items()
        ]

    def _idle(
        self, now: float, lack: int, demand: Demand, archives: Sequence[Figures]
    ) -> Iterator[HeldModel]:
        """The least recently used, as many as can be chosen for so many bytes."""
        for held in self.least_recent(now, demand, archives):
            yield held
            if not held.wanted:
                lack -= held.memory or 0
            if lack <= 0:
                return

    def least_recent(
        self, now: float, demand: Demand, archives: Sequence[Figures]
    ) -> Iterator[HeldModel]:
        """Loaded models from the least recently used on, as far as they are taken.

        A model's last use is found out when it is its turn. It is a lower bound before.
        """
        heap, taken = self._by_use, []
        try:
            while heap:
                used, model = heap[0]
                copy = self.copies.get(model)
                if copy is None or copy.used != used:
                    heapq.heappop(heap)  # it left, or came again, or was looked at since
                    continue
                if copy.seen < now:
                    last = demand.last_between(model, copy.seen, now, copy.share)
                    copy.seen = now
                    if last is not None:
                        copy.used = last
                        heapq.heapreplace(heap, (last, model))
                        continue
                taken.append(heapq.heappop(heap))
                wanted = copy.busy_until > now
                figures = archives[model]
                yield HeldModel(
                    figures.name, ModelState.LOADED, wanted, used, figures.memory, figures.disk
                )
        finally:
            for entry in taken:
                heapq.heappush(heap, entry)
