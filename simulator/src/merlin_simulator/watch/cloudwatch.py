"""/metrics: what CloudWatch would show of endpoints, under its names, for Prometheus.

Names, meanings and units: see measures. What CloudWatch keeps as a statistic set (sum and sample
count) is a summary here, what it only adds up a counter, to whose name Prometheus appends _total.
InstanceName is empty where no instance had a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

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

from merlin_simulator.watch.events import Event, EventLog
from merlin_simulator.watch.state import (
    COUNTERS,
    GAUGES,
    SUMMARIES,
    EndpointView,
    InstanceState,
    InstanceView,
    Viewed,
    measures,
    variant_of,
)

#: The dimensions of AWS's metrics, and with InstanceName those of its enhanced ones.
LABELS = ("EndpointName", "VariantName", "InstanceName")

#: Prometheus' text format, as its scrapers ask for it.
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: The events after which an instance is in service, or no longer.
_SERVING: Mapping[str, bool] = {
    "instance_in_service": True,
    "instance_unhealthy": False,
    "instance_ended": False,
}


class EndpointsMetrics:
    """Adds up what it hears of; gauges are read off the endpoints at each scrape.

    views: the endpoints as they stand now. in_service: how many instances an endpoint's variant has
    in service now.
    """

    def __init__(
        self, views: Callable[[], Iterable[EndpointView]], in_service: Callable[[str, str], int]
    ) -> None:
        self._views, self._in_service = views, in_service
        self._sums: dict[tuple[str, tuple[str, str, str]], tuple[int, float]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def hear(self, endpoint_name: str, event: Event) -> None:
        """An event of an endpoint."""
        variant = variant_of(event)
        labels = (endpoint_name, variant, event.instance or "")
        for name, value in measures(event, self._in_service(endpoint_name, variant)):
            count, total = self._sums.get((name, labels), (0, 0.0))
            self._sums[name, labels] = (count + 1, total + value)

    def forget(self, endpoint_name: str) -> None:
        """An endpoint is gone, and what was added up with it."""
        for key in [key for key in self._sums if key[1][0] == endpoint_name]:
            del self._sums[key]

    def text(self) -> bytes:
        """Every metric in Prometheus' text format."""
        return bytes(generate_latest(self._registry))

    def collect(self) -> Iterable[Metric]:
        """The metrics as they stand, for the registry."""
        yield from self._summaries()
        yield from self._counters()
        views = tuple(self._views())
        for name, (sentence, read) in GAUGES.items():
            yield _gauge(views, name, sentence, read)

    def _summaries(self) -> Iterator[Metric]:
        for name, sentence in SUMMARIES.items():
            family = SummaryMetricFamily(name, sentence, labels=LABELS)
            for labels, (count, total) in self._of(name):
                family.add_metric(labels, count, total)
            yield family

    def _counters(self) -> Iterator[Metric]:
        for name, sentence in COUNTERS.items():
            family = CounterMetricFamily(name, sentence, labels=LABELS)
            for labels, (_, total) in self._of(name):
                family.add_metric(labels, total)
            yield family

    def _of(self, name: str) -> Iterator[tuple[tuple[str, str, str], tuple[int, float]]]:
        yield from sorted((key[1], sums) for key, sums in self._sums.items() if key[0] == name)


class CloudWatchMetrics(EndpointsMetrics):
    """Of the one endpoint that a log is of, from now on."""

    def __init__(self, log: EventLog, endpoint: Viewed) -> None:
        view = endpoint.view()
        self._name = view.endpoint_name
        self._serving = {
            instance.name
            for instance in view.instances
            if instance.state is InstanceState.IN_SERVICE
        }
        super().__init__(lambda: (endpoint.view(),), lambda *_: len(self._serving))
        self._stop = log.listen(self._add)

    def close(self) -> None:
        """Stop listening; what was added up stays."""
        self._stop()

    def _add(self, event: Event) -> None:
        if event.instance is not None and event.kind in _SERVING:
            (self._serving.add if _SERVING[event.kind] else self._serving.discard)(event.instance)
        self.hear(self._name, event)


def make_metrics_routes(metrics: EndpointsMetrics) -> list[Route]:
    """/metrics."""

    async def scrape(_: Request) -> Response:
        headers = {"Cache-Control": "no-store"}
        return Response(metrics.text(), headers=headers, media_type=MEDIA_TYPE)

    return [Route("/metrics", scrape)]


def _gauge(
    views: Iterable[EndpointView],
    name: str,
    message: str,
    read: Callable[[InstanceView], float | None],
) -> Metric:
    """One gauge over all instances; those where read finds nothing are left out."""
    family = GaugeMetricFamily(name, message, labels=LABELS)
    for view in views:
        for instance in view.instances:
            if (value := read(instance)) is not None:
                family.add_metric((view.endpoint_name, instance.variant, instance.name), value)
    return family
