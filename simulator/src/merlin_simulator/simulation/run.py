"""One run of a scenario: events, autoscaling, snapshots, and a sample of warm requests."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merlin_simulator.control.autoscaling.decision import (
    MINUTES,
    Bounds,
    Past,
    Reading,
    ScalingChange,
    Situation,
    Tracking,
    decide,
)
from merlin_simulator.simulation.demand import Demand
from merlin_simulator.simulation.endpoint import SimulatedEndpoint
from merlin_simulator.simulation.event_clock import EventClock
from merlin_simulator.simulation.instances import Counts, SimulatedInstance
from merlin_simulator.simulation.scenario import Scaling, Scenario
from merlin_simulator.simulation.warm_requests import WarmTraffic, draw_latencies

MINUTE_S = 60.0


class SimulatedScaler:
    """Decides each minute, but not during a change: SageMaker changes no endpoint that is updated.

    New instances come together, after ready_s; the cooldown begins then.
    """

    def __init__(
        self, clock: EventClock, demand: Demand, endpoint: SimulatedEndpoint, scaling: Scaling
    ) -> None:
        self._clock, self._demand, self._endpoint = clock, demand, endpoint
        self._bounds = Bounds(scaling.least, scaling.most)
        self._rule = Tracking("plan", scaling.target, scaling.out_cooldown_s, scaling.in_cooldown_s)
        self._datapoints: deque[float | None] = deque(maxlen=MINUTES)
        self._past, self._changing, self._served_s = Past(), False, 0.0
        clock.schedule(MINUTE_S, self._decide)

    def _decide(self) -> None:
        now = self._clock.now
        self._datapoints.append(self._count_invocations(now))
        if not self._changing:
            count = len(self._endpoint.instances)
            situation = Situation(now, count, self._bounds, self._past)
            decision = decide(situation, [Reading(self._rule, list(self._datapoints))])
            if isinstance(decision, ScalingChange):
                self._start_change(decision)
        self._clock.schedule(now + MINUTE_S, self._decide)

    def _count_invocations(self, now: float) -> float:
        """Invocations in the last minute for each instance that was in service."""
        count = self._demand.count_all(now - MINUTE_S, now)
        before, self._served_s = self._served_s, self._endpoint.served_s
        return count / max(1.0, (self._served_s - before) / MINUTE_S)

    def _start_change(self, wish: ScalingChange) -> None:
        self._changing = True
        count, now = len(self._endpoint.instances), self._clock.now
        ready_s = self._endpoint.instance_spec.ready_s if wish.count > count else 0.0
        self._clock.schedule(now + ready_s, lambda: self._finish_change(wish, count))

    def _finish_change(self, wish: ScalingChange, before: int) -> None:
        for _ in range(wish.count - before):
            self._endpoint.add_instance()
        for _ in range(before - wish.count):
            self._endpoint.remove_youngest()
        self._past = self._past.after(wish, before, self._clock.now)
        self._changing = False


#: Snapshots of the endpoint, at equal steps; samples of its warm requests, and one more where the
#: busiest instance's use of its cores differs by so much from the snapshot before.
_SNAPSHOTS, _SAMPLES, _JUMP = 288, 96, 0.1
#: Requests of a sample: about twice as many as come in its time, within these.
_LEAST_REQUESTS, _MOST_REQUESTS = 200, 2500
_LEAST_STEP_S = 0.25


@dataclass(frozen=True)
class Snapshot:
    """The endpoint at one time, and its counts since the snapshot before."""

    at_s: float
    requests: int
    cold: int
    evictions: int
    loads: int
    instances: int
    loaded: int
    utilization: float  # of all cores
    busiest: float  # of the busiest instance's cores


@dataclass(frozen=True)
class Outcome:
    """The results of a run; cold requests are in counts."""

    requests: int
    counts: Counts
    snapshots: Sequence[Snapshot]
    instance_s: float
    #: Seconds of a sample of the requests that found their model loaded, and their weights.
    warm: Any = field(default_factory=lambda: np.empty(0))
    weights: Any = field(default_factory=lambda: np.empty(0))
    #: The share of all requests for which slots or cores never suffice.
    saturated: float = 0.0


def simulate(
    scenario: Scenario, advance: Callable[[float], object] = lambda share: None
) -> Outcome:
    """Run a scenario; advance is called with the share that is done."""
    clock = EventClock()
    endpoint = SimulatedEndpoint(clock, scenario)
    if scenario.scaling is not None:
        SimulatedScaler(clock, scenario.demand, endpoint, scenario.scaling)
    ends = _list_snapshot_times(scenario)
    recorder = _Recorder(scenario, endpoint, len(ends))
    for end in ends:
        clock.run(end)
        recorder.take_snapshot(end)
        advance(end / scenario.demand.duration)
    # Until all who wait are answered, or have given up.
    clock.run(ends[-1] + max(scenario.settle_s, scenario.rules.cold_wait_s))
    endpoint.end()
    return recorder.outcome()


def _list_snapshot_times(scenario: Scenario) -> list[float]:
    """Times of the snapshots: with autoscaling, whole minutes."""
    duration = scenario.demand.duration
    step = max(_LEAST_STEP_S, duration / _SNAPSHOTS)
    if scenario.scaling is not None:
        step = max(MINUTE_S, math.ceil(step / MINUTE_S) * MINUTE_S)
    count = max(1, math.ceil(duration / step - 1e-9))
    return [min(duration, step * (number + 1)) for number in range(count)]


class _Recorder:
    """Takes snapshots, and samples warm requests between them."""

    def __init__(self, scenario: Scenario, endpoint: SimulatedEndpoint, snapshots: int) -> None:
        self._scenario, self._endpoint = scenario, endpoint
        self._random = np.random.default_rng(scenario.seed)
        self._snapshots: list[Snapshot] = []
        self._before = (0.0, 0, 0, 0)
        self._instance_s = self._saturated = self._weight = 0.0
        self._cores_before: dict[int, tuple[float, float]] = {}
        self._warm: list[Any] = []
        self._weights: list[Any] = []
        self._samples_each = max(1, round(_SAMPLES / snapshots))
        self._every = max(1, snapshots // _SAMPLES)
        self._unsampled: list[tuple[Sequence[WarmTraffic], float]] = []
        self._busiest = 0.0

    def take_snapshot(self, now: float) -> None:
        """Record the state now, which stands for the time since the last snapshot."""
        demand, counts = self._scenario.demand, self._endpoint.counts
        since, cold, evictions, loads = self._before
        rates = demand.rates((since + now) / 2)
        instances = self._endpoint.instances
        # All instances of one host are one queue: they share its cores.
        together = (
            [instances]
            if self._scenario.instance_spec.one_host
            else [[alone] for alone in instances]
        )
        traffics = [self._measure_traffic(some, rates, now - since) for some in together if some]
        busy = [traffic.utilization for traffic in traffics]
        self._snapshots.append(
            Snapshot(
                now,
                demand.count_all(since, now),
                counts.cold - cold,
                counts.evictions - evictions,
                counts.loads - loads,
                len(instances),
                sum(len(instance.copies) for instance in instances),
                sum(busy) / len(busy) if busy else 0.0,
                max(busy, default=0.0),
            )
        )
        self._before = (now, counts.cold, counts.evictions, counts.loads)
        self._instance_s = self._endpoint.served_s
        for traffic in traffics:
            weight = traffic.rate * (now - since)
            self._weight += weight
            self._saturated += weight * traffic.lost_share
        busiest = max(busy, default=0.0)
        if abs(busiest - self._busiest) > _JUMP:
            self._sample_latencies()
        self._unsampled.append((traffics, now - since))
        self._busiest = busiest
        if len(self._unsampled) >= self._every:
            self._sample_latencies()

    def outcome(self) -> Outcome:
        """The results, after the last snapshot."""
        self._sample_latencies()
        counts = self._endpoint.counts
        # Both are drawn: of few requests more may be cold than there are.
        requests = max(
            sum(snapshot.requests for snapshot in self._snapshots), counts.cold + counts.failed
        )
        return Outcome(
            requests,
            counts,
            self._snapshots,
            self._instance_s,
            np.concatenate(self._warm) if self._warm else np.empty(0),
            np.concatenate(self._weights) if self._weights else np.empty(0),
            self._saturated / self._weight if self._weight else 0.0,
        )

    def _measure_traffic(
        self, instances: Sequence[SimulatedInstance], rates: Any, seconds: float
    ) -> WarmTraffic:
        copies = [copy for instance in instances for copy in instance.copies.values()]
        return WarmTraffic(
            [self._scenario.archives[copy.model] for copy in copies],
            [float(rates[copy.model]) * copy.share for copy in copies],
            instances[0].instance_spec.cores,
            *self._load_cores(instances[0], seconds),
        )

    def _load_cores(self, instance: SimulatedInstance, seconds: float) -> tuple[float, float]:
        """Cores that loads have wanted, and had, on average since the last snapshot."""
        instance.cores.advance()
        now = (instance.cores.wanted_s, instance.cores.worked_s)
        before = self._cores_before.get(instance.number, (0.0, 0.0))
        self._cores_before[instance.number] = now
        if seconds <= 0.0:
            return 0.0, 0.0
        return (now[0] - before[0]) / seconds, (now[1] - before[1]) / seconds

    def _sample_latencies(self) -> None:
        """Draw warm latencies of some instances, by their rates, for the last snapshots."""
        if not self._unsampled:
            return
        traffics = self._unsampled[-1][0]
        weights = np.array([traffic.rate for traffic in traffics])
        total = float(weights.sum())
        requested = sum(
            traffic.rate * seconds for some, seconds in self._unsampled for traffic in some
        )
        seconds = sum(seconds for _, seconds in self._unsampled)
        self._unsampled = []
        if total <= 0.0:
            return
        drawn = self._random.choice(len(traffics), self._samples_each, p=weights / total)
        for number in drawn.tolist():
            traffic = traffics[number]
            latencies = self._latencies(traffic, seconds)
            self._warm.append(latencies)
            answered = requested / self._samples_each * (1 - traffic.lost_share)
            weight = answered / max(1, len(latencies))
            self._weights.append(np.full(len(latencies), weight))

    def _latencies(self, traffic: WarmTraffic, seconds: float) -> Any:
        """Seconds of a sample of requests; the time limit where the queue grows for ever."""
        count = int(min(_MOST_REQUESTS, max(_LEAST_REQUESTS, 2 * traffic.rate * seconds)))
        drawn = draw_latencies(traffic, count, self._random)
        return np.where(np.isinf(drawn), self._scenario.rules.invoke_timeout_s, drawn)
