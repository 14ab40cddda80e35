"""The settings of a plan: the tables of a PLAN.toml, with their keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator as Reads
from pydantic import ValidationInfo

from merlin_simulator.measuring import values
from merlin_simulator.measuring.values import (
    MOST_AT_ONCE,
    MOST_CORES,
    MOST_INSTANCES,
    Reader,
    Table,
)
from merlin_simulator.plan_command.instance_types import InstanceType
from merlin_simulator.replay.report import RuleChanges
from merlin_simulator.replay.settings import read_capture_path
from merlin_simulator.simulation.scenario import ArchiveFigures, Quantiles

HOUR_S, DAY_S = 3600.0, 86400.0
#: Eleven years.
_MOST_HOURS = 100_000.0
_MOST_FACTOR = 1_000.0
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def _read_path(value: Any, info: ValidationInfo) -> Path:
    """A path, relative to the folder of the file that names it."""
    return Path(info.context or "", values.text(value))


def _read_trace_path(value: Any, info: ValidationInfo) -> Path:
    """As _read_path, of what may be a data capture."""
    read_capture_path(values.text(value))
    return _read_path(value, info)


def _factors(count: int) -> Reader:
    """A reader of this number of factors."""

    def read(value: Any) -> tuple[float, ...]:
        found = values.numbers(value)
        if not any(found):
            raise ValueError("found only zeros, expected a rate above 0 at some time")
        if len(found) != count:
            raise ValueError(f"found {len(found)} numbers, expected {count}")
        return found

    return read


def _read_counts(value: Any) -> tuple[int, ...]:
    """A list of numbers of instances, or from the least to the most as "1-4"."""
    counts = value if isinstance(value, list) else []
    if isinstance(value, str) and (ends := _RANGE.fullmatch(value)):
        first, last = int(ends[1]), int(ends[2])
        counts = list(range(first, last + 1)) if last <= MOST_INSTANCES else []
    if not counts or any(type(n) is not int or not 1 <= n <= MOST_INSTANCES for n in counts):
        values.refuse(value, f'numbers from 1 to {MOST_INSTANCES}, as [1, 2] or "1-4"')
    return tuple(counts)


def _read_texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        values.refuse(value, "a list of texts")
    return tuple(value)


def _read_bounds(value: Any) -> list[tuple[int, int]]:
    """The least and the most of each."""
    bounds = []
    for text in _read_texts(value):
        ends = _RANGE.fullmatch(text)
        if ends is None or not 1 <= int(ends[1]) <= int(ends[2]) <= MOST_INSTANCES:
            values.refuse(text, f'the least and the most as "1-4", up to {MOST_INSTANCES}')
        bounds.append((int(ends[1]), int(ends[2])))
    return bounds


@dataclass(frozen=True)
class BurstTable(Table):
    """A factor of the rate, for some minutes."""

    at_hour: Annotated[float, Reads(values.number())]
    minutes: Annotated[float, Reads(values.positive())]
    factor: Annotated[float, Reads(values.number(most=_MOST_FACTOR))]


@dataclass(frozen=True)
class DemandTable(Table):
    """The requests."""

    models: Annotated[int, Reads(values.whole(1, values.MOST_MODELS))] = 100
    zipf: Annotated[float, Reads(values.number(most=_MOST_FACTOR))] = 1.0
    rps: Annotated[float, Reads(values.positive(values.MOST_RPS))] = 10.0
    hours: Annotated[float, Reads(values.positive(_MOST_HOURS))] = 24.0
    #: Begin at 0 h of day 0; their mean is made 1.
    hours_of_day: Annotated[Sequence[float], Reads(_factors(24))] = (1.0,)
    #: Begin at day 0; their mean is made 1.
    days_of_week: Annotated[Sequence[float], Reads(_factors(7))] = (1.0,)
    bursts: list[BurstTable] = field(default_factory=list)  # come on top
    new_models_a_day: Annotated[float, Reads(values.number())] = 0.0  # appear beside the first ones
    #: Known requests, in place of all the rest.
    trace: Annotated[Path | None, Reads(_read_trace_path)] = None
    #: How many there were when, in place of rps and its factors.
    cloudwatch: Annotated[Path | None, Reads(_read_path)] = None


#: A step of a demand; in short ones there are at least so many of them.
_STEP_S, _LEAST_STEPS = 300.0, 96


def make_steps(demand: DemandTable, bursts: Sequence[BurstTable]) -> list[float]:
    """The rate's factor in steps of equal length; 1.0 where it is always the same."""
    if len(demand.hours_of_day) == len(demand.days_of_week) == 1 and not bursts:
        return [1.0]
    duration = demand.hours * HOUR_S
    count = max(_LEAST_STEPS, round(duration / _STEP_S))
    shortest = min((burst.minutes * 60.0 for burst in bursts), default=duration)
    count = max(count, min(100_000, round(4 * duration / shortest)))
    at = (np.arange(count) + 0.5) * duration / count
    hours, days = np.asarray(demand.hours_of_day), np.asarray(demand.days_of_week)
    of_day = (at % DAY_S / DAY_S * len(hours)).astype(int)
    of_week = (at // DAY_S).astype(int) % len(days)
    factors = (hours / hours.mean())[of_day] * (days / days.mean())[of_week]
    for burst in bursts:
        start = burst.at_hour * HOUR_S
        within = (at >= start) & (at < start + burst.minutes * 60.0)
        factors = np.where(within, factors * burst.factor, factors)
    steps: list[float] = factors.tolist()
    return steps


_Seconds = Annotated[Quantiles | None, Reads(values.quantiles)]


@dataclass(frozen=True)
class ArchiveTable(Table):
    """Of archives that are alike: a replay's report, or figures by hand, which go above it."""

    report: Annotated[Path | None, Reads(_read_path)] = None
    match: Annotated[str | None, Reads(values.text)] = None
    memory: Annotated[int | None, Reads(values.size)] = None
    disk: Annotated[int | None, Reads(values.size)] = None
    gpu_memory: Annotated[int | None, Reads(values.size)] = None
    download_s: _Seconds = None
    load_s: _Seconds = None
    unload_s: _Seconds = None
    service_s: _Seconds = None
    first_answer_s: _Seconds = None
    load_cores: Annotated[float | None, Reads(values.positive(MOST_CORES))] = None
    concurrency: Annotated[int | None, Reads(values.whole(1, MOST_AT_ONCE))] = None

    @property
    def by_hand(self) -> dict[str, Any]:
        """Fields of Figures that are given."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {name: given[name] for name in given if name not in ("report", "match")}


@dataclass(frozen=True)
class ArchiveKind:
    """Archives that are alike."""

    figures: ArchiveFigures
    #: Their target models' names, as *.tar.gz; None: those of no other kind, in turns.
    match: str | None = None
    source: str = "given by hand"  # of its figures


@dataclass(frozen=True)
class InstancesTable(Table):
    """Instances to try."""

    #: None: those of [[instance_types]].
    types: Annotated[tuple[str, ...] | None, Reads(_read_texts)] = None
    #: A candidate of each type and count.
    counts: Annotated[tuple[int, ...], Reads(_read_counts)] = (1,)


@dataclass(frozen=True)
class ContainerTable(Table):
    """The containers of all instances, whatever their type; bytes."""

    base_memory: Annotated[int, Reads(values.size)] = 0
    base_gpu_memory: Annotated[int, Reads(values.size)] = 0
    disk: Annotated[int | None, Reads(values.size)] = None  # None: no bound
    ready_s: Annotated[float, Reads(values.number())] = 240.0
    #: How many times as fast a core is as one of the machine of the archives' figures.
    speed: Annotated[float, Reads(values.positive(_MOST_FACTOR))] = 1.0


@dataclass(frozen=True)
class AutoscalingTable(Table):
    """Target tracking to try."""

    target: Annotated[float, Reads(values.positive())]  # invocations of an instance a minute
    #: (least, most) instances, a candidate of each.
    bounds: Annotated[Sequence[tuple[int, int]], Reads(_read_bounds)]
    out_cooldown_s: Annotated[float, Reads(values.number())] = 300.0
    in_cooldown_s: Annotated[float, Reads(values.number())] = 300.0


@dataclass(frozen=True)
class Goals(Table):
    """p99_s: of all answered requests. cold_share and failures: of all requests. None: any."""

    p99_s: Annotated[float | None, Reads(values.number())] = None
    cold_share: Annotated[float | None, Reads(values.share)] = None
    failures: Annotated[float | None, Reads(values.share)] = None


@dataclass(frozen=True)
class RulesTable(Table, RuleChanges):
    """Rules that differ from the platform's."""


@dataclass(frozen=True)
class TopLevelKeys(Table):
    """Keys above all tables."""

    prices: Annotated[Path | None, Reads(_read_path)] = None
    seed: Annotated[int, Reads(values.whole(0, values.MOST_SEED))] = 1


@dataclass(frozen=True)
class PlanSettings:
    """All that a plan is made of."""

    demand: DemandTable
    kinds: Sequence[ArchiveKind]
    types: Sequence[InstanceType]
    counts: Sequence[int] = (1,)
    container: ContainerTable = ContainerTable()
    autoscaling: AutoscalingTable | None = None
    goals: Goals = Goals()
    #: That differ from the platform's; where loads at once are none of them, they are twice an
    #: instance's cores.
    rules: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, float] | None = None  # of an hour, by instance type
    seed: int = 1
