"""What is known of an archive, and of a kind of instance: the figures that a plan reckons with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

#: Quantiles that a distribution is kept by, at equal steps from the least to the most.
Quantiles = tuple[float, ...]


def average(quantiles: Quantiles) -> float:
    """The mean of a distribution: quantiles at equal steps are joined by lines."""
    ends = (quantiles[0] + quantiles[-1]) / 2
    if len(quantiles) == 1:
        return quantiles[0]
    return (sum(quantiles) - ends) / (len(quantiles) - 1)


@dataclass(frozen=True)
class Figures:
    """Of one archive. Bytes; seconds of a machine that has nothing else to do.

    services: what a warm request takes; firsts: what the answer to a cold one takes once its model
    is there, None: as a warm one. downloads have the extraction in them. load_cores: how many cores
    a load keeps busy; loading_share: how much of the memory is taken on average while it goes on.
    concurrency: requests of it that an instance answers at the same time. gpu_memory: of the
    instance's GPUs.
    """

    name: str
    memory: int
    disk: int
    downloads: Quantiles
    loads: Quantiles
    unloads: Quantiles
    services: Quantiles
    firsts: Quantiles | None = None
    load_cores: float = 1.0
    loading_share: float = 0.5
    concurrency: int = 1
    gpu_memory: int = 0

    @cached_property
    def service_s(self) -> float:
        """A warm request's, on average."""
        return average(self.services)

    @cached_property
    def load_s(self) -> float:
        """A load's, on average."""
        return average(self.loads)


@dataclass(frozen=True)
class Machine:
    """A kind of instance. Bytes; base_memory: what the container takes without a model.

    memory is what the platform looks at; beyond hard_memory and gpu_memory the container answers
    507. None: no bound. ready_s: from the wish for one more until it serves. one_host: all
    instances are processes of one machine, and share its cores.
    """

    memory: int | None
    cores: int
    base_memory: int = 0
    disk: int | None = None
    ready_s: float = 240.0
    hard_memory: int | None = None
    gpu_memory: int | None = None
    base_gpu_memory: int = 0
    one_host: bool = False
