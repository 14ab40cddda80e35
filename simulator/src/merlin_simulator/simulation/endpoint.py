"""A simulated endpoint: models are loaded on instances and unloaded by the simulator's decisions.

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
from merlin_simulator.rules import CacheSetting, RoutableInstance, route
from merlin_simulator.simulation.demand import NEVER, poisson, poisson_shares
from merlin_simulator.simulation.event_clock import Cores, EventClock, Work
from merlin_simulator.simulation.instances import Copy, Counts, SimulatedInstance
from merlin_simulator.simulation.loading import Loader, LoadResult
from merlin_simulator.simulation.scenario import Sampler, Scenario

#: With fewer requests in flight on average, four at once never happen.
_LEAST_BUSY = 0.02
#: How often the next overflow of a model is drawn anew as its rate changes, at most.
_MOST_REDRAWS = 1000


@dataclass(frozen=True)
class PendingLoad:
    """A model that is loaded on an instance."""

    instance: SimulatedInstance
    since: float  # when the first caller began to wait
    course: Course


class SimulatedEndpoint:
    """Models are numbers: archive n is the demand's model n."""

    def __init__(self, clock: EventClock, scenario: Scenario) -> None:
        self._clock, self._scenario = clock, scenario
        self._demand, self.archives = scenario.demand, scenario.archives
        self.instance_spec, self._rules = scenario.instance_spec, scenario.rules
        self._sampler, self.counts = Sampler(scenario.seed), Counts()
        self._host = Cores(clock, self.instance_spec.cores) if self.instance_spec.one_host else None
        self.instances: list[SimulatedInstance] = []
        self._loader = Loader(
            clock, scenario, self._sampler, self.counts, self._start_eviction, self._update_order
        )
        self._holders: list[list[SimulatedInstance]] = [[] for _ in self.archives]
        #: Models that callers wait for.
        self._pending: dict[int, PendingLoad] = {}
        #: Models of which one more copy is loaded: where, and the stages of that load.
        self._copying: dict[int, tuple[SimulatedInstance, Course]] = {}
        #: Models whose copy failed: when the next one may be tried.
        self._copy_retry_at: dict[int, float] = {}
        self._miss_versions = [0] * len(self.archives)
        self._overflow_versions = [0] * len(self.archives)
        #: One entry of each instance counts, that of its newest version.
        self._by_emptiness: list[tuple[tuple[float, int, str], int, SimulatedInstance]] = []
        self._instances_by_name: dict[str, SimulatedInstance] = {}
        self._count_made = 0
        self._served_s = self._served_at = 0.0
        for _ in range(scenario.count):
            self.add_instance()
        for model in range(len(self.archives)):
            self._schedule_next_request(model, 0.0)

    # -- instances

    @property
    def served_s(self) -> float:
        """Seconds in service until now, of all instances together."""
        return self._served_s + len(self.instances) * (self._clock.now - self._served_at)

    def add_instance(self) -> None:
        """Put one more instance into service."""
        self._served_s, self._served_at = self.served_s, self._clock.now
        self._count_made += 1
        cores = self._host or Cores(self._clock, self.instance_spec.cores)
        instance = SimulatedInstance(self._count_made, self._scenario, cores)
        self.instances.append(instance)
        self._instances_by_name[instance.name] = instance
        self._update_order(instance)
        for model, holders in enumerate(self._holders):
            if holders:
                self._schedule_overflow(model)

    def remove_youngest(self) -> None:
        """Take the youngest instance out of service; requests load its models elsewhere."""
        self._served_s, self._served_at = self.served_s, self._clock.now
        instance = self.instances.pop()
        instance.in_service = False
        del self._instances_by_name[instance.name]
        for model in list(instance.copies):
            self._remove_copy(instance, model)
        for model, (where, _) in list(self._copying.items()):
            if where is instance:
                del self._copying[model]
        for model, pending in list(self._pending.items()):
            if pending.instance is instance:
                del self._pending[model]
                self._request_load(model, pending.since)

    # -- requests of models that are not loaded

    def _schedule_next_request(self, model: int, now: float) -> None:
        """The model is loaded nowhere, so its next request is an event."""
        self._miss_versions[model] += 1
        version = self._miss_versions[model]
        when = self._demand.find_next(model, now)
        if when < NEVER:
            self._clock.schedule(when, lambda: self._on_miss(model, version))

    def _on_miss(self, model: int, version: int) -> None:
        if (
            self._miss_versions[model] == version
            and not self._holders[model]
            and model not in self._pending
        ):
            self._request_load(model, self._clock.now)

    def _request_load(self, model: int, since: float) -> None:
        """A caller waits since then: for a load that is under way, or for a new one."""
        if (copying := self._copying.get(model)) is not None:
            self._pending[model] = PendingLoad(copying[0], since, copying[1])
            return
        instance = self._find_emptiest()
        chosen = route([] if instance is None else [_as_routable(instance)], self._rules.busy_at)
        if chosen is None:
            self.counts.without_instance += 1
            self._schedule_next_request(model, self._clock.now)
            return
        self._start_load(model, self._instances_by_name[chosen.name], since)

    def _start_load(self, model: int, instance: SimulatedInstance, since: float) -> None:
        course = Course(lambda: self._clock.now)
        self._pending[model] = PendingLoad(instance, since, course)
        self._clock.resume(self._load(model, instance, course))

    # -- loads

    def _load(self, model: int, instance: SimulatedInstance, course: Course) -> Work:
        clock = self._clock
        while model in instance.unloading:
            course.enter(Stage.ROOM)
            yield instance.unloading[model][1] - clock.now
        used = instance.on_disk.get(model, 0.0)
        result = yield from self._loader.load(model, instance, course)
        if result is LoadResult.NO_DISK:
            self.counts.disk_gave_up += 1
            self.counts.no_disk += self._fail_load(model, instance)
        elif result is LoadResult.NO_MEMORY:
            self.counts.no_memory += self._fail_load(model, instance)
        elif instance.in_service:
            self._finish_load(model, instance, used)
        if self._copying.get(model, (None, None))[1] is course:
            del self._copying[model]
            again = self._copy_retry_at[model] = clock.now + COPY_AGAIN_S
            clock.schedule(again, lambda: self._schedule_overflow(model))

    def _finish_load(self, model: int, instance: SimulatedInstance, used: float) -> None:
        """used: the last request before this load; those who waited for it are later ones."""
        now, figures = self._clock.now, self.archives[model]
        self.counts.loads += 1
        self._copying.pop(model, None)
        pending = self._pending.get(model)
        copy = Copy(model, now, used)
        self._holders[model].append(instance)
        if pending is not None and pending.instance is instance:
            del self._pending[model]
            self._answer_waiting(model, pending, copy)
        instance.add(copy, figures)
        self._share_requests(model)
        self._update_order(instance)
        self._schedule_overflow(model)
        if self._rules.cache is CacheSetting.DISABLED:
            self._unload_when_idle(model, instance)

    def _list_waiting(self, model: int, since: float, now: float) -> Any:
        """Times of the first waiting request and of all that came after it."""
        return np.concatenate(([since], self._demand.draw_times(model, since, now)))

    def _answer_waiting(self, model: int, pending: PendingLoad, copy: Copy) -> None:
        """Answer all who waited, but for those who gave up."""
        now, counts, figures = self._clock.now, self.counts, self.archives[model]
        requested = self._list_waiting(model, pending.since, now)
        copy.used = float(requested[-1])
        answers = []
        for since in requested.tolist():
            if now - since > self._rules.cold_wait_s:
                counts.not_ready += 1
                continue
            answers.append(self._sampler.draw(figures.first_answer_s or figures.service_s))
            counts.count_cold(now - since, answers[-1], pending.course.between(since, now))
        answers.sort(reverse=True)
        copy.busy_until = now + (answers[0] if answers else 0.0)
        if len(answers) >= self._rules.busy_at:
            self._copy_if_requested_before(model, now + answers[self._rules.busy_at - 1])

    def _copy_if_requested_before(self, model: int, until: float) -> None:
        """The waiting requests keep the copy busy until then: one more causes a second copy."""
        when = self._demand.find_next(model, self._clock.now)
        if when < until:
            self._clock.schedule(when, lambda: self._copy_where_held(model))

    def _copy_where_held(self, model: int) -> None:
        if self._holders[model]:
            self._start_copy(model)

    def _fail_load(self, model: int, instance: SimulatedInstance) -> int:
        """The number of callers who are told of the failure: those who wait and did not give up.
        For a copy nobody waits.
        """
        pending = self._pending.get(model)
        if pending is None or pending.instance is not instance:
            return 0
        del self._pending[model]
        now = self._clock.now
        waits = now - self._list_waiting(model, pending.since, now)
        in_time = int((waits <= self._rules.cold_wait_s).sum())
        self.counts.not_ready += len(waits) - in_time
        self._schedule_next_request(model, now)
        return in_time

    def end(self) -> None:
        """At the end of a run: whoever still waits has no answer."""
        for model, pending in self._pending.items():
            others = self._demand.count_model(model, pending.since, self._clock.now)
            self.counts.not_ready += 1 + others
        self._pending.clear()

    # -- unloads

    def _start_eviction(self, instance: SimulatedInstance, model: int) -> float:
        """Unload a model for another one; return the seconds until it has left."""
        self.counts.evictions += 1
        return self._start_unload(instance, model)

    def _start_unload(
        self, instance: SimulatedInstance, model: int, *, from_disk: bool = False
    ) -> float:
        """Return the seconds until the model has left. from_disk: delete its archive, too."""
        figures = self.archives[model]
        used = instance.copies[model].used
        self._remove_copy(instance, model)
        seconds = self._sampler.draw(figures.unload_s)
        instance.unloading[model] = (figures.memory, self._clock.now + seconds)

        def finish() -> None:
            instance.leave(figures)
            instance.unloading.pop(model, None)
            if from_disk:
                instance.used_disk -= figures.disk
            else:
                instance.on_disk[model] = used
            self._update_order(instance)

        self._clock.schedule(self._clock.now + seconds, finish)
        return seconds

    def _remove_copy(self, instance: SimulatedInstance, model: int) -> None:
        """The instance answers no more requests to the model."""
        del instance.copies[model]
        self._holders[model].remove(instance)
        self._share_requests(model)
        self._schedule_overflow(model)
        if not self._holders[model] and model not in self._pending:
            self._schedule_next_request(model, self._clock.now)

    def _unload_when_idle(self, model: int, instance: SimulatedInstance) -> None:
        """ModelCacheSetting Disabled: unload once all requests, later ones too, are answered."""
        services, copy = self.archives[model].service_s, instance.copies[model]
        seen = self._clock.now
        busy_until = max(seen, copy.busy_until)

        def check() -> None:
            nonlocal seen, busy_until
            if instance.copies.get(model) is not copy:
                return
            now = self._clock.now
            for requested in self._demand.draw_times(model, seen, now).tolist():
                busy_until = max(busy_until, requested + self._sampler.draw(services))
            seen = now
            if busy_until > now:
                self._clock.schedule(busy_until, check)
            else:
                self._start_unload(instance, model, from_disk=True)

        self._clock.schedule(busy_until, check)

    # -- more copies of busy models

    def _share_requests(self, model: int) -> None:
        """Set each copy's share of the requests. They go to the copy with the fewest in flight, so
        copy j of k gets those that find j modulo k others in flight.
        """
        holders = self._holders[model]
        if len(holders) < 2:
            for instance in holders:
                instance.copies[model].share = 1.0
            return
        shares = poisson_shares(self._find_mean_in_flight(model), len(holders))
        for instance, share in zip(holders, shares, strict=True):
            instance.copies[model].share = share

    def _find_mean_in_flight(self, model: int) -> float:
        """Requests to the model that are in flight on average."""
        rate = self._demand.rate(model, self._clock.now)
        return rate * self.archives[model].mean_service_s

    def _schedule_overflow(self, model: int) -> None:
        """Draw when all copies are so busy that another instance loads the model.

        It is drawn anew when the rate changes, and when copies or instances come or go.
        """
        self._overflow_versions[model] += 1
        version, now = self._overflow_versions[model], self._clock.now
        copies, service = len(self._holders[model]), self.archives[model].mean_service_s
        if (
            not copies
            or self._rules.cache is CacheSetting.DISABLED
            or self._demand.peak_rate(model) * service < _LEAST_BUSY
        ):
            return
        again = self._demand.find_rate_change(now)
        again = max(again, now + self._demand.duration / _MOST_REDRAWS)
        rate, busy = 0.0, self._find_mean_in_flight(model)
        if busy >= _LEAST_BUSY and copies < len(self.instances):
            rate = busy / service * poisson(self._rules.busy_at * copies - 1, busy)
        overflows = now + self._sampler.draw_gap(rate) if rate > 0.0 else NEVER

        def check() -> None:
            if self._overflow_versions[model] != version:
                return
            if overflows < again:
                self._start_copy(model)
            else:
                self._share_requests(model)
                self._schedule_overflow(model)

        if (when := min(again, overflows)) < self._demand.duration:
            self._clock.schedule(when, check)

    def _start_copy(self, model: int) -> None:
        if model in self._pending or model in self._copying:
            return
        if self._clock.now < self._copy_retry_at.get(model, 0.0):
            return
        instance = self._find_emptiest(without=self._holders[model])
        if instance is not None:
            self.counts.copies += 1
            course = Course(lambda: self._clock.now)
            self._copying[model] = (instance, course)
            self._clock.resume(self._load(model, instance, course))

    # -- the order in which the router takes instances

    def _update_order(self, instance: SimulatedInstance) -> None:
        instance.version += 1
        heapq.heappush(self._by_emptiness, (instance.emptiness, instance.version, instance))

    def _find_emptiest(self, without: Sequence[SimulatedInstance] = ()) -> SimulatedInstance | None:
        """The instance that the router would take first."""
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


def _as_routable(instance: SimulatedInstance) -> RoutableInstance:
    memory, models, name = instance.emptiness
    return RoutableInstance(
        name,
        loaded=False,
        coming=False,
        model_in_flight=0,
        in_flight=0,
        models=models,
        memory=memory,
    )
