"""The endpoint as it stands now, as plain data: what the page draws and tests look at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from merlin_simulator.rules import VARIANT


class ModelState(Enum):
    """Where a target model is on one instance."""

    DOWNLOADING = "downloading"  # being fetched or extracted
    ON_DISK = "on disk"  # extracted, not loaded
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"


class InstanceState(Enum):
    """What the platform does with an instance."""

    STARTING = "starting"  # inside its start-up window
    IN_SERVICE = "in service"
    UNHEALTHY = "unhealthy"  # gets no requests until it answers again
    FAILED = "failed"  # will not come back: its start-up window or its restarts are used up
    STOPPED = "stopped"


class FleetPart(Enum):
    """What the instances of a variant are to its endpoint's requests, during an update."""

    SERVING = "serving"
    COMING = "coming"  # of the new configuration: they take over when all are in service
    LEAVING = "leaving"  # of the old one: they answer what they have


@dataclass(frozen=True)
class ModelView:
    """One target model on one instance. Bytes; seconds since the epoch; None where not known."""

    target_model: str
    model_name: str
    state: ModelState
    memory: int | None
    disk: int
    in_flight: int
    invocations: int
    last_used: float | None


@dataclass(frozen=True)
class InstanceView:
    """One container. Memory and CPU are None where they cannot be seen, limits where unset.

    cpu_percent is of one core, as AWS has it: above 100 where several are busy.
    """

    name: str
    url: str
    state: InstanceState
    message: str
    memory_used: int | None
    memory_limit: int | None
    disk_used: int
    disk_budget: int | None
    in_flight: int
    models: tuple[ModelView, ...]
    cpu_percent: float | None = None
    variant: str = VARIANT
    fleet: FleetPart = FleetPart.SERVING


@dataclass(frozen=True)
class EndpointView:
    """The endpoint: where its archives come from, the last event's number, its instances."""

    endpoint_name: str
    multi_model: bool
    models: str
    cache: str
    sequence: int
    instances: tuple[InstanceView, ...]


class Viewed(Protocol):
    """What can be looked at: the endpoint, or in tests a stand-in."""

    def view(self) -> EndpointView:
        """The endpoint as it stands now; does not block."""
        ...
