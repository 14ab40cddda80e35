"""What a plan is asked: demand, archives, instances, rules and goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from merlin_simulator.planning.demand import Figures
from merlin_simulator.plans.instance_types import InstanceType

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


@dataclass(frozen=True)
class Demand:
    """trace: known requests, in place of all the rest. cloudwatch: how many there were when, in
    place of rps and wave. new_a_day: models that appear beside the first ones.
    """

    models: int = 100
    zipf: float = 1.0
    rps: float = 10.0
    hours: float = 24.0
    wave: Wave = field(default_factory=Wave)
    new_a_day: float = 0.0
    trace: Path | None = None
    cloudwatch: Path | None = None


@dataclass(frozen=True)
class Kind:
    """Archives that are alike. match: their target models' names, as *.tar.gz; None: those that no
    other kind takes, in turns. source: where its figures are from.
    """

    figures: Figures
    match: str | None = None
    source: str = "given by hand"


@dataclass(frozen=True)
class Container:
    """Of each instance, whatever its type. Bytes; disk None: no bound. speed: how many times as
    fast a core is as one of the machine that the archives were measured on.
    """

    base_memory: int = 0
    base_gpu_memory: int = 0
    disk: int | None = None
    ready_s: float = 240.0
    speed: float = 1.0


@dataclass(frozen=True)
class Autoscaling:
    """bounds: (least, most) instances, a candidate of each. target: invocations of an instance a
    minute.
    """

    target: float
    bounds: Sequence[tuple[int, int]]
    out_cooldown_s: float = 300.0
    in_cooldown_s: float = 300.0


@dataclass(frozen=True)
class Goals:
    """p99_s: of all answered requests. cold_share and failures: of all requests. None: any."""

    p99_s: float | None = None
    cold_share: float | None = None
    failures: float | None = None


@dataclass(frozen=True)
class PlanSettings:
    """All of it. rules: what differs from the platform's. loads at once are twice an instance's
    cores where rules do not say it. prices: of an hour, by instance type.
    """

    demand: Demand
    kinds: Sequence[Kind]
    types: Sequence[InstanceType]
    counts: Sequence[int] = (1,)
    container: Container = Container()
    autoscaling: Autoscaling | None = None
    goals: Goals = Goals()
    rules: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, float] | None = None
    seed: int = 1


def describe_settings(settings: PlanSettings) -> dict[str, Any]:
    """The same tree, with texts for paths and for what has names."""
    found: dict[str, Any] = _plain(asdict(settings))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value
