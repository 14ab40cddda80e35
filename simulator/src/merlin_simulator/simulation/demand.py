"""Requests to models: drawn as Poisson processes, or known from a trace."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


def poisson(number: int, mean: float) -> float:
    """The probability of a Poisson number."""
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
#: Requests of one call of draw_times; each is handled by itself.
_MOST_DRAWN = 2_000_000
#: Of a trace, each with a rate of its own.
_PARTS = 100
Array = Any


class TooManyRequests(Exception):
    """More requests of one model between two events than memory holds."""


class Demand(Protocol):
    """Models are numbers from 0. Seconds since the start, until `duration`."""

    models: int
    duration: float

    def find_next(self, model: int, at: float) -> float:
        """The time of the model's first request after a time; NEVER without one."""
        ...

    def find_last(self, model: int, since: float, at: float, share: float) -> float | None:
        """The time of its last request in (since, at]. share: of its requests, those that count."""
        ...

    def draw_times(self, model: int, since: float, at: float) -> Array:
        """The times of all its requests in (since, at], in order."""
        ...

    def count_all(self, since: float, at: float) -> int:
        """Requests of all models in (since, at]."""
        ...

    def count_model(self, model: int, since: float, at: float) -> int:
        """Requests of one model in (since, at]."""
        ...

    def rate(self, model: int, at: float) -> float:
        """Requests a second of one model around a time."""
        ...

    def rates(self, at: float) -> Array:
        """Each model's rate."""
        ...

    def peak_rate(self, model: int) -> float:
        """The highest rate that the model ever has."""
        ...

    def find_rate_change(self, at: float) -> float:
        """The time of the next change of rates; NEVER without one."""
        ...


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
        self._mean_rates = self._rates.tolist()
        self._first_times = None if since is None else list(since)
        self._random = np.random.default_rng(seed)
        self._exponentials: list[float] = []
        steps = np.asarray(wave, dtype=float)
        self._flat = len(steps) == 1
        self._step = duration / len(steps)
        self._factors = (steps / steps.mean()).tolist()
        self._areas = np.concatenate(([0.0], np.cumsum(self._factors) * self._step)).tolist()
        self._peak_factor = max(self._factors)
        self._changes = ((np.flatnonzero(np.diff(self._factors)) + 1) * self._step).tolist()

    def find_next(self, model: int, at: float) -> float:
        rate = self._mean_rates[model]
        if rate <= 0.0:
            return NEVER
        if self._first_times is not None:
            at = max(at, self._first_times[model])
        if at >= self.duration:
            return NEVER
        return self._time_at(self._area_until(at) + self._draw_exponential() / rate)

    def find_last(self, model: int, since: float, at: float, share: float) -> float | None:
        """Backwards from now a Poisson process looks as it does forwards."""
        rate, at = self._mean_rates[model] * share, min(at, self.duration)
        if rate <= 0.0:
            return None
        if self._flat:
            before = at - self._draw_exponential() / rate
        else:
            before = self._time_at(self._area_until(at) - self._draw_exponential() / rate)
        return before if before > since else None

    def draw_times(self, model: int, since: float, at: float) -> Array:
        start, end = self._area_until(since), self._area_until(min(at, self.duration))
        mean = self._mean_rates[model] * (end - start)
        if mean <= 0.0:
            return np.empty(0)
        if mean > _MOST_DRAWN:
            raise TooManyRequests(
                f"found {mean:.3g} requests that come while one model is loaded once, or answers, "
                f"expected at most {_MOST_DRAWN:,}; take fewer of them, or shorter ones"
            )
        count = int(self._random.poisson(mean))
        drawn = np.sort(self._random.uniform(start, end, count))
        return drawn if self._flat else np.array([self._time_at(area) for area in drawn.tolist()])

    def count_all(self, since: float, at: float) -> int:
        return int(self._random.poisson(max(0.0, self._expected(since, at))))

    def count_model(self, model: int, since: float, at: float) -> int:
        mean = self._mean_rates[model] * (
            self._area_until(min(at, self.duration)) - self._area_until(since)
        )
        return int(self._random.poisson(max(0.0, mean)))

    def rate(self, model: int, at: float) -> float:
        if self._first_times is not None and self._first_times[model] > at:
            return 0.0
        return float(self._mean_rates[model] * self._factor(at))

    def rates(self, at: float) -> Array:
        return self._rates_of_present(at) * self._factor(at)

    def peak_rate(self, model: int) -> float:
        return float(self._mean_rates[model] * self._peak_factor)

    def find_rate_change(self, at: float) -> float:
        index = bisect_right(self._changes, at)
        return float(self._changes[index]) if index < len(self._changes) else NEVER

    def _expected(self, since: float, at: float) -> float:
        """Requests of all models; those that have not appeared yet are counted at the middle."""
        total = float(self._rates_of_present((since + at) / 2).sum())
        return total * (self._area_until(at) - self._area_until(since))

    def _rates_of_present(self, at: float) -> Array:
        """Mean rates of the models that have appeared by then; 0 for the others."""
        if self._first_times is None:
            return self._rates
        return np.where(np.asarray(self._first_times) <= at, self._rates, 0.0)

    def _factor(self, at: float) -> float:
        return float(self._factors[min(int(at / self._step), len(self._factors) - 1)])

    def _area_until(self, at: float) -> float:
        """The wave's area until a time: on that scale arrivals have a constant rate."""
        if self._flat:
            return at
        step = min(max(int(at / self._step), 0), len(self._factors) - 1)
        return float(self._areas[step] + (at - step * self._step) * self._factors[step])

    def _time_at(self, area: float) -> float:
        """The time until which the wave has this area."""
        if self._flat:
            return area if area < self.duration else NEVER
        if area <= 0.0:
            return area
        if area >= self._areas[-1]:
            return NEVER
        # Never a step without arrivals: the area does not grow in it.
        step = bisect_right(self._areas, area) - 1
        return float(step * self._step + (area - self._areas[step]) / self._factors[step])

    def _draw_exponential(self) -> float:
        if not self._exponentials:
            self._exponentials = self._random.standard_exponential(8192).tolist()
        return self._exponentials.pop()


class TraceDemand:
    """Requests that are known: times, ascending, and the model of each."""

    def __init__(self, times: Array, models_asked: Array, models: int, duration: float) -> None:
        self.models, self.duration = models, duration
        self._times = np.asarray(times, dtype=float)
        order = np.argsort(models_asked, kind="stable")
        counts = np.bincount(models_asked, minlength=models)
        bounds = np.concatenate(([0], np.cumsum(counts)))
        ordered = self._times[order]
        self._by_model = [ordered[bounds[model] : bounds[model + 1]] for model in range(models)]
        self._rates = counts / duration if duration else counts * 0.0
        self._width = duration / _PARTS or 1.0

    def find_next(self, model: int, at: float) -> float:
        times = self._by_model[model]
        index = int(np.searchsorted(times, at, side="right"))
        return float(times[index]) if index < len(times) else NEVER

    def find_last(self, model: int, since: float, at: float, share: float) -> float | None:
        """With a share of 1/n every n-th request counts, from the newest on."""
        times = self._by_model[model]
        index = int(np.searchsorted(times, at, side="right")) - 1
        if share < 1.0:
            index -= round(1.0 / share) - 1 if share > 0 else len(times)
        if index < 0 or times[index] <= since:
            return None
        return float(times[index])

    def draw_times(self, model: int, since: float, at: float) -> Array:
        times = self._by_model[model]
        first = np.searchsorted(times, since, side="right")
        return times[first : np.searchsorted(times, at, side="right")]

    def count_all(self, since: float, at: float) -> int:
        first = np.searchsorted(self._times, since, side="right")
        return int(np.searchsorted(self._times, at, side="right") - first)

    def count_model(self, model: int, since: float, at: float) -> int:
        return len(self.draw_times(model, since, at))

    def rate(self, model: int, at: float) -> float:
        return float(self._rates[model] * self._factor(at))

    def rates(self, at: float) -> Array:
        """Mean rates over the trace, scaled by the number of all requests around then."""
        return self._rates * self._factor(at)

    def peak_rate(self, model: int) -> float:
        """All its requests may come in one part."""
        return float(self._rates[model] * _PARTS)

    def find_rate_change(self, at: float) -> float:
        """A trace has other rates in each part."""
        return at + self._width

    def _factor(self, at: float) -> float:
        width = self._width
        mean = len(self._times) * width / self.duration if self.duration else 1.0
        near = self.count_all(at - width / 2, at + width / 2)
        return near / mean if mean else 0.0
