"""Which model is asked when: Poisson arrivals, models by a Zipf law. Pure, and fixed by the seed.

The load is open: when the next request comes does not depend on how the last one fared, as with
real callers. A closed loop would ask less of an endpoint the slower that is.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Arrival:
    """Request number (from 0), due at so many seconds after the start, for the model of that rank.

    Ranks begin at 0, the most popular model.
    """

    number: int
    at: float
    model: int


def zipf_shares(models: int, exponent: float) -> tuple[float, ...]:
    """Each model's share of the traffic, the most popular first: rank^-exponent over their sum."""
    weights = [(rank + 1) ** -exponent for rank in range(models)]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def plan(rps: float, duration_s: float, shares: Sequence[float], seed: int) -> tuple[Arrival, ...]:
    """All arrivals of one replay, in order.

    Times and models come from generators of their own: another rate asks for the same models, and
    another popularity at the same times.
    """
    times, models = random.Random(f"times {seed}"), random.Random(f"models {seed}")
    bounds = list(accumulate(shares))
    return tuple(
        Arrival(number, at, _drawn(models, bounds))
        for number, at in enumerate(_poisson(rps, duration_s, times))
    )


def _poisson(rps: float, duration_s: float, generator: random.Random) -> Iterator[float]:
    """Arrival times below the duration: the gaps are exponential with mean 1/rps."""
    at = generator.expovariate(rps)
    while at < duration_s:
        yield at
        at += generator.expovariate(rps)


def _drawn(generator: random.Random, bounds: Sequence[float]) -> int:
    # The last bound may be a rounding error below 1.
    return min(bisect(bounds, generator.random()), len(bounds) - 1)
