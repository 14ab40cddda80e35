"""The platform's rules: limits and choices, each with its source; and routing by them."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

MIB = 1024**2
GIB = 1024**3
CORES = os.cpu_count() or 1


class CacheSetting(Enum):
    """ModelCacheSetting of AWS's MultiModelConfig."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class WithoutMemory(Enum):
    """The caller's answer if eviction did not make room; AWS does not say."""

    MODEL_ERROR = "model-error"
    SERVICE_UNAVAILABLE = "service-unavailable"


#: The name that the SageMaker SDK gives to an endpoint's only variant.
VARIANT = "AllTraffic"


@dataclass(frozen=True)
class ExtractionLimits:
    """Limits of an archive; beyond them it is refused before it is written."""

    total_bytes: int = 20 * GIB
    members: int = 100_000
    #: Extracted bytes per byte of the archive, once more than ratio_from_bytes were written.
    ratio: float = 1000.0
    ratio_from_bytes: int = 64 * MIB


@dataclass(frozen=True)
class Rules:
    """Seconds, bytes and counts. Defaults are SageMaker's where it documents them."""

    # AWS, "InvokeEndpoint": 60 s; contract.
    invoke_timeout_s: float = 60.0
    # A stream's reader that takes nothing for so long is left: its model could not be unloaded. AWS
    # does not say; as long as an answer may take.
    stream_stall_s: float = 60.0
    # AWS, "Custom container contract for multi-model endpoints": load and unload 360 s.
    load_timeout_s: float = 360.0
    unload_timeout_s: float = 360.0
    # A caller waits as long for a cold model as for an answer; then ModelNotReadyException.
    cold_wait_s: float = 60.0
    # AWS, "Use your own inference code": /ping within 2 s.
    ping_timeout_s: float = 2.0
    # AWS has containers accept a socket within 250 ms. The kernel does it for a process that is
    # busy; a shorter wait here would only make a starved laptop look dead.
    connect_timeout_s: float = 2.0
    ping_every_s: float = 5.0
    # Failed pings in a row until an instance gets no requests.
    unhealthy_after: int = 3
    # ContainerStartupHealthCheckTimeoutInSeconds' default is 8 minutes in practice.
    startup_s: float = 480.0
    # Between two looks at what a host name means: replicas come and go.
    resolve_every_s: float = 5.0
    stop_s: float = 30.0
    # AWS, "Model hosting FAQs": 25 MB of body on a real-time endpoint (it was 6 MB until 2025).
    payload_bytes: int = 25 * MIB
    # AWS, "InvokeEndpoint": 1 to 1024 printable characters.
    target_model_characters: int = 1024
    # Memory used, of the limit, above which a load unloads others first. AWS does not say.
    memory_threshold: float = 0.9
    # How often room is made for one load or one invocation before the caller is told.
    evictions_per_call: int = 32
    without_memory: WithoutMemory = WithoutMemory.MODEL_ERROR
    cache: CacheSetting = CacheSetting.ENABLED
    # Requests in flight of one model on each of its instances that make another one load it too.
    busy_at: int = 4
    # Loads that one container is asked for at the same time. AWS does not say; more than its cores
    # do make each of them wait for all, and the warm requests beside them.
    loads_at_once: int = 2 * CORES
    # How often a container that ended is started again, in a row without getting healthy.
    restarts: int = 3
    extraction: ExtractionLimits = ExtractionLimits()


@dataclass(frozen=True)
class RoutableInstance:
    """An instance in service, seen from one target model."""

    name: str
    loaded: bool
    coming: bool  # the model is being brought there
    model_in_flight: int
    in_flight: int
    models: int
    memory: float | None  # used/limit; None: not known


@dataclass(frozen=True)
class Route:
    """The instance that answers, and the one that should load a copy meanwhile, if any."""

    name: str
    copy_to: str | None = None


def route(candidates: Sequence[RoutableInstance], busy_at: int) -> Route | None:
    """Where a request goes; None without an instance in service."""
    loaded = [candidate for candidate in candidates if candidate.loaded]
    coming = [candidate for candidate in candidates if candidate.coming and not candidate.loaded]
    others = [
        candidate for candidate in candidates if not candidate.coming and not candidate.loaded
    ]
    if not loaded:
        # Those who wait for a model wait together.
        fitting = coming or others
        return Route(min(fitting, key=_emptiness).name) if fitting else None
    least_busy = min(loaded, key=lambda candidate: (candidate.model_in_flight, candidate.in_flight))
    if others and not coming and least_busy.model_in_flight >= busy_at:
        return Route(least_busy.name, copy_to=min(others, key=_emptiness).name)
    return Route(least_busy.name)


def route_alike(candidates: Sequence[RoutableInstance]) -> Route | None:
    """Where a request goes at a single-model endpoint, whose instances have all the same.

    The least busy one, and any of those: AWS takes any by default ("RoutingStrategy").
    """
    if not candidates:
        return None
    least = min(candidate.in_flight for candidate in candidates)
    return Route(random.choice([one for one in candidates if one.in_flight == least]).name)


def _emptiness(candidate: RoutableInstance) -> tuple[float, int, int, str]:
    """Most free memory first, then fewest models and requests; the name makes it a fixed choice."""
    return (candidate.memory or 0.0, candidate.models, candidate.in_flight, candidate.name)
