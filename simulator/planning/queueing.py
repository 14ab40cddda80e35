"""Requests of loaded models on the cores of one instance: what they wait for, and take.

A sample of an instance's requests is carried out, first come first served: each needs a place of
its model (an instance_group has so many) and a core. Loads on the instance take cores, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simulator.planning.archives import Figures

#: The first of a sample find the queue empty, as it is not: they are left out.
_WARM_UP = 0.1


@dataclass(frozen=True)
class Window:
    """An instance at one time. rates: requests a second of each model that it has loaded.

    loads: a second; load_s and load_cores: of one.
    """

    figures: Sequence[Figures]
    rates: Sequence[float]
    cores: int
    loads: float = 0.0
    load_s: float = 0.0
    load_cores: float = 1.0

    @cached_property
    def rate(self) -> float:
        """Requests a second of all models."""
        return sum(self.rates)

    @cached_property
    def utilization(self) -> float:
        """Of the cores, by requests and loads; above 1 the queue grows for ever."""
        busy = sum(
            rate * figures.service_s for rate, figures in zip(self.rates, self.figures, strict=True)
        )
        return (busy + self.loads * self.load_s * self.load_cores) / self.cores


def draw_latencies(window: Window, count: int, random: np.random.Generator) -> Any:
    """Seconds from arrival to answer, of so many requests."""
    if window.rate <= 0.0 or count < 1:
        return np.empty(0)
    total = int(count / (1 - _WARM_UP)) + 1
    models, services = _draw_requests(window, total, random)
    arrivals = np.cumsum(random.exponential(1 / window.rate, total))
    waits = _serve(window, arrivals, models, services, random)
    return np.asarray(waits[-count:])


def _draw_requests(
    window: Window, total: int, random: np.random.Generator
) -> tuple[list[int], list[float]]:
    shares = np.asarray(window.rates) / window.rate
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
    return models.tolist(), services.tolist()


def _serve(
    window: Window,
    arrivals: Any,
    models: list[int],
    services: list[float],
    random: np.random.Generator,
) -> list[float]:
    cores = [0.0] * window.cores
    free: dict[int, list[float]] = {}
    loads = _draw_loads(window, float(arrivals[-1]), random)
    waits = []
    for at, model, service in zip(arrivals.tolist(), models, services, strict=True):
        while loads and loads[-1] <= at:
            start = loads.pop()
            for _ in range(max(1, round(window.load_cores))):
                heapq.heappush(cores, max(start, heapq.heappop(cores)) + window.load_s)
        places = free.setdefault(model, [0.0] * window.figures[model].concurrency)
        start = max(at, cores[0], places[0])
        end = start + service
        heapq.heapreplace(cores, end)
        heapq.heapreplace(places, end)
        waits.append(end - at)
    return waits


def _draw_loads(window: Window, until: float, random: np.random.Generator) -> list[float]:
    """When loads begin, the last one first."""
    if window.loads <= 0.0 or window.load_s <= 0.0:
        return []
    times = random.uniform(0.0, until, int(random.poisson(window.loads * until)))
    return sorted(times.tolist(), reverse=True)
