"""One run of a setting: events, autoscaling, and the latencies of warm requests."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from merlin_simulator.control.autoscaling.decision import (
    MINUTES,
    Bounds,
    Past,
    Reading,
    Situation,
    Tracking,
    Wish,
    decide,
)
from merlin_simulator.planning.demand import Demand, Figures, Scaling, Setting
from merlin_simulator.planning.endpoint import PlannedEndpoint
from merlin_simulator.planning.instances import Counts, Happening, PlannedInstance

#: The first of a sample find the queue empty, as it is not: they are left out. At least this share
#: of the sample; where nearly all is used, as many as a queue takes to forget that it was empty. Of
#: M/M/c that is 1 / (1 - sqrt(u))^2 services, near 4 / (1 - u)^2; up to a bound.
_WARM_UP, _FORGETTING, _MOST_WARM_UP = 0.1, 4.0, 10_000


@dataclass(frozen=True)
class Window:
    """An instance at one time. rates: requests a second of each model that it has loaded.

    load_cores: how many cores its loads want on average, and load_work: how many they get.
    """

    figures: Sequence[Figures]
    rates: Sequence[float]
    cores: int
    load_cores: float = 0.0
    load_work: float = 0.0

    @cached_property
    def rate(self) -> float:
        """Requests a second of all models."""
        return sum(self.rates)

    @cached_property
    def offered(self) -> Any:
        """Of each model the share of its places that its requests need; above 1 they are too many.

        A model has so many places as it answers requests at the same time.
        """
        pairs = zip(self.rates, self.figures, strict=True)
        return np.array(
            [rate * figures.mean_service_s / figures.concurrency for rate, figures in pairs]
        )

    @cached_property
    def served(self) -> Any:
        """Requests a second of each model, as far as its places go."""
        return np.asarray(self.rates, dtype=float) / np.maximum(1.0, self.offered)

    @cached_property
    def asked(self) -> float:
        """The share of the cores that those need; above 1 their queue grows for ever."""
        busy = self.served * np.array([figures.mean_service_s for figures in self.figures])
        return float(busy.sum()) / self.cores

    @cached_property
    def lost(self) -> float:
        """The share of all requests that is too much for the places of its model, or the cores."""
        if self.asked <= 1.0 and not (self.offered > 1.0).any():
            return 0.0
        return max(0.0, 1.0 - float(self.served.sum()) / self.rate / max(1.0, self.asked))

    @property
    def utilization(self) -> float:
        """Of the cores, by requests and loads."""
        return min(1.0, self.asked + self.load_work / self.cores)


def draw_latencies(window: Window, count: int, random: np.random.Generator) -> Any:
    """Seconds from arrival to answer, of so many requests that are served; infinite for those whose
    queue grows for ever.
    """
    if window.rate <= 0.0 or count < 1:
        return np.empty(0)
    if window.asked >= 1.0:
        return np.full(count, np.inf)
    total = count + _warm_up(window, count)
    models, services = _draw_requests(window, total, random)
    arrivals = np.cumsum(random.exponential(1 / window.served.sum(), total))
    waits = np.asarray(_serve(window, arrivals, models.tolist(), services))
    waits[(window.offered >= 1.0)[models]] = np.inf
    return (waits * _stretch(window, total, random))[-count:]


def _warm_up(window: Window, count: int) -> int:
    """By the cores, and by the places of each model, of which only some requests are."""
    served, free = window.served, 1.0 - window.offered
    waiting = (served > 0.0) & (free > 0.0)
    of_models = served[waiting] / served.sum() * free[waiting] ** 2
    least = min((1.0 - window.asked) ** 2, float(of_models.min(initial=1.0)))
    return int(max(_WARM_UP * count, min(_FORGETTING / least, _MOST_WARM_UP))) + 1


def _draw_requests(window: Window, total: int, random: np.random.Generator) -> tuple[Any, Any]:
    shares = window.served / window.served.sum()
    models = random.choice(len(shares), total, p=shares)
    places = random.random(total)
    services = np.empty(total)
    kinds: dict[tuple[float, ...], list[int]] = {}
    for number, figures in enumerate(window.figures):
        kinds.setdefault(figures.service_s, []).append(number)
    for quantiles, numbers in kinds.items():
        mine = np.isin(models, numbers)
        steps = np.linspace(0, 1, len(quantiles)) if len(quantiles) > 1 else [0.0]
        services[mine] = np.interp(places[mine], steps, quantiles)
    return models, services


def _stretch(window: Window, total: int, random: np.random.Generator) -> Any:
    """How many times longer each takes beside loads, by as many as go on when it comes."""
    going = random.poisson(window.load_cores, total)
    return np.maximum(1.0, (going + 1) / window.cores)


def _serve(window: Window, arrivals: Any, models: list[int], services: Any) -> list[float]:
    """Who waits for a place of its model needs no core before it has the place."""
    cores = [0.0] * window.cores
    free = [figures.concurrency for figures in window.figures]
    queues: dict[int, deque[int]] = defaultdict(deque)
    times, seconds = arrivals.tolist(), services.tolist()
    waits = [0.0] * len(times)
    ends: list[tuple[float, int]] = []

    def begin(number: int, at: float) -> None:
        end = max(at, cores[0]) + seconds[number]
        heapq.heapreplace(cores, end)
        heapq.heappush(ends, (end, models[number]))
        waits[number] = end - times[number]

    def hand_over() -> None:
        end, model = heapq.heappop(ends)
        if queue := queues.get(model):
            begin(queue.popleft(), end)
        else:
            free[model] += 1

    for number, at in enumerate(times):
        while ends and ends[0][0] <= at:
            hand_over()
        model = models[number]
        if free[model]:
            free[model] -= 1
            begin(number, at)
        else:
            queues[model].append(number)
    while ends:
        hand_over()
    return waits


MINUTE_S = 60.0


class Scaler:
    """Looks each minute, but not while instances come: an endpoint that is updated is not changed.

    Those that are wanted come together, after the machine's ready_s; a cooldown begins then.
    """

    def __init__(
        self, happening: Happening, demand: Demand, endpoint: PlannedEndpoint, scaling: Scaling
    ) -> None:
        self._happening, self._demand, self._endpoint = happening, demand, endpoint
        self._bounds = Bounds(scaling.least, scaling.most)
        self._rule = Tracking("plan", scaling.target, scaling.out_cooldown_s, scaling.in_cooldown_s)
        self._datapoints: deque[float | None] = deque(maxlen=MINUTES)
        self._past, self._changing, self._served_s = Past(), False, 0.0
        happening.at(MINUTE_S, self._look)

    def _look(self) -> None:
        now = self._happening.now
        self._datapoints.append(self._asked_of_one(now))
        if not self._changing:
            count = len(self._endpoint.instances)
            situation = Situation(now, count, self._bounds, self._past)
            decision = decide(situation, [Reading(self._rule, list(self._datapoints))])
            if isinstance(decision, Wish):
                self._carry_out(decision)
        self._happening.at(now + MINUTE_S, self._look)

    def _asked_of_one(self, now: float) -> float:
        """Invocations of an instance in the last minute, by those that were in service then."""
        count = self._demand.count_between(now - MINUTE_S, now)
        before, self._served_s = self._served_s, self._endpoint.served_s
        return count / max(1.0, (self._served_s - before) / MINUTE_S)

    def _carry_out(self, wish: Wish) -> None:
        self._changing = True
        count, now = len(self._endpoint.instances), self._happening.now
        comes = self._endpoint.machine.ready_s if wish.count > count else 0.0
        self._happening.at(now + comes, lambda: self._done(wish, count))

    def _done(self, wish: Wish, before: int) -> None:
        for _ in range(wish.count - before):
            self._endpoint.add_instance()
        for _ in range(before - wish.count):
            self._endpoint.remove_youngest()
        self._past = self._past.after(wish, before, self._happening.now)
        self._changing = False


#: Looks at the whole endpoint, at equal steps; windows of its requests that are carried out, and
#: more of them where the busiest instance uses so much more or less of its cores than before.
_LOOKS, _WINDOWS, _JUMP = 288, 96, 0.1
#: Requests of a window: about twice as many as come in its time, within these.
_LEAST_REQUESTS, _MOST_REQUESTS = 200, 2500
_LEAST_LOOK_S = 0.25


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
    endpoint = PlannedEndpoint(happening, setting)
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
        together = (
            [instances] if self._setting.machine.one_host else [[alone] for alone in instances]
        )
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
