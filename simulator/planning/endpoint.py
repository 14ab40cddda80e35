"""The endpoint of a plan: models come to instances and leave them, by the simulator's decisions.

Only what changes something is an event: a request of a model that is not loaded, a load, an
unload, an instance that comes or goes. What the platform decides is decided by the functions that
the simulator's endpoints run by: `route`, `decide_memory`, `decide_disk`. They are handed those
candidates that can win, which is found by heaps, not all that there are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator.instance.decisions import (
    Delete,
    DiskTurn,
    MemoryTurn,
    Step,
    UnloadAll,
    decide_disk,
    decide_memory,
)
from simulator.instance.eviction import HeldModel
from simulator.planning.archives import Figures, Machine
from simulator.planning.demand import NEVER, Demand
from simulator.planning.happening import Happening, Work
from simulator.planning.instances import Copy, PlannedInstance
from simulator.routing import Candidate, route
from simulator.rules import CacheSetting, Rules
from simulator.watch.view import ModelState

#: Cold waits that are kept one by one; of more, every so manieth.
_MOST_WAITS = 2_000_000
#: A model whose requests overlap less than this is never asked for by four at once.
_LEAST_BUSY = 0.02


@dataclass
class Counts:
    """What happened until now. waits: seconds that cold requests waited for their model."""

    cold: int = 0
    loads: int = 0
    evictions: int = 0
    not_ready: int = 0
    without_instance: int = 0
    copies: int = 0
    disk_gave_up: int = 0
    waits: list[float] = field(default_factory=list)


class PlannedEndpoint:
    """Archives by number, the same as the demand's models."""

    def __init__(
        self,
        happening: Happening,
        demand: Demand,
        archives: Sequence[Figures],
        machine: Machine,
        rules: Rules,
        count: int,
    ) -> None:
        self._happening, self._demand, self.archives = happening, demand, list(archives)
        self.machine, self._rules = machine, rules
        self._numbers = {figures.name: number for number, figures in enumerate(self.archives)}
        self.instances: list[PlannedInstance] = []
        self.counts = Counts()
        self._holders: list[list[PlannedInstance]] = [[] for _ in self.archives]
        #: Of models that come: where, and since when somebody waits.
        self._coming: dict[int, tuple[PlannedInstance, float]] = {}
        self._stamps = [0] * len(self.archives)
        #: One entry of each instance counts, that of its newest version.
        self._by_emptiness: list[tuple[tuple[float, int, str], int, PlannedInstance]] = []
        self._by_name: dict[str, PlannedInstance] = {}
        self._made = 0
        for _ in range(count):
            self.add_instance()
        for model in range(len(self.archives)):
            self._expect(model, 0.0)

    # -- instances

    def add_instance(self) -> None:
        """One more is in service."""
        self._made += 1
        instance = PlannedInstance(self._made, self.machine, self._rules)
        self.instances.append(instance)
        self._by_name[instance.name] = instance
        self._touch(instance)

    def remove_youngest(self) -> None:
        """It is asked nothing any more; what only it had is loaded elsewhere when it is asked."""
        instance = self.instances.pop()
        instance.in_service = False
        del self._by_name[instance.name]
        for model in list(instance.copies):
            self._lose(instance, model)
        for model, (where, since) in list(self._coming.items()):
            if where is instance:
                del self._coming[model]
                self._ask(model, since)

    # -- requests of models that are not loaded

    def _expect(self, model: int, now: float) -> None:
        """The model is nowhere: its next request is an event."""
        self._stamps[model] += 1
        stamp = self._stamps[model]
        when = self._demand.next_after(model, now)
        if when < NEVER:
            self._happening.at(when, lambda: self._missed(model, stamp))

    def _missed(self, model: int, stamp: int) -> None:
        if self._stamps[model] == stamp and not self._holders[model] and model not in self._coming:
            self._ask(model, self._happening.now)

    def _ask(self, model: int, since: float) -> None:
        """Somebody waits for it since then."""
        instance = self._emptiest()
        chosen = route([] if instance is None else [_candidate(instance)], self._rules.busy_at)
        if chosen is None:
            self.counts.without_instance += 1
            self._expect(model, self._happening.now)
            return
        self._bring(model, self._by_name[chosen.name], since)

    def _bring(self, model: int, instance: PlannedInstance, since: float) -> None:
        self._coming[model] = (instance, since)
        self._happening.start(self._brought(model, instance))

    # -- models come

    def _brought(self, model: int, instance: PlannedInstance) -> Work:
        figures, happening = self.archives[model], self._happening
        if model in instance.on_disk:
            del instance.on_disk[model]
        else:
            yield instance.downloads
            yield figures.download_s
            happening.give_back(instance.downloads)
            instance.used_disk += figures.disk
            if not self._made_disk_room(model, instance):
                instance.used_disk -= figures.disk
                self._given_up(model, instance)
                return
        yield instance.soon
        instance.coming[model] = figures.memory
        self._touch(instance)
        yield from self._made_room(model, instance)
        yield instance.loads
        instance.loading += 1
        busy = max(1.0, instance.loading * figures.load_cores / instance.machine.cores)
        yield figures.load_s * busy
        instance.loading -= 1
        instance.load_cores_s += figures.load_s * figures.load_cores
        happening.give_back(instance.loads)
        happening.give_back(instance.soon)
        del instance.coming[model]
        if instance.in_service:
            self._loaded(model, instance)

    def _made_room(self, model: int, instance: PlannedInstance) -> Work:
        """As many leave as are needed; with all in use the container has the last word."""
        for _ in range(self._rules.evictions_per_call):
            step = decide_memory(self._memory_turn(model, instance))
            if isinstance(step, UnloadAll):
                longest = 0.0
                for name in step.target_models:
                    longest = max(longest, self._evict(instance, self._numbers[name]))
                yield longest
            elif step is Step.WAIT:
                yield max((self.archives[one].unload_s for one in instance.unloading), default=0.0)
            else:
                return

    def _memory_turn(self, model: int, instance: PlannedInstance) -> MemoryTurn:
        before = list(instance.coming)
        others = [instance.coming[one] for one in before[: before.index(model)]]
        turn = MemoryTurn(
            self._leaving(instance),
            instance.coming[model],
            others,
            instance.used_memory,
            instance.machine.memory,
            self._rules.memory_threshold,
        )
        limit = int(instance.machine.memory * self._rules.memory_threshold)
        lack = instance.used_memory + instance.coming[model] + sum(others) - limit
        lack -= sum(instance.unloading.values())
        if lack <= 0:
            return turn
        held = [*turn.held, *self._idle(instance, lack)]
        return MemoryTurn(held, turn.needed, others, turn.used, turn.limit, turn.threshold)

    def _leaving(self, instance: PlannedInstance) -> list[HeldModel]:
        return [
            HeldModel(self.archives[one].name, ModelState.UNLOADING, False, 0.0, memory, 0)
            for one, memory in instance.unloading.items()
        ]

    def _idle(self, instance: PlannedInstance, lack: int) -> Iterator[HeldModel]:
        """The least recently used, as many as can be chosen for so many bytes."""
        for held in instance.least_recent(self._happening.now, self._demand, self.archives):
            yield held
            if not held.wanted:
                lack -= held.memory or 0
            if lack <= 0:
                return

    def _loaded(self, model: int, instance: PlannedInstance) -> None:
        now, figures = self._happening.now, self.archives[model]
        self.counts.loads += 1
        coming = self._coming.get(model)
        instance.add(Copy(model, now, now + figures.service_s), figures.memory)
        self._holders[model].append(instance)
        if coming is not None and coming[0] is instance:
            del self._coming[model]
            self._answer_waiting(model, coming[1])
        self._share_out(model)
        self._touch(instance)
        if self._rules.cache is CacheSetting.DISABLED:
            self._leave_when_idle(model, instance)
        else:
            self._watch_busy(model)

    def _answer_waiting(self, model: int, since: float) -> None:
        now, counts = self._happening.now, self.counts
        later = self._demand.times_between(model, since, now)
        waits = np.concatenate(([now - since], now - later))
        in_time = waits[waits <= self._rules.cold_wait_s]
        counts.cold += len(in_time)
        counts.not_ready += len(waits) - len(in_time)
        if len(counts.waits) < _MOST_WAITS:
            counts.waits += in_time.tolist()

    def _given_up(self, model: int, instance: PlannedInstance) -> None:
        """Its archive found no place: those who wait are told so; for a copy nobody waits."""
        self.counts.disk_gave_up += 1
        coming = self._coming.get(model)
        if coming is not None and coming[0] is instance:
            del self._coming[model]
            self._expect(model, self._happening.now)

    # -- models leave

    def _evict(self, instance: PlannedInstance, model: int, *, from_disk: bool = False) -> float:
        """It leaves for another one; how long that takes."""
        self.counts.evictions += 1
        return self._unload(instance, model, from_disk)

    def _unload(self, instance: PlannedInstance, model: int, from_disk: bool) -> float:
        """It begins to leave; how long that takes. from_disk: its archive goes, too, at once."""
        figures = self.archives[model]
        used = instance.copies[model].used
        self._lose(instance, model)
        instance.unloading[model] = figures.memory
        if from_disk:
            instance.used_disk -= figures.disk

        def left() -> None:
            instance.used_memory -= figures.memory
            instance.unloading.pop(model, None)
            if not from_disk:
                instance.on_disk[model] = used
            self._touch(instance)

        self._happening.at(self._happening.now + figures.unload_s, left)
        return figures.unload_s

    def _lose(self, instance: PlannedInstance, model: int) -> None:
        """It answers nothing any more there."""
        del instance.copies[model]
        self._holders[model].remove(instance)
        self._share_out(model)
        if not self._holders[model] and model not in self._coming:
            self._expect(model, self._happening.now)

    def _made_disk_room(self, model: int, instance: PlannedInstance) -> bool:
        """Whether the archive has its place, after others lost theirs."""
        budget = instance.machine.disk
        if budget is None:
            return True
        while True:
            held = [self._oldest_on_disk(instance)] if instance.on_disk else []
            needed = self.archives[model].disk
            name = self.archives[model].name
            step = decide_disk(DiskTurn(held, name, needed, instance.used_disk, budget))
            if isinstance(step, Delete):
                deleted = self._numbers[step.target_model]
                del instance.on_disk[deleted]
                instance.used_disk -= self.archives[deleted].disk
                continue
            if step is Step.EVICT:
                oldest = next(self._idle(instance, 1), None)
                if oldest is None or oldest.wanted:
                    return False
                self._evict(instance, self._numbers[oldest.target_model], from_disk=True)
                continue
            return step is Step.DONE

    def _oldest_on_disk(self, instance: PlannedInstance) -> HeldModel:
        model = min(instance.on_disk, key=instance.on_disk.__getitem__)
        figures, used = self.archives[model], instance.on_disk[model]
        return HeldModel(figures.name, ModelState.ON_DISK, False, used, None, figures.disk)

    def _leave_when_idle(self, model: int, instance: PlannedInstance) -> None:
        """ModelCacheSetting Disabled: it stays while one request overlaps the next."""
        service = self.archives[model].service_s
        since = self._happening.now

        def look() -> None:
            if model not in instance.copies:
                return
            now = self._happening.now
            later = self._demand.times_between(model, now - service, now)
            if len(later) and now > since + service:
                self._happening.at(float(later[-1]) + service, look)
                return
            self._unload(instance, model, from_disk=True)

        self._happening.at(since + service, look)

    # -- copies of what is busy

    def _share_out(self, model: int) -> None:
        """Requests go to the copy with the fewest of them: while all but few are idle, the first.

        So the copy j of k gets those that find a number of others in flight that is j modulo k.
        """
        holders = self._holders[model]
        if len(holders) < 2:
            for instance in holders:
                instance.copies[model].share = 1.0
            return
        found = _poisson_shares(self._busy(model), len(holders))
        for instance, share in zip(holders, found, strict=True):
            instance.copies[model].share = share

    def _busy(self, model: int) -> float:
        """Requests of it that are in flight on average."""
        rate = self._demand.rate(model, self._happening.now)
        return rate * self.archives[model].service_s

    def _watch_busy(self, model: int) -> None:
        """When so many of its requests are in flight everywhere that another instance loads it."""
        busy, copies = self._busy(model), len(self._holders[model])
        if busy < _LEAST_BUSY or copies >= len(self.instances):
            return
        below = self._rules.busy_at * copies - 1
        rate = busy / self.archives[model].service_s * _poisson(below, busy)
        if rate <= 0.0:
            return
        gap = float(np.random.default_rng((model, copies, self.counts.loads)).exponential(1 / rate))
        stamp = self._stamps[model]

        def overflow() -> None:
            if self._stamps[model] == stamp and len(self._holders[model]) == copies:
                self._copy(model)

        self._happening.at(self._happening.now + gap, overflow)

    def _copy(self, model: int) -> None:
        if model in self._coming:
            return
        instance = self._emptiest(without=self._holders[model])
        if instance is not None:
            self.counts.copies += 1
            self._happening.start(self._brought(model, instance))

    # -- the router's view

    def _touch(self, instance: PlannedInstance) -> None:
        instance.version += 1
        heapq.heappush(self._by_emptiness, (instance.emptiness, instance.version, instance))

    def _emptiest(self, without: Sequence[PlannedInstance] = ()) -> PlannedInstance | None:
        """The one that the router's order has first."""
        heap, spared, found = self._by_emptiness, [], None
        while heap:
            _, version, instance = heap[0]
            if not instance.in_service or version != instance.version:
                heapq.heappop(heap)
            elif instance in without:
                spared.append(heapq.heappop(heap))
            else:
                found = instance
                break
        for entry in spared:
            heapq.heappush(heap, entry)
        return found


def _candidate(instance: PlannedInstance) -> Candidate:
    memory, models, name = instance.emptiness
    return Candidate(
        name,
        loaded=False,
        coming=False,
        model_in_flight=0,
        in_flight=0,
        models=models,
        memory=memory,
    )


def _poisson(number: int, mean: float) -> float:
    """The probability of a number."""
    if mean <= 0.0:
        return 1.0 if number == 0 else 0.0
    return math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))


def _poisson_shares(mean: float, parts: int) -> list[float]:
    """The probability that a Poisson number is 0, 1, … modulo parts."""
    most = int(mean + 10 * math.sqrt(mean + 1)) + parts
    shares = [0.0] * parts
    for number in range(most + 1):
        shares[number % parts] += _poisson(number, mean)
    return shares
