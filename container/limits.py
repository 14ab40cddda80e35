"""The settings as serve/ is bounded by them. No I/O, but for the number of descriptors.

serve/ does not know the environment: each number comes with the name that its messages say.
"""

from __future__ import annotations

from container.machine.descriptors import count_connections_allowed
from container.settings.reading import Settings
from container.settings.values import MIB
from serve.http.connections import ConnectionLimits
from serve.limit import Limit, RateLimit, TimeLimit
from serve.models.request_queue import Bounds

MODEL_ROOT = "SERVE_MODEL_ROOT"
FEATURE_METRICS = "SERVE_FEATURE_METRICS"
TRANSLATE_JSON_FROM = "SERVE_TRANSLATE_JSON_FROM"
STREAMING = "SAGEMAKER_TRITON_INFERENCE_TYPE=generate_stream"

_BUDGET = "SERVE_MAX_WAITING_TOTAL_MB"
#: One model may hold the budget's share: else one that is slow would take it from all others.
_SHARE = 4

#: Longer than load balancers and the platform keep idle connections (60 s and less).
_KEEP_ALIVE_S = 75


def largest_body(settings: Settings) -> Limit:
    """The largest body of an invocation: more than all of one model's together is never taken."""
    return min(
        Limit(settings.max_request_mb * MIB, "SERVE_MAX_REQUEST_MB"),
        _one_models_bytes(settings),
    )


def waiting(settings: Settings) -> Bounds:
    """The bounds of requests that wait, and of bodies that are held."""
    total = Limit(settings.max_waiting_total_mb * MIB, _BUDGET)
    return Bounds(held_bytes=_one_models_bytes(settings), total_held_bytes=total)


def connections(settings: Settings, read_timeout_s: float) -> ConnectionLimits:
    """The bound of callers' connections, which follows from the descriptors there may be."""
    return ConnectionLimits(
        count_connections_allowed(),
        read_timeout_s,
        _KEEP_ALIVE_S,
        settings.invoke_timeout,
        largest_body(settings),
    )


def request_rate(settings: Settings) -> RateLimit:
    """Requests of one model in a second; 0 for any number."""
    return RateLimit(settings.rate_limit, "SERVE_RATE_LIMIT")


def load_timeout(settings: Settings) -> TimeLimit:
    """Seconds for one load."""
    return TimeLimit(settings.load_timeout, "SERVE_LOAD_TIMEOUT")


def invoke_timeout(settings: Settings) -> TimeLimit:
    """Seconds for one invocation."""
    return TimeLimit(settings.invoke_timeout, "SERVE_INVOKE_TIMEOUT")


def memory_reserve(settings: Settings) -> Limit:
    """Bytes of memory that loads leave free."""
    return Limit(settings.memory_reserve_mb * MIB, "SERVE_MEMORY_RESERVE_MB")


def gpu_memory_reserve(settings: Settings) -> Limit:
    """Bytes of each GPU's memory that loads leave free."""
    return Limit(settings.gpu_memory_reserve_mb * MIB, "SERVE_GPU_MEMORY_RESERVE_MB")


def _one_models_bytes(settings: Settings) -> Limit:
    most = settings.max_waiting_total_mb * MIB // _SHARE
    return Limit(most, f"a quarter of {_BUDGET}")
