"""Instances of a simulated endpoint, what happens to them, and the counts of it."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count as count_up

from merlin_simulator.instance.decisions import EvictionTurn, HeldModel, MemoryTurn, Stage
from merlin_simulator.instance.holdings import DOWNLOADS_AT_ONCE, SOON
from merlin_simulator.planning.demand import Figures, Setting
from merlin_simulator.watch.events import COLD_PARTS
from merlin_simulator.watch.state import ModelState

#: Cold requests whose latencies are kept one by one, and those whose parts are.
_MOST_LATENCIES, _MOST_PARTS = 2_000_000, 200_000


@dataclass
class Counts:
    """What happened until now. latencies: seconds of cold requests that were answered in time, and
    parts: what they were spent on, by the names that events have for it.

    not_ready: callers who gave up before it was there; no_memory: those whose model the container
    refused in the end; no_disk: those whose archive found no place, which happened disk_gave_up
    times. evictions_507: those of evictions that the container's refusals made.
    """

    cold: int = 0
    loads: int = 0
    evictions: int = 0
    evictions_507: int = 0
    not_ready: int = 0
    no_memory: int = 0
    without_instance: int = 0
    copies: int = 0
    disk_gave_up: int = 0
    no_disk: int = 0
    latencies: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in COLD_PARTS})

    @property
    def failed(self) -> int:
        """Requests that were told of a failure instead of an answer."""
        return self.not_ready + self.no_memory + self.no_disk + self.without_instance

    def note(self, wait: float, answer: float, spent: Mapping[Stage, float]) -> None:
        """A cold request was answered. Seconds."""
        self.cold += 1
        if len(self.latencies) < _MOST_LATENCIES:
            self.latencies.append(wait + answer)
        if len(self.parts["answer"]) < _MOST_PARTS:
            for stage in Stage:
                self.parts[stage.value].append(spent.get(stage, 0.0))
            self.parts["answer"].append(answer)


class Places:
    """So many at a time; the others wait in the order in which they came."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.waiting: deque[Work] = deque()


class Cores:
    """Shared alike by all that work on them: with more work than cores each goes on slower."""

    def __init__(self, happening: Happening, count: float) -> None:
        self._happening, self._count = happening, count
        self._busy = self._done = self._at = 0.0
        #: Until now: cores times seconds that were wanted, and that were had.
        self.wanted_s = self.worked_s = 0.0
        #: When each is done, in seconds of work; all go on at the same speed.
        self._ends: list[tuple[float, int, float, Work]] = []
        self._numbers, self._version = count_up(), 0

    def begin(self, toil: Toil, work: Work) -> None:
        """The work goes on when this much is done."""
        self.advance()
        self._busy += toil.cores
        end = self._done + toil.seconds
        heapq.heappush(self._ends, (end, next(self._numbers), toil.cores, work))
        self._expect()

    @property
    def _speed(self) -> float:
        return min(1.0, self._count / self._busy) if self._busy > 0.0 else 1.0

    def advance(self) -> None:
        """What was done until now is known."""
        now = self._happening.now
        self._done += (now - self._at) * self._speed
        self.wanted_s += (now - self._at) * self._busy
        self.worked_s += (now - self._at) * min(self._busy, self._count)
        self._at = now

    def _expect(self) -> None:
        self._version += 1
        if not self._ends:
            return
        version, end = self._version, self._ends[0][0]
        left = max(0.0, end - self._done) / self._speed

        def due() -> None:
            if version == self._version:
                self.advance()
                self._done = end
                self._end()

        self._happening.at(self._happening.now + left, due)

    def _end(self) -> None:
        _, _, cores, work = heapq.heappop(self._ends)
        self._busy = max(0.0, self._busy - cores) if self._ends else 0.0
        self._happening.go_on(work)
        self._expect()


@dataclass(frozen=True)
class Toil:
    """Work on cores: so many seconds where nobody else needs them."""

    on: Cores
    seconds: float
    cores: float


#: Work is a generator: it yields seconds to wait, the places that it needs one of, or toil.
Work = Generator["float | Places | Toil", None, None]


class Happening:
    """The clock and what is to come. Seconds since the start."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count_up()

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Do it then; of what is due at one time, the first that was asked for comes first."""
        heapq.heappush(self._heap, (when, next(self._numbers), do))

    def give_back(self, places: Places) -> None:
        """A place is free again: who waits longest goes on, at this moment."""
        if places.waiting:
            work = places.waiting.popleft()
            self.at(self.now, lambda: self.go_on(work))
        else:
            places.free += 1

    def run(self, until: float) -> None:
        """Everything that is due before then."""
        heap = self._heap
        while heap and heap[0][0] < until:
            self.now, _, do = heapq.heappop(heap)
            do()
        self.now = until

    def go_on(self, work: Work) -> None:
        """Until it waits again, or is done."""
        for wish in work:
            if isinstance(wish, Places):
                if wish.free:
                    wish.free -= 1
                    continue
                wish.waiting.append(work)
                return
            if isinstance(wish, Toil):
                wish.on.begin(wish, work)
                return
            self.at(self.now + wish, lambda: self.go_on(work))
            return


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

    def __init__(self, number: int, setting: Setting, cores: Cores) -> None:
        self.number, self.cores = number, cores
        self._demand, self._archives = setting.demand, setting.archives
        self.machine, rules = setting.machine, setting.rules
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
        self.used_memory, self.used_disk = self.machine.base_memory, 0
        self.used_gpu_memory = self.machine.base_gpu_memory
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

    def memory_turn(self, model: int, now: float) -> MemoryTurn | None:
        """What is decided on before a load; None where the platform looks at no limit."""
        limit = self.machine.memory
        if limit is None:
            return None
        before = list(self.coming)
        mine = before.index(model)
        others = [
            self.coming[other]
            for place, other in enumerate(before)
            if place < mine or (other in self.admitted and other != model)
        ]
        turn = MemoryTurn(
            self._leaving(),
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
        return replace(turn, held=[*turn.held, *self._idle(now, lack)])

    def next_left(self, now: float) -> float:
        """Seconds until one of those that leave has left; 0.0 where none does."""
        return max(0.0, min((at for _, at in self.unloading.values()), default=now) - now)

    def next_idle(self, now: float) -> float | None:
        """Seconds until one of those that somebody waits for is idle; None without one."""
        busy = [copy.busy_until for copy in self.copies.values() if copy.busy_until > now]
        return min(busy) - now if busy else None

    def eviction_turn(self, model: int, now: float, over: bool) -> EvictionTurn:
        """What is decided on when another one has to leave for a model: all that it is about.

        Of loaded models those up to the least recently used one that nobody wants.
        """
        held = list[HeldModel]()
        for loaded in self.least_recent(now):
            held.append(loaded)
            if not loaded.wanted:
                break
        held += self._leaving()
        held += [
            HeldModel(self._archives[other].name, ModelState.LOADING, True, now, memory, 0)
            for other, memory in self.coming.items()
        ]
        return EvictionTurn(held, (self._archives[model].name,), False, over)

    def oldest_on_disk(self) -> list[HeldModel]:
        """The least recently used of those that are only on the disk, if there is one."""
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
        """The least recently used, as many as can be chosen for so many bytes."""
        for held in self.least_recent(now):
            yield held
            if not held.wanted:
                lack -= held.memory or 0
            if lack <= 0:
                return

    def least_recent(self, now: float) -> Iterator[HeldModel]:
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
                    last = self._demand.last_between(model, copy.seen, now, copy.share)
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
