"""What is left to chance, from one seed."""

from __future__ import annotations

import math
import random

from merlin_simulator.planning.archives import Quantiles


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
