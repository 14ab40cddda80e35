"""One endpoint through one demand: what happens, and what requests take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merlin_simulator.planning.archives import Figures, Machine
from merlin_simulator.planning.counts import Counts
from merlin_simulator.planning.demand import Demand
from merlin_simulator.planning.endpoint import PlannedEndpoint
from merlin_simulator.planning.happening import Happening
from merlin_simulator.planning.instances import PlannedInstance
from merlin_simulator.planning.queueing import Window, draw_latencies
from merlin_simulator.planning.scaling import MINUTE_S, Scaler, Scaling
from merlin_simulator.rules import Rules

#: Looks at the whole endpoint, at equal steps; windows of its requests that are carried out, and
#: more of them where the busiest instance uses so much more or less of its cores than before.
_LOOKS, _WINDOWS, _JUMP = 288, 96, 0.1
#: Requests of a window: about twice as many as come in its time, within these.
_LEAST_REQUESTS, _MOST_REQUESTS = 200, 2500
_LEAST_LOOK_S = 0.25


@dataclass(frozen=True)
class Setting:
    """What is simulated. archives: in the demand's order; count: instances at the start.

    settle_s: after the demand's end, for what has begun; cold_wait_s at least. loads_in_order:
    seconds of loads as they begin, by kind, where they are known; archive n is of kind n modulo
    kinds.
    """

    demand: Demand
    archives: Sequence[Figures]
    machine: Machine
    rules: Rules
    count: int
    scaling: Scaling | None = None
    seed: int = 1
    settle_s: float = 0.0
    loads_in_order: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class Look:
    """The endpoint at one time, and since the look before. utilization: of all cores; busiest: that
    of the instance with most to do.
    """

    at_s: float
    requests: int
    cold: int
    evictions: int
    loads: int
    instances: int
    loaded: int
    utilization: float
    busiest: float


@dataclass(frozen=True)
class Outcome:
    """What came of it. warm: seconds of a sample of the requests that found their model loaded,
    with weights; cold ones are in counts. saturated: the share of all requests that was too much
    for its instance, and is never answered in time.
    """

    requests: int
    counts: Counts
    looks: Sequence[Look]
    instance_s: float
    warm: Any = field(default_factory=lambda: np.empty(0))
    weights: Any = field(default_factory=lambda: np.empty(0))
    saturated: float = 0.0


def simulate(setting: Setting, advance: Callable[[float], object] = lambda share: None) -> Outcome:
    """All of it; advance is told the share that is done."""
    happening = Happening()
    endpoint = PlannedEndpoint(
        happening,
        setting.demand,
        setting.archives,
        setting.machine,
        setting.rules,
        setting.count,
        setting.seed,
        setting.loads_in_order,
    )
    if setting.scaling is not None:
        Scaler(happening, setting.demand, endpoint, setting.scaling)
    ends = _looks(setting)
    looking = _Looking(setting, endpoint, len(ends))
    for end in ends:
        happening.run(end)
        looking.look(end)
        advance(end / setting.demand.duration)
    # Until all who wait are answered, or have given up.
    happening.run(ends[-1] + max(setting.settle_s, setting.rules.cold_wait_s))
    endpoint.end()
    return looking.outcome()


def _looks(setting: Setting) -> list[float]:
    """When to look: with autoscaling, at whole minutes."""
    duration = setting.demand.duration
    step = max(_LEAST_LOOK_S, duration / _LOOKS)
    if setting.scaling is not None:
        step = max(MINUTE_S, math.ceil(step / MINUTE_S) * MINUTE_S)
    count = max(1, math.ceil(duration / step - 1e-9))
    return [min(duration, step * (number + 1)) for number in range(count)]


class _Looking:
    """Adds up what is seen from one look to the next."""

    def __init__(self, setting: Setting, endpoint: PlannedEndpoint, looks: int) -> None:
        self._setting, self._endpoint = setting, endpoint
        self._random = np.random.default_rng(setting.seed)
        self._looks: list[Look] = []
        self._before = (0.0, 0, 0, 0)
        self._instance_s = self._saturated = self._weight = 0.0
        self._cores_before: dict[int, tuple[float, float]] = {}
        self._warm: list[Any] = []
        self._weights: list[Any] = []
        self._windows_each = max(1, round(_WINDOWS / looks))
        self._every = max(1, looks // _WINDOWS)
        self._alike: list[tuple[Sequence[Window], float]] = []
        self._busiest = 0.0

    def look(self, now: float) -> None:
        """What there is now stands for the time since the last look."""
        demand, counts = self._setting.demand, self._endpoint.counts
        since, cold, evictions, loads = self._before
        rates = demand.rates((since + now) / 2)
        instances = self._endpoint.instances
        # Of one host all instances are asked as one: they share its cores.
        together = [instances] if self._setting.machine.one_host else [[one] for one in instances]
        windows = [self._window(some, rates, now - since) for some in together if some]
        busy = [window.utilization for window in windows]
        self._looks.append(
            Look(
                now,
                demand.count_between(since, now),
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
        for window in windows:
            weight = window.rate * (now - since)
            self._weight += weight
            self._saturated += weight * window.lost
        busiest = max(busy, default=0.0)
        if abs(busiest - self._busiest) > _JUMP:
            self._carry_out()
        self._alike.append((windows, now - since))
        self._busiest = busiest
        if len(self._alike) >= self._every:
            self._carry_out()

    def outcome(self) -> Outcome:
        """After the last look."""
        self._carry_out()
        counts = self._endpoint.counts
        # Both are drawn: of few requests more may be cold than there are.
        requests = max(sum(look.requests for look in self._looks), counts.cold + counts.failed)
        return Outcome(
            requests,
            counts,
            self._looks,
            self._instance_s,
            np.concatenate(self._warm) if self._warm else np.empty(0),
            np.concatenate(self._weights) if self._weights else np.empty(0),
            self._saturated / self._weight if self._weight else 0.0,
        )

    def _window(self, instances: Sequence[PlannedInstance], rates: Any, seconds: float) -> Window:
        copies = [copy for instance in instances for copy in instance.copies.values()]
        return Window(
            [self._setting.archives[copy.model] for copy in copies],
            [float(rates[copy.model]) * copy.share for copy in copies],
            instances[0].machine.cores,
            *self._load_cores(instances[0], seconds),
        )

    def _load_cores(self, instance: PlannedInstance, seconds: float) -> tuple[float, float]:
        """Cores that loads have wanted, and had, on average since the last look."""
        instance.cores.advance()
        now = (instance.cores.wanted_s, instance.cores.worked_s)
        before = self._cores_before.get(instance.number, (0.0, 0.0))
        self._cores_before[instance.number] = now
        if seconds <= 0.0:
            return 0.0, 0.0
        return (now[0] - before[0]) / seconds, (now[1] - before[1]) / seconds

    def _carry_out(self) -> None:
        """Requests of some instances, the more the more they are asked, for all looks alike."""
        if not self._alike:
            return
        windows = self._alike[-1][0]
        weights = np.array([window.rate for window in windows])
        total = float(weights.sum())
        asked = sum(window.rate * seconds for some, seconds in self._alike for window in some)
        seconds = sum(seconds for _, seconds in self._alike)
        self._alike = []
        if total <= 0.0:
            return
        drawn = self._random.choice(len(windows), self._windows_each, p=weights / total)
        for number in drawn.tolist():
            window = windows[number]
            latencies = self._latencies(window, seconds)
            self._warm.append(latencies)
            answered = asked / self._windows_each * (1 - window.lost)
            weight = answered / max(1, len(latencies))
            self._weights.append(np.full(len(latencies), weight))

    def _latencies(self, window: Window, seconds: float) -> Any:
        """Where more comes than can be served, those that are answered wait until the limit."""
        count = int(min(_MOST_REQUESTS, max(_LEAST_REQUESTS, 2 * window.rate * seconds)))
        drawn = draw_latencies(window, count, self._random)
        return np.where(np.isinf(drawn), self._setting.rules.invoke_timeout_s, drawn)
