"""What events and instances add to which metric of SageMaker's. No I/O.

Names, meanings and units are those of AWS, "Amazon SageMaker AI metrics in Amazon CloudWatch":
times are microseconds, utilizations percent.

Not there, since the simulator does not measure it: GPUUtilization and GPUMemoryUtilization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from merlin_simulator.rules import VARIANT
from merlin_simulator.watch.events import Event, Value
from merlin_simulator.watch.view import InstanceView, ModelState

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
    """What one event adds to which metric. instances: in service, of its variant."""
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
