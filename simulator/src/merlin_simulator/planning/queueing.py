"""Requests of loaded models on the cores of one instance: what they wait for, and take.

A sample of an instance's requests is carried out, first come first served: each needs a place of
its model (an instance_group has so many) and a core. Loads share the cores with them, as processes
do. So beside L loads on c cores all takes (L + 1) / c times as long, as it is of processor sharing
with L jobs that never end (for one core: Coffman, Muntz, Trotter 1970).
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from merlin_simulator.planning.archives import Figures

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
        return np.array([rate * one.service_s / one.concurrency for rate, one in pairs])

    @cached_property
    def served(self) -> Any:
        """Requests a second of each model, as far as its places go."""
        return np.asarray(self.rates, dtype=float) / np.maximum(1.0, self.offered)

    @cached_property
    def asked(self) -> float:
        """The share of the cores that those need; above 1 their queue grows for ever."""
        busy = self.served * np.array([figures.service_s for figures in self.figures])
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
        kinds.setdefault(figures.services, []).append(number)
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
