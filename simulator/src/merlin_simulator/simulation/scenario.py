"""What is simulated: archives, a type of instance, the platform's rules, and the requests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from merlin_simulator.control.autoscaling.decision import COOLDOWN_S
from merlin_simulator.rules import Rules
from merlin_simulator.simulation.demand import Demand

#: A distribution: its quantiles at equal steps from the least to the most.
Quantiles = tuple[float, ...]


def average(quantiles: Quantiles) -> float:
    """The mean of a distribution; between its quantiles it is linear."""
    ends = (quantiles[0] + quantiles[-1]) / 2
    if len(quantiles) == 1:
        return quantiles[0]
    return (sum(quantiles) - ends) / (len(quantiles) - 1)


@dataclass(frozen=True)
class ArchiveFigures:
    """Measured figures of one archive. Bytes; seconds on a host that does nothing else."""

    name: str
    memory: int
    load_s: Quantiles
    #: A warm request's.
    service_s: Quantiles
    disk: int = 0
    #: With the extraction.
    download_s: Quantiles = (0.0,)
    unload_s: Quantiles = (0.0,)
    #: The answer to a cold request once its model is loaded; None: as a warm one.
    first_answer_s: Quantiles | None = None
    #: Cores that a load keeps busy, and the share of the memory that it takes on average meanwhile.
    load_cores: float = 1.0
    loading_share: float = 0.5
    #: Requests that an instance answers at the same time.
    concurrency: int = 1
    gpu_memory: int = 0

    @cached_property
    def mean_service_s(self) -> float:
        """A warm request's, on average."""
        return average(self.service_s)


@dataclass(frozen=True)
class InstanceSpec:
    """A type of instance. Bytes; None: no bound."""

    #: The platform's limit, above whose threshold it unloads models.
    memory: int | None
    cores: int
    #: What the container takes without a model.
    base_memory: int = 0
    disk: int | None = None
    #: Seconds from the decision for one more instance until it serves.
    ready_s: float = 240.0
    #: Beyond these the container answers 507.
    hard_memory: int | None = None
    gpu_memory: int | None = None
    base_gpu_memory: int = 0
    #: All instances are processes of one host and share its cores.
    one_host: bool = False


@dataclass(frozen=True)
class Scaling:
    """Target tracking on SageMakerVariantInvocationsPerInstance. Seconds."""

    least: int
    most: int
    target: float
    out_cooldown_s: float = COOLDOWN_S
    in_cooldown_s: float = COOLDOWN_S


@dataclass(frozen=True)
class Scenario:
    """All inputs of a simulation."""

    demand: Demand
    #: Archive n is the demand's model n.
    archives: Sequence[ArchiveFigures]
    instance_spec: InstanceSpec
    rules: Rules
    #: Instances at the start.
    count: int
    scaling: Scaling | None = None
    seed: int = 1
    #: Seconds after the demand's end to finish what has begun; cold_wait_s at least.
    settle_s: float = 0.0
    #: Measured seconds of loads in their order, for each kind; archive n is of kind n modulo kinds.
    loads_in_order: Sequence[Sequence[float]] = ()


class Sampler:
    """Draws random numbers: with an equal seed, and in equal order, they are equal."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self, quantiles: Quantiles) -> float:
        """One value of a distribution."""
        if len(quantiles) == 1:
            return quantiles[0]
        rank = self._random.random() * (len(quantiles) - 1)
        below = int(rank)
        low, high = quantiles[below], quantiles[below + 1]
        return low + (high - low) * (rank - below)

    def draw_gap(self, rate: float) -> float:
        """Seconds until the next event of a Poisson process. rate: events a second."""
        return self._random.expovariate(rate)
