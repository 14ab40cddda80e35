"""The endpoint of a plan: models come to instances and leave them, by the simulator's decisions.

Only what changes something is an event: a request of a model that is not loaded, a load, an
unload, an instance that comes or goes. What the platform decides is decided by the functions that
the simulator's endpoints run by: `route`, `decide_memory`, `decide_disk`. They are handed those
candidates that can win, which is found by heaps, not all that there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simulator.instance.course import Course, Stage
from simulator.instance.decisions import (
    Delete,
    DiskTurn,
    FullDisk,
    Step,
    UnloadAll,
    decide_after_full_disk,
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
#: Between two looks whether a model in use is idle, of what cannot do without its place.
_AGAIN_S = 1.0
#: The first of them, which grow.
_LOOK_S = 0.05

#: Work with an answer: whether it came to what was wanted.
Answer = Generator["float | Places | Toil", None, bool]


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
        loads_in_order: Sequence[Sequence[float]] = (),
    ) -> None:
        self._happening, self._demand, self.archives = happening, demand, list(archives)
        self._chance = Chance(seed)
        self._loads_in_order = [iter(loads) for loads in loads_in_order]
        self._host = Cores(happening, machine.cores) if machine.one_host else None
        self.machine, self._rules = machine, rules
        self._numbers = {figures.name: number for number, figures in enumerate(self.archives)}
        self.instances: list[PlannedInstance] = []
        self.counts = Counts()
        self._holders: list[list[PlannedInstance]] = [[] for _ in self.archives]
        #: Of models that come: where, since when somebody waits, and what for.
        self._coming: dict[int, Coming] = {}
        #: Of models of which another copy comes: where, and what it waits for.
        self._copying: dict[int, tuple[PlannedInstance, Course]] = {}
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
        for model, (where, _) in list(self._copying.items()):
            if where is instance:
                del self._copying[model]
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
        """Somebody waits for it since then; with those who come, if another copy does already."""
        if (copying := self._copying.get(model)) is not None:
            self._coming[model] = Coming(copying[0], since, copying[1])
            return
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
        yield from self._steps(model, instance, course)
        if self._copying.get(model, (None, None))[1] is course:
            del self._copying[model]

    def _steps(self, model: int, instance: PlannedInstance, course: Course) -> Work:
        figures, happening = self.archives[model], self._happening
        while model in instance.unloading:
            course.enter(Stage.ROOM)
            yield instance.unloading[model][1] - happening.now
        used = instance.on_disk.get(model, 0.0)
        course.enter(Stage.TURN)
        if model in instance.on_disk:
            del instance.on_disk[model]
        else:
            self._touch(instance)
            if not (yield from self._arrived(model, instance, course)):
                self.counts.disk_gave_up += 1
                self.counts.no_disk += self._refused(model, instance)
                return
            course.enter(Stage.TURN)
        yield instance.soon
        instance.coming[model] = figures.memory
        self._touch(instance)
        course.enter(Stage.ROOM)
        yield from self._made_room(model, instance)
        instance.admitted.add(model)
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
        instance.admitted.remove(model)
        if refused:
            instance.on_disk[model] = happening.now
            self.counts.no_memory += self._refused(model, instance)
        elif instance.in_service:
            self._loaded(model, instance, used)

    def _arrived(self, model: int, instance: PlannedInstance, course: Course) -> Answer:
        """Onto the disk; away again while others need its place there, and then once more."""
        figures, happening, disk = self.archives[model], self._happening, instance.machine.disk
        deadline = happening.now + self._rules.load_timeout_s
        while True:
            instance.fetching += 1
            course.enter(Stage.TURN)
            yield instance.downloads
            course.enter(Stage.DOWNLOAD)
            yield self._chance.draw(figures.downloads)
            happening.give_back(instance.downloads)
            instance.fetching -= 1
            instance.used_disk += figures.disk
            if disk is None:
                return True
            course.enter(Stage.TURN)
            yield instance.disk_turns
            course.enter(Stage.ROOM)
            found = yield from self._made_disk_room(model, instance)
            happening.give_back(instance.disk_turns)
            if found:
                return True
            instance.used_disk -= figures.disk
            others, over = instance.has_others, happening.now > deadline
            turn = FullDisk(figures.disk, disk, others, others, over)
            if decide_after_full_disk(turn) is Step.GIVE_UP:
                return False
            yield _AGAIN_S

    def _load(self, model: int, instance: PlannedInstance) -> Work:
        figures = self.archives[model]
        instance.loading[model] = int(figures.memory * figures.loading_share)
        self._touch(instance)
        yield Toil(instance.cores, self._load_seconds(model), figures.load_cores)
        del instance.loading[model]

    def _load_seconds(self, model: int) -> float:
        kinds = self._loads_in_order
        known = next(kinds[model % len(kinds)], None) if kinds else None
        return self._chance.draw(self.archives[model].loads) if known is None else known

    def _loaded_after_507(self, model: int, instance: PlannedInstance) -> Answer:
        """Whether it is loaded after the container has refused it: one more leaves for each try."""
        figures = self.archives[model]
        deadline = self._happening.now + self._rules.load_timeout_s
        for _ in range(self._rules.evictions_per_call):
            if not instance.could_hold(figures):
                return False
            yield instance.room_turn
            left = yield from self._evicted_another(instance, deadline)
            self._happening.give_back(instance.room_turn)
            if not left:
                return False
            self.counts.evictions_507 += 1
            if not instance.lacks(figures):
                yield from self._load(model, instance)
                return True
        return False

    def _made_room(self, model: int, instance: PlannedInstance) -> Work:
        """As many leave as are needed; with all in use the container has the last word."""
        wish = self._happening.now + _WISH_S
        for _ in range(self._rules.evictions_per_call):
            yield instance.room_turn
            turn = instance.memory_turn(model, self._happening.now, self._demand, self.archives)
            self._happening.give_back(instance.room_turn)
            step = Step.DONE if turn is None else decide_memory(turn)
            if isinstance(step, UnloadAll):
                leaving = [
                    self._evict(instance, self._numbers[name]) for name in step.target_models
                ]
                yield max(leaving)
            elif step is Step.WAIT:
                yield instance.next_left(self._happening.now)
            elif step is Step.EVICT:
                yield instance.room_turn
                left = yield from self._evicted_another(instance, wish)
                self._happening.give_back(instance.room_turn)
                if not left:
                    return
            else:
                return

    def _made_disk_room(self, model: int, instance: PlannedInstance) -> Answer:
        """Whether the archive has its place, after others lost theirs."""
        figures, budget = self.archives[model], instance.machine.disk
        wish = self._happening.now + _WISH_S
        while True:
            held = instance.oldest_on_disk(self.archives)
            turn = DiskTurn(held, figures.name, figures.disk, instance.used_disk, budget)
            step = decide_disk(turn)
            if isinstance(step, Delete):
                deleted = self._numbers[step.target_model]
                del instance.on_disk[deleted]
                instance.used_disk -= self.archives[deleted].disk
            elif step is Step.EVICT:
                yield instance.room_turn
                left = yield from self._evicted_another(instance, wish)
                self._happening.give_back(instance.room_turn)
                if not left:
                    return False
            else:
                return step is Step.DONE

    def _evicted_another(self, instance: PlannedInstance, deadline: float) -> Answer:
        """Whether the least recently used has left; one in use is waited for until then."""
        pause = _LOOK_S
        while True:
            now = self._happening.now
            oldest = instance.oldest_idle(now, self._demand, self.archives)
            if oldest is not None:
                yield self._evict(instance, self._numbers[oldest])
                return True
            if now >= deadline:
                return False
            yield min(instance.next_idle(now) or pause, deadline - now)
            pause = min(_AGAIN_S, 2 * pause)

    def _loaded(self, model: int, instance: PlannedInstance, used: float) -> None:
        """used: when it was asked last there, which is later where somebody has waited for it."""
        now, figures = self._happening.now, self.archives[model]
        self.counts.loads += 1
        self._copying.pop(model, None)
        coming = self._coming.get(model)
        copy = Copy(model, now, used)
        self._holders[model].append(instance)
        if coming is not None and coming.instance is instance:
            del self._coming[model]
            self._answer_waiting(model, coming, copy)
        instance.add(copy, figures)
        self._share_out(model)
        self._touch(instance)
        if self._rules.cache is CacheSetting.DISABLED:
            self._leave_when_idle(model, instance)
        else:
            self._watch_busy(model)

    def _asked(self, model: int, since: float, now: float) -> Any:
        """The first request since then, and all that came after it."""
        return np.concatenate(([since], self._demand.times_between(model, since, now)))

    def _answer_waiting(self, model: int, coming: Coming, copy: Copy) -> None:
        """Those who have waited for it are answered, all but those who have given up."""
        now, counts, figures = self._happening.now, self.counts, self.archives[model]
        asked = self._asked(model, coming.since, now)
        copy.used = float(asked[-1])
        answers = []
        for since in asked.tolist():
            if now - since > self._rules.cold_wait_s:
                counts.not_ready += 1
                continue
            answers.append(self._chance.draw(figures.firsts or figures.services))
            counts.note(now - since, answers[-1], coming.course.between(since, now))
        answers.sort(reverse=True)
        copy.busy_until = now + (answers[0] if answers else 0.0)
        if len(answers) >= self._rules.busy_at:
            self._copy_if_asked_until(model, now + answers[self._rules.busy_at - 1])

    def _copy_if_asked_until(self, model: int, until: float) -> None:
        """So long it is busy with those who have waited: who asks meanwhile has it copied."""
        when = self._demand.next_after(model, self._happening.now)
        if when < until:
            self._happening.at(when, lambda: self._copy_where_held(model))

    def _copy_where_held(self, model: int) -> None:
        if self._holders[model]:
            self._copy(model)

    def _refused(self, model: int, instance: PlannedInstance) -> int:
        """It does not come. How many are told so: all who wait for it and have not given up; for a
        copy nobody waits.
        """
        coming = self._coming.get(model)
        if coming is None or coming.instance is not instance:
            return 0
        del self._coming[model]
        now = self._happening.now
        waits = now - self._asked(model, coming.since, now)
        in_time = int((waits <= self._rules.cold_wait_s).sum())
        self.counts.not_ready += len(waits) - in_time
        self._expect(model, now)
        return in_time

    # -- models leave

    def _evict(self, instance: PlannedInstance, model: int) -> float:
        """It leaves for another one; how long that takes."""
        self.counts.evictions += 1
        return self._unload(instance, model)

    def _unload(self, instance: PlannedInstance, model: int, *, from_disk: bool = False) -> float:
        """It begins to leave; how long that takes. from_disk: its archive goes, too."""
        figures = self.archives[model]
        used = instance.copies[model].used
        self._lose(instance, model)
        seconds = self._chance.draw(figures.unloads)
        instance.unloading[model] = (figures.memory, self._happening.now + seconds)

        def left() -> None:
            instance.leave(figures)
            instance.unloading.pop(model, None)
            if from_disk:
                instance.used_disk -= figures.disk
            else:
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

    def _leave_when_idle(self, model: int, instance: PlannedInstance) -> None:
        """ModelCacheSetting Disabled: it stays until all are answered, those too who come then."""
        services, copy = self.archives[model].services, instance.copies[model]
        seen = self._happening.now
        busy_until = max(seen, copy.busy_until)

        def look() -> None:
            nonlocal seen, busy_until
            if instance.copies.get(model) is not copy:
                return
            now = self._happening.now
            for asked in self._demand.times_between(model, seen, now).tolist():
                busy_until = max(busy_until, asked + self._chance.draw(services))
            seen = now
            if busy_until > now:
                self._happening.at(busy_until, look)
            else:
                self._unload(instance, model, from_disk=True)

        self._happening.at(busy_until, look)

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
        if model in self._coming or model in self._copying:
            return
        instance = self._emptiest(without=self._holders[model])
        if instance is not None:
            self.counts.copies += 1
            course = Course(lambda: self._happening.now)
            self._copying[model] = (instance, course)
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
