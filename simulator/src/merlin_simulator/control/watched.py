"""Endpoints as CloudWatch sees them."""

from __future__ import annotations

from collections.abc import Iterator

from merlin_simulator.control.cloudwatch.container_metrics import Page, page_of
from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.control.sagemaker.models import container_of
from merlin_simulator.watch.view import EndpointView, InstanceState


class WatchedEndpoints:
    """Those that answer."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    def views(self) -> Iterator[EndpointView]:
        """The endpoints as they stand now."""
        for played in self._endpoints.played():
            if played.deployment.endpoint is not None:
                yield played.deployment.endpoint.view()

    def in_service(self, endpoint_name: str, variant: str) -> int:
        """How many instances a variant has in service."""
        played = self._endpoints.look(endpoint_name)
        production = None if played is None else played.deployment.productions.get(variant)
        return 0 if production is None else production.fleet.in_service

    def pages(self) -> Iterator[Page]:
        """Where the instances in service have their own metrics."""
        for played in self._endpoints.played():
            config = played.record.get("MetricsConfig")
            for variant, production in played.deployment.productions.items():
                model = played.record["Models"].get(production.config["ModelName"])
                found = None if model is None else page_of(container_of(model), config)
                if found is None:
                    continue
                path, every_s = found
                for instance in production.fleet.variant.instances:
                    if instance.state is InstanceState.IN_SERVICE:
                        url = instance.client.url.rstrip("/") + path
                        yield Page(played.name, variant, instance.name, url, every_s)
