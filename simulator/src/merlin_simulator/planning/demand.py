"""Archives, and the requests to them as Poisson processes."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from merlin_simulator.control.autoscaling.decision import COOLDOWN_S
from merlin_simulator.rules import Rules

#: Quantiles that a distribution is kept by, at equal steps from the least to the most.
Quantiles = tuple[float, ...]


def average(quantiles: Quantiles) -> float:
    """The mean of a distribution: quantiles at equal steps are joined by lines."""
    ends = (quantiles[0] + quantiles[-1]) / 2
    if len(quantiles) == 1:
        return quantiles[0]
    return (sum(quantiles) - ends) / (len(quantiles) - 1)


@dataclass(frozen=True)
class Figures:
    """Of one archive. Bytes; seconds of a machine that has nothing else to do.

    service_s: what a warm request takes; first_answer_s: the answer to a cold one once its model is
    there, None: as a warm one. download_s has the extraction in it. load_cores: how many cores a
    load keeps busy; loading_share: how much of the memory is taken on average while it goes on.
    concurrency: requests of it that an instance answers at the same time. gpu_memory: of the
    instance's GPUs.
    """

    name: str
    memory: int
    load_s: Quantiles
    service_s: Quantiles
    disk: int = 0
    download_s: Quantiles = (0.0,)
    unload_s: Quantiles = (0.0,)
    first_answer_s: Quantiles | None = None
    load_cores: float = 1.0
    loading_share: float = 0.5
    concurrency: int = 1
    gpu_memory: int = 0

    @cached_property
    def mean_service_s(self) -> float:
        """A warm request's, on average."""
        return average(self.service_s)


@dataclass(frozen=True)
class Machine:
    """A kind of instance. Bytes; base_memory: what the container takes without a model.

    memory is what the platform looks at; beyond hard_memory and gpu_memory the container answers
    507. None: no bound. ready_s: from the wish for one more until it serves. one_host: all
    instances are processes of one machine, and share its cores.
    """

    memory: int | None
    cores: int
    base_memory: int = 0
    disk: int | None = None
    ready_s: float = 240.0
    hard_memory: int | None = None
    gpu_memory: int | None = None
    base_gpu_memory: int = 0
    one_host: bool = False


class Chance:
    """Draws in the order in which they are asked for: equal seeds are equal runs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self, quantiles: Quantiles) -> float:
        """One value of a distribution."""
        if len(quantiles) == 1:
            return quantiles[0]
        place = self._random.random() * (len(quantiles) - 1)
        below = int(place)
        low, high = quantiles[below], quantiles[below + 1]
        return low + (high - low) * (place - below)

    def gap(self, rate: float) -> float:
        """Until the next of events that come at random, so many a second."""
        return self._random.expovariate(rate)


def poisson(number: int, mean: float) -> float:
    """The probability of a number."""
    if mean <= 0.0:
        return 1.0 if number == 0 else 0.0
    return math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))


def poisson_shares(mean: float, parts: int) -> list[float]:
    """The probability that a Poisson number is 0, 1, … modulo parts."""
    most = int(mean + 10 * math.sqrt(mean + 1)) + parts
    shares = [0.0] * parts
    for number in range(most + 1):
        shares[number % parts] += poisson(number, mean)
    return shares


NEVER = math.inf
#: Requests that one question is answered with; each is gone through by itself.
_MOST_AT_ONCE = 2_000_000
#: Of a trace, each with a rate of its own.
_PARTS = 100
Array = Any


class TooMany(Exception):
    """Of requests of one model from one event to the next: they would take all the memory."""


class Demand(Protocol):
    """Models are numbers from 0. Seconds since the start, until `duration`."""

    models: int
    duration: float

    def next_after(self, model: int, at: float) -> float:
        """When the model is asked first after a time; NEVER."""
        ...

    def last_between(self, model: int, since: float, at: float, share: float) -> float | None:
        """When it was asked last in (since, at], by the share of its requests that counts."""
        ...

    def times_between(self, model: int, since: float, at: float) -> Array:
        """All its requests in (since, at], in order."""
        ...

    def count_between(self, since: float, at: float) -> int:
        """Requests of all models in (since, at]."""
        ...

    def count_of(self, model: int, since: float, at: float) -> int:
        """Requests of one model in (since, at]."""
        ...

    def rate(self, model: int, at: float) -> float:
        """Requests a second of one model around a time."""
        ...

    def rates(self, at: float) -> Array:
        """As rate, of each model."""
        ...

    def most(self, model: int) -> float:
        """The highest that its rate ever is."""
        ...

    def next_change(self, at: float) -> float:
        """When rates are others than around a time; NEVER."""
        ...


@dataclass(frozen=True)
class Scaling:
    """Target tracking on SageMakerVariantInvocationsPerInstance. Seconds."""

    least: int
    most: int
    target: float
    out_cooldown_s: float = COOLDOWN_S
    in_cooldown_s: float = COOLDOWN_S


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


class PoissonDemand:
    """Poisson arrivals whose rate goes up and down for all models alike.

    shares: of each model, they sum up to 1. rate: mean requests a second. wave: the rate's factor
    in steps of equal length over the duration; its mean is 1 then. since: when each appears.
    """

    def __init__(
        self,
        shares: Sequence[float],
        rate: float,
        duration: float,
        seed: int,
        wave: Sequence[float] = (1.0,),
        since: Sequence[float] | None = None,
    ) -> None:
        self.models, self.duration = len(shares), duration
        self._rates = np.asarray(shares, dtype=float) * rate
        self._of = self._rates.tolist()
        self._since = None if since is None else list(since)
        self._random = np.random.default_rng(seed)
        self._exponentials: list[float] = []
        steps = np.asarray(wave, dtype=float)
        self._flat = len(steps) == 1
        self._step = duration / len(steps)
        self._factors = (steps / steps.mean()).tolist()
        self._work = np.concatenate(([0.0], np.cumsum(self._factors) * self._step)).tolist()
        self._most = max(self._factors)
        self._changes = ((np.flatnonzero(np.diff(self._factors)) + 1) * self._step).tolist()

    def next_after(self, model: int, at: float) -> float:
        """As Demand says."""
        rate = self._of[model]
        if rate <= 0.0:
            return NEVER
        if self._since is not None:
            at = max(at, self._since[model])
        if at >= self.duration:
            return NEVER
        return self._at(self._worked(at) + self._exponential() / rate)

    def last_between(self, model: int, since: float, at: float, share: float) -> float | None:
        """As Demand says: backwards from now a Poisson process looks as it does forwards."""
        rate, at = self._of[model] * share, min(at, self.duration)
        if rate <= 0.0:
            return None
        if self._flat:
            before = at - self._exponential() / rate
        else:
            before = self._at(self._worked(at) - self._exponential() / rate)
        return before if before > since else None

    def times_between(self, model: int, since: float, at: float) -> Array:
        """As Demand says."""
        start, end = self._worked(since), self._worked(min(at, self.duration))
        mean = self._of[model] * (end - start)
        if mean <= 0.0:
            return np.empty(0)
        if mean > _MOST_AT_ONCE:
            raise TooMany(
                f"found {mean:.3g} requests that come while one model is loaded once, or answers, "
                f"expected at most {_MOST_AT_ONCE:,}; take fewer of them, or shorter ones"
            )
        count = int(self._random.poisson(mean))
        drawn = np.sort(self._random.uniform(start, end, count))
        return drawn if self._flat else np.array([self._at(worked) for worked in drawn.tolist()])

    def count_between(self, since: float, at: float) -> int:
        """As Demand says."""
        return int(self._random.poisson(max(0.0, self._expected(since, at))))

    def count_of(self, model: int, since: float, at: float) -> int:
        """As Demand says."""
        mean = self._of[model] * (self._worked(min(at, self.duration)) - self._worked(since))
        return int(self._random.poisson(max(0.0, mean)))

    def rate(self, model: int, at: float) -> float:
        """As Demand says."""
        if self._since is not None and self._since[model] > at:
            return 0.0
        return float(self._of[model] * self._factor(at))

    def rates(self, at: float) -> Array:
        """As Demand says."""
        return self._appeared(at) * self._factor(at)

    def most(self, model: int) -> float:
        """As Demand says."""
        return float(self._of[model] * self._most)

    def next_change(self, at: float) -> float:
        """As Demand says."""
        place = bisect_right(self._changes, at)
        return float(self._changes[place]) if place < len(self._changes) else NEVER

    def _expected(self, since: float, at: float) -> float:
        """Requests of all models; those that have not appeared yet are counted at the middle."""
        total = float(self._appeared((since + at) / 2).sum())
        return total * (self._worked(at) - self._worked(since))

    def _appeared(self, at: float) -> Array:
        """Of each model that is there by then its mean rate."""
        if self._since is None:
            return self._rates
        return np.where(np.asarray(self._since) <= at, self._rates, 0.0)

    def _factor(self, at: float) -> float:
        return float(self._factors[min(int(at / self._step), len(self._factors) - 1)])

    def _worked(self, at: float) -> float:
        """The wave's area until a time: the arrivals have an even rate in it."""
        if self._flat:
            return at
        step = min(max(int(at / self._step), 0), len(self._factors) - 1)
        return float(self._work[step] + (at - step * self._step) * self._factors[step])

    def _at(self, worked: float) -> float:
        """The time at which the area is so large."""
        if self._flat:
            return worked if worked < self.duration else NEVER
        if worked <= 0.0:
            return worked
        if worked >= self._work[-1]:
            return NEVER
        # Never a step without arrivals: the area does not grow in it.
        step = bisect_right(self._work, worked) - 1
        return float(step * self._step + (worked - self._work[step]) / self._factors[step])

    def _exponential(self) -> float:
        if not self._exponentials:
            self._exponentials = self._random.standard_exponential(8192).tolist()
        return self._exponentials.pop()


class TraceDemand:
    """Requests that are known: times, ascending, and the model of each."""

    def __init__(self, times: Array, asked: Array, models: int, duration: float) -> None:
        self.models, self.duration = models, duration
        self._times = np.asarray(times, dtype=float)
        order = np.argsort(asked, kind="stable")
        counts = np.bincount(asked, minlength=models)
        bounds = np.concatenate(([0], np.cumsum(counts)))
        ordered = self._times[order]
        self._by_model = [ordered[bounds[model] : bounds[model + 1]] for model in range(models)]
        self._rates = counts / duration if duration else counts * 0.0
        self._width = duration / _PARTS or 1.0

    def next_after(self, model: int, at: float) -> float:
        """As Demand says."""
        times = self._by_model[model]
        place = int(np.searchsorted(times, at, side="right"))
        return float(times[place]) if place < len(times) else NEVER

    def last_between(self, model: int, since: float, at: float, share: float) -> float | None:
        """As Demand says; a share of them: every so manieth, from the newest on."""
        times = self._by_model[model]
        place = int(np.searchsorted(times, at, side="right")) - 1
        if share < 1.0:
            place -= round(1.0 / share) - 1 if share > 0 else len(times)
        if place < 0 or times[place] <= since:
            return None
        return float(times[place])

    def times_between(self, model: int, since: float, at: float) -> Array:
        """As Demand says."""
        times = self._by_model[model]
        first = np.searchsorted(times, since, side="right")
        return times[first : np.searchsorted(times, at, side="right")]

    def count_between(self, since: float, at: float) -> int:
        """As Demand says."""
        first = np.searchsorted(self._times, since, side="right")
        return int(np.searchsorted(self._times, at, side="right") - first)

    def count_of(self, model: int, since: float, at: float) -> int:
        """As Demand says."""
        return len(self.times_between(model, since, at))

    def rate(self, model: int, at: float) -> float:
        """As rates."""
        return float(self._rates[model] * self._factor(at))

    def rates(self, at: float) -> Array:
        """As Demand says: the mean over the trace, by how much is asked around then."""
        return self._rates * self._factor(at)

    def most(self, model: int) -> float:
        """As Demand says: all its requests may come in one part."""
        return float(self._rates[model] * _PARTS)

    def next_change(self, at: float) -> float:
        """As Demand says: a trace's rates are others in each part."""
        return at + self._width

    def _factor(self, at: float) -> float:
        width = self._width
        mean = len(self._times) * width / self.duration if self.duration else 1.0
        near = self.count_between(at - width / 2, at + width / 2)
        return near / mean if mean else 0.0
