"""What endpoints do, as the metrics that SageMaker publishes of them, under AWS's names.

AWS, "Amazon SageMaker AI metrics in Amazon CloudWatch": invocations and models in AWS/SageMaker,
utilizations in /aws/sagemaker/Endpoints, both with EndpointName and VariantName.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, Metric, MetricStore, make_metric
from merlin_simulator.watch.events import Event
from merlin_simulator.watch.measures import GAUGES, measures, variant_of
from merlin_simulator.watch.view import EndpointView, InstanceState

INVOCATIONS, INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"

_INVOKED = ("invoked", "invocation_failed")
#: AWS: "1 is sent; otherwise, 0 is sent".
_ERRORS = ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors")
_MICROSECONDS = frozenset(
    {
        "ModelLatency",
        "OverheadLatency",
        "ModelLoadingWaitTime",
        "ModelUnloadingTime",
        "ModelDownloadingTime",
        "ModelLoadingTime",
    }
)
#: AWS publishes ConcurrentRequestsPerModel every ten seconds.
_CONCURRENCY_EVERY_S = 10.0
#: However fast the platform's time goes, this machine's seconds between two looks.
_LEAST_S = 0.05
#: Minutes that are made up for when it goes so fast that some are over between two looks.
_MADE_UP = 60


class EndpointMetrics:
    """Hears of every endpoint's events, and looks at every instance once a minute.

    views: the endpoints as they stand now. in_service: how many instances an endpoint's variant has
    in service now.
    """

    def __init__(
        self,
        store: MetricStore,
        clock: Clock,
        views: Callable[[], Iterable[EndpointView]],
        in_service: Callable[[str, str], int],
    ) -> None:
        self._store, self._clock = store, clock
        self._views, self._in_service = views, in_service
        self._metrics: dict[tuple[str, str, str, str], Metric] = {}

    def hear(self, endpoint_name: str, event: Event) -> None:
        """An event of an endpoint."""
        variant = variant_of(event)
        measured = list(measures(event, self._in_service(endpoint_name, variant)))
        if event.kind in _INVOKED:
            names = {name for name, _ in measured}
            measured += [(name, 0.0) for name in _ERRORS if name not in names]
        for name, value in measured:
            unit = "Microseconds" if name in _MICROSECONDS else "None"
            self._add(INVOCATIONS, endpoint_name, variant, name, value, unit)

    def gauge(self, at: float) -> None:
        """Look at every instance that is in service. at: the time that it is published for.

        AWS, "Instructions for editing a scaling policy": a variant that nobody asks has zeros.
        """
        for view in self._views():
            serving = [one for one in view.instances if one.state is InstanceState.IN_SERVICE]
            for variant in sorted({instance.variant for instance in serving}):
                where = (INVOCATIONS, view.endpoint_name, variant)
                self._add(*where, "InvocationsPerInstance", 0.0, "None", at)
            for instance in serving:
                for name, (_, read) in GAUGES.items():
                    if name == "LoadedModelCount" and not view.multi_model:
                        continue
                    if (value := read(instance)) is not None:
                        unit = "None" if name == "LoadedModelCount" else "Percent"
                        where = (INSTANCES, view.endpoint_name, instance.variant)
                        self._add(*where, name, value, unit, at)

    def gauge_concurrency(self) -> None:
        """Count the requests that are being answered."""
        for view in self._views():
            in_flight = dict[str, int]()
            for instance in view.instances:
                before = in_flight.get(instance.variant, 0)
                in_flight[instance.variant] = before + instance.in_flight
            for variant, count in in_flight.items():
                where = (INVOCATIONS, view.endpoint_name, variant)
                self._add(*where, "ConcurrentRequestsPerModel", float(count), "None")

    async def run(self) -> None:
        """Until cancelled."""
        minute = self._minute() - 1
        while True:
            now = self._minute()
            for passed in range(max(minute + 1, now - _MADE_UP), now + 1):
                self.gauge(passed * float(RESOLUTION_S))
            minute = now
            self.gauge_concurrency()
            await asyncio.sleep(max(_LEAST_S, _CONCURRENCY_EVERY_S / self._clock.scale))

    def _minute(self) -> int:
        return int(self._clock.now() // RESOLUTION_S)

    def _add(
        self,
        namespace: str,
        endpoint: str,
        variant: str,
        name: str,
        value: float,
        unit: str,
        at: float | None = None,
    ) -> None:
        key = (namespace, endpoint, variant, name)
        metric = self._metrics.get(key)
        if metric is None:
            dimensions = {"EndpointName": endpoint, "VariantName": variant}
            metric = self._metrics[key] = make_metric(namespace, name, dimensions)
        self._store.add(metric, value, self._clock.now() if at is None else at, unit)
