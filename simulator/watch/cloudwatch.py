"""/metrics: what CloudWatch would show of this endpoint, under its names, for Prometheus.

Names, meanings and units are those of AWS, "Amazon SageMaker AI metrics in Amazon CloudWatch":
times are microseconds, utilizations percent. What CloudWatch keeps as a statistic set (sum and
sample count) is a summary here, what it only adds up a counter, to whose name Prometheus appends
_total. InstanceName is empty where no instance had a part in it.

Not there, since the simulator does not measure it: GPUUtilization and GPUMemoryUtilization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulator.rules import VARIANT
from simulator.watch.events import Event, EventLog, Value
from simulator.watch.view import EndpointView, InstanceState, InstanceView, ModelState, Viewed

#: The dimensions of AWS's metrics, and with InstanceName those of its enhanced ones.
LABELS = ("EndpointName", "VariantName", "InstanceName")

MICROSECONDS = 1_000_000

#: Prometheus' text format, as its scrapers ask for it.
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

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


#: The events after which an instance is in service, or no longer.
_SERVING: Mapping[str, bool] = {
    "instance_in_service": True,
    "instance_unhealthy": False,
    "instance_ended": False,
}


class CloudWatchMetrics:
    """Adds up what the log tells from now on; gauges are read off the endpoint at each scrape."""

    def __init__(self, log: EventLog, endpoint: Viewed) -> None:
        self._endpoint = endpoint
        self._serving = _serving(endpoint.view())
        self._sums: dict[tuple[str, str], tuple[int, float]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._stop = log.listen(self._add)

    def text(self) -> bytes:
        """Every metric in Prometheus' text format."""
        return bytes(generate_latest(self._registry))

    def close(self) -> None:
        """Stop listening; what was added up stays."""
        self._stop()

    def collect(self) -> Iterable[Metric]:
        """The metrics as they stand, for the registry."""
        view = self._endpoint.view()
        yield from self._summaries(view.endpoint_name)
        yield from self._counters(view.endpoint_name)
        yield from _gauges(view)

    def _add(self, event: Event) -> None:
        if event.instance is not None and event.kind in _SERVING:
            (self._serving.add if _SERVING[event.kind] else self._serving.discard)(event.instance)
        for name, value in _measures(event, len(self._serving)):
            key = (name, event.instance or "")
            count, total = self._sums.get(key, (0, 0.0))
            self._sums[key] = (count + 1, total + value)

    def _summaries(self, endpoint_name: str) -> Iterator[Metric]:
        for name, words in SUMMARIES.items():
            family = SummaryMetricFamily(name, words, labels=LABELS)
            for instance, (count, total) in self._of(name):
                family.add_metric((endpoint_name, VARIANT, instance), count, total)
            yield family

    def _counters(self, endpoint_name: str) -> Iterator[Metric]:
        for name, words in COUNTERS.items():
            family = CounterMetricFamily(name, words, labels=LABELS)
            for instance, (_, total) in self._of(name):
                family.add_metric((endpoint_name, VARIANT, instance), total)
            yield family

    def _of(self, name: str) -> Iterator[tuple[str, tuple[int, float]]]:
        found = {instance: sums for (kept, instance), sums in self._sums.items() if kept == name}
        yield from sorted(found.items())


def make_metrics_routes(metrics: CloudWatchMetrics) -> list[Route]:
    """/metrics."""

    async def scrape(_: Request) -> Response:
        headers = {"Cache-Control": "no-store"}
        return Response(metrics.text(), headers=headers, media_type=MEDIA_TYPE)

    return [Route("/metrics", scrape)]


def _serving(view: EndpointView) -> set[str]:
    return {
        instance.name for instance in view.instances if instance.state is InstanceState.IN_SERVICE
    }


def _measures(event: Event, instances: int) -> Iterator[tuple[str, float]]:
    """What one event adds to which metric."""
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


def _gauges(view: EndpointView) -> Iterator[Metric]:
    yield _gauge(view, "LoadedModelCount", "Models loaded.", _loaded)
    yield _gauge(view, "CPUUtilization", "Percent of one core in use.", _cpu)
    yield _gauge(view, "MemoryUtilization", "Percent of the memory limit in use.", _memory)
    yield _gauge(view, "DiskUtilization", "Percent of the disk budget in use.", _disk)


def _gauge(
    view: EndpointView, name: str, words: str, read: Callable[[InstanceView], float | None]
) -> Metric:
    """One gauge over the instances; those where read finds nothing are left out."""
    family = GaugeMetricFamily(name, words, labels=LABELS)
    for instance in view.instances:
        if (value := read(instance)) is not None:
            family.add_metric((view.endpoint_name, VARIANT, instance.name), value)
    return family


def _loaded(instance: InstanceView) -> float:
    return float(sum(model.state is ModelState.LOADED for model in instance.models))


def _cpu(instance: InstanceView) -> float | None:
    return instance.cpu_percent


def _memory(instance: InstanceView) -> float | None:
    return _percent(instance.memory_used, instance.memory_limit)


def _disk(instance: InstanceView) -> float | None:
    return _percent(instance.disk_used, instance.disk_budget)


def _percent(used: int | None, limit: int | None) -> float | None:
    return None if used is None or not limit else 100.0 * used / limit


def _microseconds(seconds: Value) -> float:
    return _number(seconds) * MICROSECONDS


def _number(value: Any) -> float:
    return float(value)
