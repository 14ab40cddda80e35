"""How the rate of requests goes up and down: days, weeks and bursts, as factors of steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

HOUR_S, DAY_S = 3600.0, 86400.0
#: A step of a wave; in short demands there are at least so many of them.
_STEP_S, _LEAST_STEPS = 300.0, 96


@dataclass(frozen=True)
class Burst:
    """For a while the rate is so many times what it was."""

    at_s: float
    seconds: float
    factor: float


@dataclass(frozen=True)
class Wave:
    """Factors of each hour of a day, and of each day of a week; the demand begins at 0 h of day 0.

    Either's mean is made 1. Bursts come on top.
    """

    hours: Sequence[float] = (1.0,)
    days: Sequence[float] = (1.0,)
    bursts: Sequence[Burst] = ()


def make_steps(wave: Wave, duration: float) -> list[float]:
    """The rate's factor in steps of equal length; 1.0 where there is no wave."""
    if len(wave.hours) == len(wave.days) == 1 and not wave.bursts:
        return [1.0]
    count = max(_LEAST_STEPS, round(duration / _STEP_S))
    shortest = min((burst.seconds for burst in wave.bursts), default=duration)
    count = max(count, min(100_000, round(4 * duration / shortest)))
    at = (np.arange(count) + 0.5) * duration / count
    hours, days = np.asarray(wave.hours, dtype=float), np.asarray(wave.days, dtype=float)
    of_day = (at % DAY_S / DAY_S * len(hours)).astype(int)
    of_week = (at // DAY_S).astype(int) % len(days)
    factors = (hours / hours.mean())[of_day] * (days / days.mean())[of_week]
    for burst in wave.bursts:
        within = (at >= burst.at_s) & (at < burst.at_s + burst.seconds)
        factors = np.where(within, factors * burst.factor, factors)
    found: list[float] = factors.tolist()
    return found
