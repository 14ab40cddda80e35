"""Requests to models that are loaded: how long each takes, by a queue for slots and cores."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from merlin_simulator.simulation.scenario import ArchiveFigures

#: The first requests of a sample find an empty queue and are left out: at least this share of the
#: sample. A busy queue takes longer to forget that it was empty: M/M/c needs 1 / (1 - sqrt(u))^2
#: services, near 4 / (1 - u)^2; up to a bound.
_WARM_UP, _FORGETTING, _MOST_WARM_UP = 0.1, 4.0, 10_000


@dataclass(frozen=True)
class WarmTraffic:
    """Warm requests to one instance."""

    figures: Sequence[ArchiveFigures]
    rates: Sequence[float]  # requests a second to each model that it has loaded
    cores: int
    load_cores: float = 0.0  # that its loads ask for on average
    load_work: float = 0.0  # cores that they get

    @cached_property
    def rate(self) -> float:
        """Requests a second of all models."""
        return sum(self.rates)

    @cached_property
    def slot_shares(self) -> Any:
        """For each model the share of its slots that requests need; above 1 there are too many.

        A model has as many slots as it answers requests at the same time.
        """
        pairs = zip(self.rates, self.figures, strict=True)
        return np.array(
            [rate * figures.mean_service_s / figures.concurrency for rate, figures in pairs]
        )

    @cached_property
    def served_rates(self) -> Any:
        """Requests a second to each model, as far as its slots suffice."""
        return np.asarray(self.rates, dtype=float) / np.maximum(1.0, self.slot_shares)

    @cached_property
    def core_share(self) -> float:
        """The share of the cores that these need; above 1 their queue grows for ever."""
        busy = self.served_rates * np.array([figures.mean_service_s for figures in self.figures])
        return float(busy.sum()) / self.cores

    @cached_property
    def lost_share(self) -> float:
        """The share of all requests for which slots or cores do not suffice."""
        if self.core_share <= 1.0 and not (self.slot_shares > 1.0).any():
            return 0.0
        return max(
            0.0, 1.0 - float(self.served_rates.sum()) / self.rate / max(1.0, self.core_share)
        )

    @property
    def utilization(self) -> float:
        """Of the cores, by requests and loads."""
        return min(1.0, self.core_share + self.load_work / self.cores)


def draw_latencies(traffic: WarmTraffic, count: int, random: np.random.Generator) -> Any:
    """Seconds from arrival to answer, of so many requests that are served; infinite for those whose
    queue grows for ever.
    """
    if traffic.rate <= 0.0 or count < 1:
        return np.empty(0)
    if traffic.core_share >= 1.0:
        return np.full(count, np.inf)
    total = count + _warm_up(traffic, count)
    models, services = _draw_requests(traffic, total, random)
    arrivals = np.cumsum(random.exponential(1 / traffic.served_rates.sum(), total))
    waits = np.asarray(_serve(traffic, arrivals, models.tolist(), services))
    waits[(traffic.slot_shares >= 1.0)[models]] = np.inf
    return (waits * _stretch(traffic, total, random))[-count:]


def _warm_up(traffic: WarmTraffic, count: int) -> int:
    """Requests to leave out, by the load on the cores and on each model's slots."""
    served_rates, free = traffic.served_rates, 1.0 - traffic.slot_shares
    waiting = (served_rates > 0.0) & (free > 0.0)
    of_models = served_rates[waiting] / served_rates.sum() * free[waiting] ** 2
    least = min((1.0 - traffic.core_share) ** 2, float(of_models.min(initial=1.0)))
    return int(max(_WARM_UP * count, min(_FORGETTING / least, _MOST_WARM_UP))) + 1


def _draw_requests(
    traffic: WarmTraffic, total: int, random: np.random.Generator
) -> tuple[Any, Any]:
    shares = traffic.served_rates / traffic.served_rates.sum()
    models = random.choice(len(shares), total, p=shares)
    ranks = random.random(total)
    services = np.empty(total)
    kinds: dict[tuple[float, ...], list[int]] = {}
    for number, figures in enumerate(traffic.figures):
        kinds.setdefault(figures.service_s, []).append(number)
    for quantiles, numbers in kinds.items():
        mine = np.isin(models, numbers)
        steps = np.linspace(0, 1, len(quantiles)) if len(quantiles) > 1 else [0.0]
        services[mine] = np.interp(ranks[mine], steps, quantiles)
    return models, services


def _stretch(traffic: WarmTraffic, total: int, random: np.random.Generator) -> Any:
    """The factor by which loads slow each request down: as many as are drawn to run beside it."""
    going = random.poisson(traffic.load_cores, total)
    return np.maximum(1.0, (going + 1) / traffic.cores)


def _serve(traffic: WarmTraffic, arrivals: Any, models: list[int], services: Any) -> list[float]:
    """Seconds from arrival to end. A request takes a slot of its model first, then a core."""
    cores = [0.0] * traffic.cores
    free = [figures.concurrency for figures in traffic.figures]
    queues: dict[int, deque[int]] = defaultdict(deque)
    times, seconds = arrivals.tolist(), services.tolist()
    # A request that ends before the next one arrives, where nothing else runs, waits for nothing.
    waits: list[float] = (arrivals + services - arrivals).tolist()
    next_overlapping = _find_overlapping(arrivals, services)
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

    number = 0
    while number < len(times):
        at, model = times[number], models[number]
        while ends and ends[0][0] <= at:
            hand_over()
        if not ends and next_overlapping[number] > number:
            number = next_overlapping[number]
            continue
        if free[model]:
            free[model] -= 1
            begin(number, at)
        else:
            queues[model].append(number)
        number += 1
    while ends:
        hand_over()
    return waits


def _find_overlapping(arrivals: Any, services: Any) -> list[int]:
    """For each request the first, from it on, that overlaps the next one; else their count."""
    overlapping = np.flatnonzero((arrivals + services)[:-1] > arrivals[1:])
    ranks = np.searchsorted(overlapping, np.arange(len(arrivals)))
    numbers: list[int] = np.append(overlapping, len(arrivals))[ranks].tolist()
    return numbers
