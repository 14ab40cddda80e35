"""InvocationsPerInstance of every variant: what target tracking goes by, and nothing else.

AWS, "Monitor Amazon SageMaker AI with Amazon CloudWatch": each request adds 1/instances. A variant
that nobody asks has zeros ("Instructions for editing a scaling policy").
"""

from __future__ import annotations

from simulator.control.clock import Clock
from simulator.control.cloudwatch.store import RESOLUTION_S, MetricStore, make_metric
from simulator.control.sagemaker.endpoints import Endpoints
from simulator.watch.events import Event

_NAME = "InvocationsPerInstance"


class Invocations:
    """Fills the store: by each invocation, and with a zero in each minute."""

    def __init__(self, endpoints: Endpoints, store: MetricStore, clock: Clock) -> None:
        self._endpoints, self._store, self._clock = endpoints, store, clock
        endpoints.listeners.event.append(self._heard)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            for played in self._endpoints.played():
                if played.deployment.endpoint is not None:
                    for variant in played.deployment.productions:
                        self._add(played.name, variant, 0.0)
            now = self._clock.now()
            await self._clock.sleep((now // RESOLUTION_S + 1) * RESOLUTION_S - now)

    def _heard(self, endpoint_name: str, event: Event) -> None:
        if event.kind not in ("invoked", "invocation_failed"):
            return
        variant = str(event.fields["variant"])
        found = self._endpoints.find_variant(endpoint_name, variant)
        instances = 0 if found is None else found["CurrentInstanceCount"]
        self._add(endpoint_name, variant, 1.0 / max(1, instances))

    def _add(self, endpoint_name: str, variant: str, value: float) -> None:
        dimensions = {"EndpointName": endpoint_name, "VariantName": variant}
        metric = make_metric("AWS/SageMaker", _NAME, dimensions)
        self._store.add(metric, value, self._clock.now(), "None")
