"""What one plan reckons, settled before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from merlin_simulator.planning.archives import Figures
from merlin_simulator.plans.instance_types.table import InstanceType
from merlin_simulator.plans.waves import Wave


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
