"""Requests of loaded models on the cores of one instance: what they wait for, and take.

A sample of an instance's requests is carried out, first come first served: each needs a place of
its model (an instance_group has so many) and a core. Loads share the cores with them, as processes
do. So beside L loads on c cores all takes (L + 1) / c times as long, as it is of processor sharing
with L jobs that never end (for one core: Coffman, Muntz, Trotter 1970).
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
    def asked(self) -> float:
        """The share of the cores that requests need; above 1 their queue grows for ever."""
        busy = sum(
            rate * figures.service_s for rate, figures in zip(self.rates, self.figures, strict=True)
        )
        return busy / self.cores

    @property
    def utilization(self) -> float:
        """Of the cores, by requests and loads."""
        return min(1.0, self.asked + self.load_work / self.cores)


def draw_latencies(window: Window, count: int, random: np.random.Generator) -> Any:
    """Seconds from arrival to answer, of so many requests."""
    if window.rate <= 0.0 or count < 1:
        return np.empty(0)
    total = int(count / (1 - _WARM_UP)) + 1
    models, services = _draw_requests(window, total, random)
    arrivals = np.cumsum(random.exponential(1 / window.rate, total))
    waits = np.asarray(_serve(window, arrivals, models, services))
    return (waits * _stretch(window, total, random))[-count:]


def _draw_requests(
    window: Window, total: int, random: np.random.Generator
) -> tuple[list[int], Any]:
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
    return models.tolist(), services


def _stretch(window: Window, total: int, random: np.random.Generator) -> Any:
    """How many times longer each takes beside loads, by as many as go on when it comes."""
    going = random.poisson(window.load_cores, total)
    return np.maximum(1.0, (going + 1) / window.cores)


def _serve(window: Window, arrivals: Any, models: list[int], services: Any) -> list[float]:
    cores = [0.0] * window.cores
    free: dict[int, list[float]] = {}
    waits = []
    for at, model, service in zip(arrivals.tolist(), models, services.tolist(), strict=True):
        places = free.setdefault(model, [0.0] * window.figures[model].concurrency)
        start = max(at, cores[0], places[0])
        end = start + service
        heapq.heapreplace(cores, end)
        heapq.heapreplace(places, end)
        waits.append(end - at)
    return waits
