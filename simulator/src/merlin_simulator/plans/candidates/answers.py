"""What a plan answers, as plain data: a tree of dataclasses, which JSON and a report are made of.

Seconds, shares from 0 to 1, counts; None: not known, or there was nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from merlin_simulator.planning.run import Look


@dataclass(frozen=True)
class Candidate:
    """So many instances of a type; most: with autoscaling from count up to that many."""

    instance_type: str
    count: int
    most: int | None = None

    @property
    def words(self) -> str:
        """As 2 x ml.m5.xlarge, or 1-4 x ml.m5.xlarge."""
        many = f"{self.count}" if self.most is None else f"{self.count}-{self.most}"
        return f"{many} x {self.instance_type}"


@dataclass(frozen=True)
class Latency:
    """Of answered requests. quantiles: at 0, 1, … 100 %; empty where there were none."""

    p50: float | None = None
    p99: float | None = None
    quantiles: Sequence[float] = field(repr=False, default=())


@dataclass(frozen=True)
class Missed:
    """A goal that is not met. found None: no request was answered."""

    goal: str
    found: float | None
    wanted: float


@dataclass(frozen=True)
class Limit:
    """What is nearest to its bound; used: the share of it that is used at the worst."""

    name: str
    used: float


@dataclass(frozen=True)
class Answer:
    """Of one candidate. failures: shares of all requests, by the exception's name. cold_parts:
    shares of what cold requests waited for. cost: of the whole time, in the prices' currency.
    fits: models that have room in one instance's memory at the same time, at their mean size.
    core_hours and memory_hours: hours of instances times the cores, and the bytes, of each.
    """

    candidate: Candidate
    requests: int
    hit_ratio: float | None
    cold_share: float
    latency: Latency
    cold: Latency
    warm: Latency
    failed_share: float
    failures: Mapping[str, float]
    cold_parts: Mapping[str, float]
    evictions_an_hour: float
    loads_an_hour: float
    utilization: float
    busiest: float
    fits: int
    instance_hours: float
    core_hours: float
    memory_hours: float
    most_instances: int
    cost: float | None
    cost_an_hour: float | None
    limits: Sequence[Limit]
    missed: Sequence[Missed]
    moments: Sequence[Look] = field(repr=False, default=())

    @property
    def good(self) -> bool:
        """Whether all goals are met."""
        return not self.missed


@dataclass(frozen=True)
class Breaking:
    """What breaks first as requests grow: at so many times as many goals are missed, and why.

    times None: not until MOST times as many. steps: (times, answer) that were tried.
    """

    times: float | None
    missed: Sequence[Missed]
    why: str
    steps: Sequence[tuple[float, Answer]] = ()


@dataclass(frozen=True)
class Plan:
    """All answers, in the order of their candidates. best: the place of the cheapest that meets the
    goals, None: none does. types_read: when the table of instance types was. settings: all that was
    asked for, by the names that PlanSettings has.
    """

    traffic: str
    models: int
    duration_s: float
    seed: int
    goals: Mapping[str, float]
    types_read: str
    answers: Sequence[Answer]
    best: int | None
    breaking: Breaking | None
    settings: Mapping[str, Any] = field(repr=False, default_factory=dict)
