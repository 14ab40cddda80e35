"""The endpoint of a plan: models come to instances and leave them, by the simulator's decisions.

Only what changes something is an event: a request of a model that is not loaded, a load, an
unload, an instance that comes or goes. What the platform decides is decided by the functions that
the simulator's endpoints run by: `route`, `decide_memory`, `decide_disk`. They are handed those
candidates that can win, which is found by heaps, not all that there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simulator.instance.course import Course, Stage
from simulator.instance.decisions import (
    Delete,
    DiskTurn,
    Step,
    UnloadAll,
    decide_disk,
    decide_memory,
)
from simulator.planning.archives import Figures, Machine
from simulator.planning.chance import Chance, poisson, poisson_shares
from simulator.planning.demand import NEVER, Demand
from simulator.planning.happening import Cores, Happening, Places, Toil, Work
from simulator.planning.instances import Copy, PlannedInstance
from simulator.routing import Candidate, route
from simulator.rules import CacheSetting, Rules
from simulator.watch.events import COLD_PARTS

#: Cold requests whose latencies are kept one by one, and those whose parts are.
_MOST_LATENCIES, _MOST_PARTS = 2_000_000, 200_000
#: A model whose requests overlap less than this is never asked for by four at once.
_LEAST_BUSY = 0.02
#: As memory_room has it: a wish for room waits so long for a model in use to become idle.
_WISH_S = 0.5
#: Between two looks of a load that the container refused whether a model in use is idle.
_REFUSED_AGAIN_S = 1.0


@dataclass
class Counts:
    """What happened until now. latencies: seconds of cold requests that were answered in time, and
    parts: what they were spent on, by the names that events have for it.

    not_ready: callers who gave up before it was there; no_memory: those whose model the container
    refused in the end. evictions_507: those of evictions that the container's refusals made.
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
    latencies: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in COLD_PARTS})


@dataclass(frozen=True)
class Coming:
    """A model on its way to an instance. since: when it was first asked for."""

    instance: PlannedInstance
    since: float
    course: Course


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
        seed: int = 1,
    ) -> None:
        self._happening, self._demand, self.archives = happening, demand, list(archives)
        self._chance = Chance(seed)
        self._host = Cores(happening, machine.cores) if machine.one_host else None
        self.machine, self._rules = machine, rules
        self._numbers = {figures.name: number for number, figures in enumerate(self.archives)}
        self.instances: list[PlannedInstance] = []
        self.counts = Counts()
        self._holders: list[list[PlannedInstance]] = [[] for _ in self.archives]
        #: Of models that come: where, since when somebody waits, and what for.
        self._coming: dict[int, Coming] = {}
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
        cores = self._host or Cores(self._happening, self.machine.cores)
        instance = PlannedInstance(self._made, self.machine, self._rules, cores)
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
        for model, coming in list(self._coming.items()):
            if coming.instance is instance:
                del self._coming[model]
                self._ask(model, coming.since)

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
        course = Course(lambda: self._happening.now)
        self._coming[model] = Coming(instance, since, course)
        self._happening.start(self._brought(model, instance, course))

    # -- models come

    def _brought(self, model: int, instance: PlannedInstance, course: Course) -> Work:
        figures, happening = self.archives[model], self._happening
        if model in instance.on_disk:
            del instance.on_disk[model]
        else:
            instance.fetching += 1
            self._touch(instance)
            yield instance.downloads
            course.enter(Stage.DOWNLOAD)
            yield self._chance.draw(figures.downloads)
            happening.give_back(instance.downloads)
            course.enter(Stage.TURN)
            instance.fetching -= 1
            instance.used_disk += figures.disk
            if not self._made_disk_room(model, instance):
                instance.used_disk -= figures.disk
                self.counts.disk_gave_up += 1
                self._given_up(model, instance)
                return
        yield instance.soon
        instance.coming[model] = figures.memory
        self._touch(instance)
        course.enter(Stage.ROOM)
        yield from self._made_room(model, instance)
        course.enter(Stage.TURN)
        yield instance.loads
        course.enter(Stage.LOAD)
        yield from self._load(model, instance)
        happening.give_back(instance.loads)
        refused = instance.lacks(figures) and not (
            yield from self._loaded_after_507(model, instance)
        )
        happening.give_back(instance.soon)
        del instance.coming[model]
        if refused:
            instance.on_disk[model] = happening.now
            self._refused(model, instance)
        elif instance.in_service:
            self._loaded(model, instance)

    def _load(self, model: int, instance: PlannedInstance) -> Work:
        figures = self.archives[model]
        seconds = self._chance.draw(figures.loads)
        yield Toil(instance.cores, seconds, figures.load_cores)
        instance.load_cores_s += seconds * figures.load_cores

    def _loaded_after_507(
        self, model: int, instance: PlannedInstance
    ) -> Generator[float | Places | Toil, None, bool]:
        """Whether it is loaded after the container has refused it: one more leaves for each try."""
        figures = self.archives[model]
        deadline = self._happening.now + self._rules.load_timeout_s
        tries = 0
        while tries < self._rules.evictions_per_call and instance.could_hold(figures):
            oldest = instance.oldest_idle(self._happening.now, self._demand, self.archives)
            if oldest is not None:
                self.counts.evictions_507 += 1
                yield self._evict(instance, self._numbers[oldest])
            elif self._happening.now < deadline:
                yield _REFUSED_AGAIN_S
            else:
                return False
            if not instance.lacks(figures):
                yield from self._load(model, instance)
                return True
            tries += oldest is not None
        return False

    def _made_room(self, model: int, instance: PlannedInstance) -> Work:
        """As many leave as are needed; with all in use the container has the last word."""
        wish = self._happening.now + _WISH_S
        for _ in range(self._rules.evictions_per_call):
            turn = instance.memory_turn(model, self._happening.now, self._demand, self.archives)
            step = Step.DONE if turn is None else decide_memory(turn)
            if isinstance(step, UnloadAll):
                leaving = [
                    self._evict(instance, self._numbers[name]) for name in step.target_models
                ]
                yield max(leaving)
            elif step is Step.WAIT:
                yield instance.next_left(self._happening.now)
            elif step is Step.EVICT and self._happening.now < wish:
                yield wish - self._happening.now
            else:
                return

    def _loaded(self, model: int, instance: PlannedInstance) -> None:
        now, figures = self._happening.now, self.archives[model]
        self.counts.loads += 1
        coming = self._coming.get(model)
        copy = Copy(model, now, now)
        instance.add(copy, figures)
        self._holders[model].append(instance)
        if coming is not None and coming.instance is instance:
            del self._coming[model]
            copy.busy_until = now + self._answer_waiting(model, coming)
        self._share_out(model)
        self._touch(instance)
        if self._rules.cache is CacheSetting.DISABLED:
            self._leave_when_idle(model, instance)
        else:
            self._watch_busy(model)

    def _asked(self, model: int, since: float, now: float) -> Any:
        """The first request since then, and all that came after it."""
        return np.concatenate(([since], self._demand.times_between(model, since, now)))

    def _answer_waiting(self, model: int, coming: Coming) -> float:
        """Those who have waited for it are answered; seconds until the last of them is."""
        now, counts, figures = self._happening.now, self.counts, self.archives[model]
        longest = 0.0
        for asked in self._asked(model, coming.since, now).tolist():
            if now - asked > self._rules.cold_wait_s:
                counts.not_ready += 1
                continue
            answer = self._chance.draw(figures.firsts or figures.services)
            longest = max(longest, answer)
            counts.cold += 1
            if len(counts.latencies) < _MOST_LATENCIES:
                counts.latencies.append(now - asked + answer)
            if len(counts.parts["answer"]) < _MOST_PARTS:
                spent = coming.course.between(asked, now)
                for stage in Stage:
                    counts.parts[stage.value].append(spent.get(stage, 0.0))
                counts.parts["answer"].append(answer)
        return longest

    def _refused(self, model: int, instance: PlannedInstance) -> None:
        """The container had no memory for it: those who wait are told so, if they still do."""
        coming = self._coming.get(model)
        if coming is not None and coming.instance is instance:
            now = self._happening.now
            waits = now - self._asked(model, coming.since, now)
            in_time = int((waits <= self._rules.cold_wait_s).sum())
            self.counts.no_memory += in_time
            self.counts.not_ready += len(waits) - in_time
        self._given_up(model, instance)

    def _given_up(self, model: int, instance: PlannedInstance) -> None:
        """It does not come: who waits is told so; for a copy nobody waits."""
        coming = self._coming.get(model)
        if coming is not None and coming.instance is instance:
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
        seconds = self._chance.draw(figures.unloads)
        instance.unloading[model] = (figures.memory, self._happening.now + seconds)
        if from_disk:
            instance.used_disk -= figures.disk

        def left() -> None:
            instance.leave(figures)
            instance.unloading.pop(model, None)
            if not from_disk:
                instance.on_disk[model] = used
            self._touch(instance)

        self._happening.at(self._happening.now + seconds, left)
        return seconds

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
            held = instance.oldest_on_disk(self.archives)
            needed = self.archives[model].disk
            name = self.archives[model].name
            step = decide_disk(DiskTurn(held, name, needed, instance.used_disk, budget))
            if isinstance(step, Delete):
                deleted = self._numbers[step.target_model]
                del instance.on_disk[deleted]
                instance.used_disk -= self.archives[deleted].disk
                continue
            if step is Step.EVICT:
                oldest = instance.oldest_idle(self._happening.now, self._demand, self.archives)
                if oldest is None:
                    return False
                self._evict(instance, self._numbers[oldest], from_disk=True)
                continue
            return step is Step.DONE

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
        found = poisson_shares(self._busy(model), len(holders))
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
        rate = busy / self.archives[model].service_s * poisson(below, busy)
        if rate <= 0.0:
            return
        gap = self._chance.gap(rate)
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
            course = Course(lambda: self._happening.now)
            self._happening.start(self._brought(model, instance, course))

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
