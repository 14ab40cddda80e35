"""The endpoint of a plan: models come to instances and leave them, by the simulator's decisions.

Only what changes something is an event: a request of a model that is not loaded, a load, an
unload, an instance that comes or goes. What the platform decides is decided by the functions that
the simulator's endpoints run by: `route`, `decide_memory`, `decide_eviction`, `decide_disk`. They
are handed those candidates that can win, which is found by heaps, not all that there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from merlin_simulator.instance.decisions import Course, Stage
from merlin_simulator.instance.instance import COPY_AGAIN_S
from merlin_simulator.planning.bringing import Bringing, Ended
from merlin_simulator.planning.demand import (
    NEVER,
    Chance,
    Setting,
    poisson,
    poisson_shares,
)
from merlin_simulator.planning.instances import (
    Copy,
    Cores,
    Counts,
    Happening,
    PlannedInstance,
    Work,
)
from merlin_simulator.rules import CacheSetting, Candidate, route

#: A model whose requests overlap less than this is never asked for by four at once.
_LEAST_BUSY = 0.02
#: Looks at how busy one model is while the rate goes up and down, at most.
_MOST_WATCHES = 1000


@dataclass(frozen=True)
class Coming:
    """A model on its way to an instance. since: when it was first asked for."""

    instance: PlannedInstance
    since: float
    course: Course


class PlannedEndpoint:
    """Archives by number, the same as the demand's models."""

    def __init__(self, happening: Happening, setting: Setting) -> None:
        self._happening, self._setting = happening, setting
        self._demand, self.archives = setting.demand, setting.archives
        self.machine, self._rules = setting.machine, setting.rules
        self._chance, self.counts = Chance(setting.seed), Counts()
        self._host = Cores(happening, self.machine.cores) if self.machine.one_host else None
        self.instances: list[PlannedInstance] = []
        self._bringing = Bringing(
            happening, setting, self._chance, self.counts, self._evict, self._touch
        )
        self._holders: list[list[PlannedInstance]] = [[] for _ in self.archives]
        #: Of models that come: where, since when somebody waits, and what for.
        self._coming: dict[int, Coming] = {}
        #: Of models of which another copy comes: where, and what it waits for.
        self._copying: dict[int, tuple[PlannedInstance, Course]] = {}
        #: Of models of which a copy did not come: when another one is tried.
        self._no_copy_before: dict[int, float] = {}
        self._stamps = [0] * len(self.archives)
        self._watches = [0] * len(self.archives)
        #: One entry of each instance counts, that of its newest version.
        self._by_emptiness: list[tuple[tuple[float, int, str], int, PlannedInstance]] = []
        self._by_name: dict[str, PlannedInstance] = {}
        self._made = 0
        self._served_s = self._served_at = 0.0
        for _ in range(setting.count):
            self.add_instance()
        for model in range(len(self.archives)):
            self._expect(model, 0.0)

    # -- instances

    @property
    def served_s(self) -> float:
        """Seconds in service until now, of all instances together."""
        return self._served_s + len(self.instances) * (self._happening.now - self._served_at)

    def add_instance(self) -> None:
        """One more is in service."""
        self._served_s, self._served_at = self.served_s, self._happening.now
        self._made += 1
        cores = self._host or Cores(self._happening, self.machine.cores)
        instance = PlannedInstance(self._made, self._setting, cores)
        self.instances.append(instance)
        self._by_name[instance.name] = instance
        self._touch(instance)
        for model, holders in enumerate(self._holders):
            if holders:
                self._watch_busy(model)

    def remove_youngest(self) -> None:
        """It is asked nothing any more; what only it had is loaded elsewhere when it is asked."""
        self._served_s, self._served_at = self.served_s, self._happening.now
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
        self._happening.go_on(self._brought(model, instance, course))

    # -- models come

    def _brought(self, model: int, instance: PlannedInstance, course: Course) -> Work:
        happening = self._happening
        while model in instance.unloading:
            course.enter(Stage.ROOM)
            yield instance.unloading[model][1] - happening.now
        used = instance.on_disk.get(model, 0.0)
        ended = yield from self._bringing.bring(model, instance, course)
        if ended is Ended.NO_DISK:
            self.counts.disk_gave_up += 1
            self.counts.no_disk += self._refused(model, instance)
        elif ended is Ended.NO_MEMORY:
            self.counts.no_memory += self._refused(model, instance)
        elif instance.in_service:
            self._loaded(model, instance, used)
        if self._copying.get(model, (None, None))[1] is course:
            del self._copying[model]
            again = self._no_copy_before[model] = happening.now + COPY_AGAIN_S
            happening.at(again, lambda: self._watch_busy(model))

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
        self._watch_busy(model)
        if self._rules.cache is CacheSetting.DISABLED:
            self._leave_when_idle(model, instance)

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
            answers.append(self._chance.draw(figures.first_answer_s or figures.service_s))
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

    def end(self) -> None:
        """Nobody waits longer: who waits for a model that has not come yet is told so."""
        for model, coming in self._coming.items():
            others = self._demand.count_of(model, coming.since, self._happening.now)
            self.counts.not_ready += 1 + others
        self._coming.clear()

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
        seconds = self._chance.draw(figures.unload_s)
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
        self._watch_busy(model)
        if not self._holders[model] and model not in self._coming:
            self._expect(model, self._happening.now)

    def _leave_when_idle(self, model: int, instance: PlannedInstance) -> None:
        """ModelCacheSetting Disabled: it stays until all are answered, those too who come then."""
        services, copy = self.archives[model].service_s, instance.copies[model]
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
        shares = poisson_shares(self._busy(model), len(holders))
        for instance, share in zip(holders, shares, strict=True):
            instance.copies[model].share = share

    def _busy(self, model: int) -> float:
        """Requests of it that are in flight on average."""
        rate = self._demand.rate(model, self._happening.now)
        return rate * self.archives[model].mean_service_s

    def _watch_busy(self, model: int) -> None:
        """When so many of its requests are in flight everywhere that another instance loads it.

        It is drawn anew when the rate changes, and when copies or instances come or go.
        """
        self._watches[model] += 1
        watch, now = self._watches[model], self._happening.now
        copies, service = len(self._holders[model]), self.archives[model].mean_service_s
        if (
            not copies
            or self._rules.cache is CacheSetting.DISABLED
            or self._demand.most(model) * service < _LEAST_BUSY
        ):
            return
        again = self._demand.next_change(now)
        again = max(again, now + self._demand.duration / _MOST_WATCHES)
        rate, busy = 0.0, self._busy(model)
        if busy >= _LEAST_BUSY and copies < len(self.instances):
            rate = busy / service * poisson(self._rules.busy_at * copies - 1, busy)
        overflows = now + self._chance.gap(rate) if rate > 0.0 else NEVER

        def look() -> None:
            if self._watches[model] != watch:
                return
            if overflows < again:
                self._copy(model)
            else:
                self._share_out(model)
                self._watch_busy(model)

        if (when := min(again, overflows)) < self._demand.duration:
            self._happening.at(when, look)

    def _copy(self, model: int) -> None:
        if model in self._coming or model in self._copying:
            return
        if self._happening.now < self._no_copy_before.get(model, 0.0):
            return
        instance = self._emptiest(without=self._holders[model])
        if instance is not None:
            self.counts.copies += 1
            course = Course(lambda: self._happening.now)
            self._copying[model] = (instance, course)
            self._happening.go_on(self._brought(model, instance, course))

    # -- the router's view

    def _touch(self, instance: PlannedInstance) -> None:
        instance.version += 1
        heapq.heappush(self._by_emptiness, (instance.emptiness, instance.version, instance))

    def _emptiest(self, without: Sequence[PlannedInstance] = ()) -> PlannedInstance | None:
        """The one that the router's order has first."""
        heap, spared, emptiest = self._by_emptiness, [], None
        while heap:
            _, version, instance = heap[0]
            if not instance.in_service or version != instance.version:
                heapq.heappop(heap)
            elif instance in without:
                spared.append(heapq.heappop(heap))
            else:
                emptiest = instance
                break
        for entry in spared:
            heapq.heappush(heap, entry)
        return emptiest


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
