"""PURE but for the number of descriptors. The settings as serve/ is bounded by them.

serve/ does not know the environment: each number comes with the name that its messages say.
"""

from __future__ import annotations

from container.machine.descriptors import most_connections
from container.settings import Settings
from container.settings.values import MIB
from ensemble_tools.commands.setting_names import CONTAINERS_NAMES
from serve.http.connections import ConnectionLimits
from serve.limit import Limit, TimeLimit
from serve.models.waiting_room import Bounds

MODEL_ROOT = "SERVE_MODEL_ROOT"
TRANSLATE_JSON_FROM = "SERVE_TRANSLATE_JSON_FROM"
STREAMING = "SAGEMAKER_TRITON_INFERENCE_TYPE=generate_stream"

#: Longer than load balancers and the platform keep idle connections (60 s and less).
_KEEP_ALIVE_S = 75

#: What is said of an archive sends people to these, as the commands do.
SETTING_NAMES = CONTAINERS_NAMES


def largest_body(settings: Settings) -> Limit:
    """Of an invocation: what is larger than all bodies may be together would never be taken."""
    return min(
        Limit(settings.max_request_mb * MIB, "SERVE_MAX_REQUEST_MB"),
        _held_bytes(settings),
        _all_held_bytes(settings),
    )


def waiting(settings: Settings) -> Bounds:
    """Of requests that wait, and of bodies that are held."""
    return Bounds(
        Limit(settings.max_waiting, "SERVE_MAX_WAITING"),
        _held_bytes(settings),
        Limit(settings.max_waiting_total, "SERVE_MAX_WAITING_TOTAL"),
        _all_held_bytes(settings),
    )


def connections(settings: Settings) -> ConnectionLimits:
    """Of callers' connections; unset, their number follows from the descriptors there may be."""
    return ConnectionLimits(
        Limit(settings.max_connections or most_connections(), "SERVE_MAX_CONNECTIONS"),
        TimeLimit(settings.read_timeout, "SERVE_READ_TIMEOUT"),
        _KEEP_ALIVE_S,
        settings.invoke_timeout,
        largest_body(settings),
    )


def load_timeout(settings: Settings) -> TimeLimit:
    """Of one load."""
    return TimeLimit(settings.load_timeout, "SERVE_LOAD_TIMEOUT")


def unload_timeout(settings: Settings) -> TimeLimit:
    """Of one unload."""
    return TimeLimit(settings.unload_timeout, "SERVE_UNLOAD_TIMEOUT")


def invoke_timeout(settings: Settings) -> TimeLimit:
    """Of one invocation."""
    return TimeLimit(settings.invoke_timeout, "SERVE_INVOKE_TIMEOUT")


def memory_reserve(settings: Settings) -> Limit:
    """What loads leave free of memory, in bytes."""
    return Limit(settings.memory_reserve_mb * MIB, "SERVE_MEMORY_RESERVE_MB")


def gpu_memory_reserve(settings: Settings) -> Limit:
    """What loads leave free of each GPU's memory, in bytes."""
    return Limit(settings.gpu_memory_reserve_mb * MIB, "SERVE_GPU_MEMORY_RESERVE_MB")


def _held_bytes(settings: Settings) -> Limit:
    return Limit(settings.max_waiting_mb * MIB, "SERVE_MAX_WAITING_MB")


def _all_held_bytes(settings: Settings) -> Limit:
    return Limit(settings.max_waiting_total_mb * MIB, "SERVE_MAX_WAITING_TOTAL_MB")
