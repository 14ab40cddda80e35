"""What is known of an archive, and of a kind of instance: the figures that a plan reckons with."""

from __future__ import annotations

from dataclasses import dataclass

#: Quantiles that a distribution is kept by, from 0 to 1.
Quantiles = tuple[float, ...]


@dataclass(frozen=True)
class Figures:
    """Of one archive. Bytes; seconds of a machine that has nothing else to do.

    services: what a warm request takes, as quantiles at equal steps from the least to the most.
    download_s has the extraction in it. load_cores: how many cores a load keeps busy.
    concurrency: requests of it that an instance answers at the same time.
    """

    name: str
    memory: int
    disk: int
    download_s: float
    load_s: float
    unload_s: float
    services: Quantiles
    load_cores: float = 1.0
    concurrency: int = 1

    @property
    def service_s(self) -> float:
        """On average: quantiles at equal steps are joined by lines."""
        ends = (self.services[0] + self.services[-1]) / 2
        if len(self.services) == 1:
            return self.services[0]
        return (sum(self.services) - ends) / (len(self.services) - 1)


@dataclass(frozen=True)
class Machine:
    """A kind of instance. Bytes; base_memory: what the container takes without a model.

    disk None: no bound. ready_s: from the wish for one more until it serves.
    """

    memory: int
    cores: int
    base_memory: int = 0
    disk: int | None = None
    ready_s: float = 240.0
