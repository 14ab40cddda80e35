"""Judges an outcome: a candidate's figures, the goals that it misses, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merlin_simulator.measuring.quantities import format_seconds, format_share
from merlin_simulator.plan_command.settings import Goals
from merlin_simulator.rules import Rules
from merlin_simulator.simulation.run import Outcome, Snapshot
from merlin_simulator.simulation.scenario import Scenario


@dataclass(frozen=True)
class Candidate:
    """A number of instances of a type."""

    instance_type: str
    count: int
    most: int | None = None  # with autoscaling: from count up to that many

    @property
    def label(self) -> str:
        """As 2 x ml.m5.xlarge, or 1-4 x ml.m5.xlarge."""
        many = f"{self.count}" if self.most is None else f"{self.count}-{self.most}"
        return f"{many} x {self.instance_type}"


@dataclass(frozen=True)
class Latency:
    """Seconds of answered requests."""

    p50: float | None = None
    p99: float | None = None
    #: At 0, 1, … 100 %; empty where there were none.
    quantiles: Sequence[float] = field(repr=False, default=())


@dataclass(frozen=True)
class MissedGoal:
    """A goal that is not met. found None: no request was answered."""

    goal: str
    found: float | None
    wanted: float


@dataclass(frozen=True)
class Limit:
    """A resource that bounds what an instance holds."""

    name: str
    used: float  # the largest share of it that is used


@dataclass(frozen=True)
class Answer:
    """The outcome of one candidate."""

    candidate: Candidate
    requests: int
    hit_ratio: float | None
    cold_share: float
    latency: Latency
    cold: Latency
    warm: Latency
    failed_share: float
    failures: Mapping[str, float]  # shares of all requests, by the exception's name
    cold_parts: Mapping[str, float]  # shares of what cold requests waited for
    evictions_an_hour: float
    loads_an_hour: float
    utilization: float
    busiest: float
    fits: int  # models of mean size that one instance's memory has room for
    instance_hours: float
    core_hours: float  # hours of instances times the cores of each
    memory_hours: float  # hours of instances times the bytes of each
    most_instances: int
    cost: float | None  # of the whole time, in the prices' currency
    cost_an_hour: float | None
    limits: Sequence[Limit]
    missed: Sequence[MissedGoal]
    moments: Sequence[Snapshot] = field(repr=False, default=())

    @property
    def good(self) -> bool:
        """Whether all goals are met."""
        return not self.missed


@dataclass(frozen=True)
class Breaking:
    """The factor of the requests at which goals are missed first, and why."""

    times: float | None  # None: not until MOST times as many
    missed: Sequence[MissedGoal]
    why: str
    steps: Sequence[tuple[float, Answer]] = ()  # (times, answer) that were tried


@dataclass(frozen=True)
class Plan:
    """All answers, in the order of their candidates."""

    traffic: str
    models: int
    duration_s: float
    seed: int
    goals: Mapping[str, float]
    types_read: str  # when the table of instance types was read
    answers: Sequence[Answer]
    best: int | None  # index of the cheapest that meets the goals; None: none does
    breaking: Breaking | None
    #: All that was asked for, by the names that PlanSettings has.
    settings: Mapping[str, Any] = field(repr=False, default_factory=dict)


_HOUR_S = 3600.0
#: Cores that are used so much are short.
_BUSY = 0.95


def judge(
    candidate: Candidate,
    scenario: Scenario,
    outcome: Outcome,
    goals: Goals,
    price_an_hour: float | None,
) -> Answer:
    """The figures of a candidate, and the goals that it misses."""
    counts, total = outcome.counts, outcome.requests
    failures = count_failures(scenario.rules, outcome)
    failed = min(1.0, sum(failures.values()))
    cold_share = counts.cold / total if total else 0.0
    hits = max(0.0, 1.0 - cold_share - failed)
    hours = scenario.demand.duration / _HOUR_S
    warm, cold = _in_time(outcome, scenario.rules), np.asarray(counts.latencies)
    parts = {part: sum(seconds) for part, seconds in counts.parts.items()}
    spent = sum(parts.values())
    instance_hours = outcome.instance_s / _HOUR_S
    latency = _latency(*_mix(*warm, cold, hits, cold_share))
    reached = {"p99_s": latency.p99, "cold_share": cold_share, "failures": failed}
    return Answer(
        candidate,
        total,
        hits / (hits + cold_share) if hits + cold_share > 0 else None,
        cold_share,
        latency,
        _latency(cold, np.ones(len(cold))),
        _latency(*warm),
        failed,
        {name: share for name, share in failures.items() if share},
        {part: seconds / spent for part, seconds in parts.items()} if spent else {},
        counts.evictions / hours,
        counts.loads / hours,
        float(np.mean([snapshot.utilization for snapshot in outcome.snapshots])),
        max(snapshot.busiest for snapshot in outcome.snapshots),
        count_fitting(scenario),
        instance_hours,
        instance_hours * scenario.instance_spec.cores,
        float(instance_hours * (scenario.instance_spec.memory or 0)),
        max(snapshot.instances for snapshot in outcome.snapshots),
        None if price_an_hour is None else instance_hours * price_an_hour,
        None if price_an_hour is None else instance_hours * price_an_hour / hours,
        find_limits(scenario, outcome),
        find_missed(reached, goals),
        outcome.snapshots,
    )


def count_failures(rules: Rules, outcome: Outcome) -> dict[str, float]:
    """Shares of all requests, by the exception that their callers get."""
    counts, total = outcome.counts, max(1, outcome.requests)
    weights = outcome.weights.sum()
    late = outcome.warm > rules.invoke_timeout_s
    timed_out = float(outcome.weights[late].sum() / weights) if weights else 0.0
    warm = max(0.0, 1.0 - (counts.cold + counts.failed) / total)
    lost = (outcome.saturated + (1.0 - outcome.saturated) * timed_out) * warm
    return {
        "ModelNotReadyException": counts.not_ready / total,
        "ModelError (507)": counts.no_memory / total,
        "ModelError (no answer in time)": lost,
        "InternalFailure (disk)": counts.no_disk / total,
        "ServiceUnavailable": counts.without_instance / total,
    }


def find_missed(reached: Mapping[str, float | None], goals: Goals) -> list[MissedGoal]:
    """Goals that are not met. None: no request was answered, which meets no goal."""
    missed = []
    for name in ("p99_s", "cold_share", "failures"):
        most, value = getattr(goals, name), reached[name]
        if most is not None and (value is None or value > most):
            missed.append(MissedGoal(name, value, most))
    return missed


def find_limits(scenario: Scenario, outcome: Outcome) -> list[Limit]:
    """How near each bound is, the nearest first: memory for all models, GPUs, disk, cores."""
    disk = sum(figures.disk for figures in scenario.archives)
    instances = max(snapshot.instances for snapshot in outcome.snapshots)
    limits = [Limit("cores", max(snapshot.busiest for snapshot in outcome.snapshots))]
    for name, capacity, total in [
        *_list_capacities(scenario),
        ("disk", scenario.instance_spec.disk, disk),
    ]:
        if capacity is not None and total:
            limits.append(Limit(name, total / (max(1, capacity) * instances)))
    return sorted(limits, key=lambda limit: -limit.used)


def count_fitting(scenario: Scenario) -> int:
    """Models of mean size that have room in one instance at the same time."""
    count = len(scenario.archives)
    capacities = [
        (capacity, total)
        for _, capacity, total in _list_capacities(scenario)
        if capacity is not None and total
    ]
    return min([count, *(int(capacity * count / total) for capacity, total in capacities)])


def _list_capacities(scenario: Scenario) -> list[tuple[str, int | None, int]]:
    """Of an instance: its name, bytes for models, None: no bound, and bytes of all models.

    The memory is that until the platform makes others leave.
    """
    instance_spec, archives = scenario.instance_spec, scenario.archives
    memory = gpu_memory = None
    if instance_spec.memory is not None:
        memory = (
            int(instance_spec.memory * scenario.rules.memory_threshold) - instance_spec.base_memory
        )
    if instance_spec.gpu_memory is not None:
        gpu_memory = instance_spec.gpu_memory - instance_spec.base_gpu_memory
    return [
        ("memory", memory, sum(figures.memory for figures in archives)),
        ("GPU memory", gpu_memory, sum(figures.gpu_memory for figures in archives)),
    ]


def choose_best(answers: Sequence[Answer]) -> int | None:
    """The index of the cheapest that meets the goals; without prices, and of equal ones, that with
    the fewest hours of cores, then of memory, then of instances.
    """
    good = [index for index, answer in enumerate(answers) if answer.good]
    return min(good, key=lambda index: _size(answers[index]), default=None)


def find_equals(plan: Plan) -> list[Answer]:
    """Others that meet the goals at the best one's cost; without prices, with as few cores."""
    if plan.best is None:
        return []
    best = plan.answers[plan.best]
    return [
        answer
        for answer in plan.answers
        if answer is not best
        and answer.good
        and math.isclose(_least(answer), _least(best), rel_tol=1e-9)
    ]


def _size(answer: Answer) -> tuple[float, ...]:
    return (answer.cost or 0.0, answer.core_hours, answer.memory_hours, answer.instance_hours)


def _least(answer: Answer) -> float:
    return answer.core_hours if answer.cost is None else answer.cost


def explain(answer: Answer) -> str:
    """Why it misses its goals, by what is used most; empty where it meets them."""
    if answer.good:
        return ""
    if answer.failures.get("ModelError (no answer in time)"):
        if answer.busiest <= _BUSY:
            return (
                f"not the cores, used to {answer.busiest:.0%}: a model's places (concurrency) are "
                "too few, or its answers take longer than callers wait"
            )
        return "the cores: the busiest instance needs more than it has"
    if answer.failures.get("ModelError (507)"):
        return "the memory: the container refuses models (507)"
    if answer.failures.get("InternalFailure (disk)"):
        return "the disk: archives find no place"
    fastest = answer.warm.quantiles[0] if answer.warm.quantiles else 0.0
    if any(goal.goal == "p99_s" and goal.wanted < fastest for goal in answer.missed):
        return f"the archives: even the fastest warm request takes {format_seconds(fastest)}"
    if answer.evictions_an_hour:
        return (
            f"the memory: {answer.fits} models fit on an instance, "
            f"and {answer.evictions_an_hour:.0f} leave an hour for others"
        )
    if answer.busiest > _BUSY:
        return f"the cores: loads and requests use {format_share(answer.busiest)} of the busiest"
    if any(goal.goal == "p99_s" and (answer.warm.p99 or 0) > goal.wanted for goal in answer.missed):
        return "warm requests, which wait for a place of their model (concurrency), or for a core"
    most = max(answer.cold_parts, key=lambda part: answer.cold_parts[part], default="load")
    return f"cold requests, which wait most for their {most}"


def _mix(warm: Any, weights: Any, cold: Any, hits: float, cold_share: float) -> tuple[Any, Any]:
    """Latencies of all answered requests, with their weights."""
    if len(warm):
        weights = weights / weights.sum() * hits
    each = np.full(len(cold), cold_share / max(1, len(cold)))
    return np.concatenate((warm, cold)), np.concatenate((weights, each))


def _in_time(outcome: Outcome, rules: Rules) -> tuple[Any, Any]:
    right = outcome.warm <= rules.invoke_timeout_s
    return outcome.warm[right], outcome.weights[right]


def _latency(values: Any, weights: Any) -> Latency:
    ranks = [percent / 100 for percent in range(101)]
    if not len(values) or not weights.sum():
        return Latency()
    quantiles = weighted_percentiles(values, weights, ranks)
    return Latency(quantiles[50], quantiles[99], quantiles)


def weighted_percentiles(values: Any, weights: Any, ranks: Sequence[float]) -> list[float]:
    """Of values, at least one, that stand for more or fewer requests each."""
    order = np.argsort(values)
    shares = np.cumsum(weights[order]) / weights.sum()
    numbers = np.minimum(np.searchsorted(shares, ranks), len(order) - 1)
    percentiles: list[float] = values[order[numbers]].tolist()
    return percentiles
