"""An endpoint's state, as its page draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from merlin_simulator.rules import VARIANT
from merlin_simulator.watch.events import Event, Value

MICROSECONDS = 1_000_000

#: What is kept as sum and sample count.
SUMMARIES: Mapping[str, str] = {
    "ModelLoadingWaitTime": "Microseconds that invocations waited for their model to be there.",
    "ModelUnloadingTime": "Microseconds that the container's unloads took.",
    "ModelDownloadingTime": "Microseconds that downloads took.",
    "ModelLoadingTime": "Microseconds that the container's loads took.",
    "ModelCacheHit": "Invocations whose model was loaded already, out of all of them.",
    "ModelLatency": "Microseconds that the container took to answer.",
    "OverheadLatency": "Microseconds of an invocation that were not the container's.",
}

#: What is only added up.
COUNTERS: Mapping[str, str] = {
    "Invocations": "InvokeEndpoint requests.",
    "InvocationsPerInstance": "InvokeEndpoint requests, each divided by the instances in service.",
    "Invocation4XXErrors": "InvokeEndpoint requests that container or platform ended with 4xx.",
    "Invocation5XXErrors": "InvokeEndpoint requests that container or platform ended with 5xx.",
    "InvocationModelErrors": "Invocations of a container that did not answer with a 2xx status.",
}


def variant_of(event: Event) -> str:
    """The variant that an event is of."""
    return str(event.fields.get("variant", VARIANT))


def measures(event: Event, instances: int) -> Iterator[tuple[str, float]]:
    """The metrics that one event adds to. instances: in service, of its variant."""
    fields = event.fields
    if event.kind == "download_finished":
        yield "ModelDownloadingTime", _microseconds(fields["seconds"])
    elif event.kind == "loaded":
        yield "ModelLoadingTime", _microseconds(fields["seconds"])
    elif event.kind == "unloaded":
        yield "ModelUnloadingTime", _microseconds(fields["seconds"])
    elif event.kind in ("invoked", "invocation_failed"):
        yield "Invocations", 1.0
        yield "InvocationsPerInstance", 1.0 / max(1, instances)
        yield from _answered(fields) if event.kind == "invoked" else _failed(fields)


def _answered(fields: Mapping[str, Value]) -> Iterator[tuple[str, float]]:
    waiting = _microseconds(fields["waiting_seconds"])
    yield "OverheadLatency", waiting
    yield "ModelLatency", _microseconds(fields["seconds"]) - waiting
    yield from _cache(fields)
    if fields["cold"]:
        yield "ModelLoadingWaitTime", waiting


def _failed(fields: Mapping[str, Value]) -> Iterator[tuple[str, float]]:
    # AWS counts the container's status: its ModelError is a 424 to the caller, whatever it was.
    original = fields.get("original_status")
    status = int(_number(fields["status"] if original is None else original))
    if 400 <= status < 500:
        yield "Invocation4XXErrors", 1.0
    elif status >= 500 or status == 0:  # 0: it did not answer in time
        yield "Invocation5XXErrors", 1.0
    if fields["error"] == "ModelError":
        yield "InvocationModelErrors", 1.0
        yield from _cache(fields)


def _cache(fields: Mapping[str, Value]) -> Iterator[tuple[str, float]]:
    """A hit or a miss; only a target model can be one."""
    if fields.get("target_model") is not None:
        yield "ModelCacheHit", 0.0 if fields["cold"] else 1.0


def _loaded(instance: InstanceView) -> float:
    return float(sum(model.state is ModelState.LOADED for model in instance.models))


def _cpu(instance: InstanceView) -> float | None:
    return instance.cpu_percent


def _memory(instance: InstanceView) -> float | None:
    return _percent(instance.memory_used, instance.memory_limit)


def _disk(instance: InstanceView) -> float | None:
    return _percent(instance.disk_used, instance.disk_budget)


#: What is read off an instance: the metric's words, and how; None where it is not known.
GAUGES: Mapping[str, tuple[str, Callable[[InstanceView], float | None]]] = {
    "LoadedModelCount": ("Models loaded.", _loaded),
    "CPUUtilization": ("Percent of one core in use.", _cpu),
    "MemoryUtilization": ("Percent of the memory limit in use.", _memory),
    "DiskUtilization": ("Percent of the disk budget in use.", _disk),
}


def _percent(used: int | None, limit: int | None) -> float | None:
    return None if used is None or not limit else 100.0 * used / limit


def _microseconds(seconds: Value) -> float:
    return _number(seconds) * MICROSECONDS


def _number(value: Any) -> float:
    return float(value)


class ModelState(Enum):
    """Where a target model is on one instance."""

    DOWNLOADING = "downloading"  # being fetched or extracted
    ON_DISK = "on disk"  # extracted, not loaded
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"


class InstanceState(Enum):
    """The state of an instance for the platform."""

    STARTING = "starting"  # inside its start-up window
    IN_SERVICE = "in service"
    UNHEALTHY = "unhealthy"  # gets no requests until it answers again
    FAILED = "failed"  # will not come back: its start-up window or its restarts are used up
    STOPPED = "stopped"


class FleetPart(Enum):
    """The part that a variant's instances have in an update of the endpoint."""

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
    """An object with a state to show: the endpoint, or in tests a fake."""

    def view(self) -> EndpointView:
        """The endpoint as it stands now; does not block."""
        ...
