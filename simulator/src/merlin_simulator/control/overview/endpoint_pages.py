"""Each endpoint as its own page shows it, from its creation to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.control.sagemaker.models import container_of
from merlin_simulator.control.sagemaker.played import Played
from merlin_simulator.rules import Rules
from merlin_simulator.watch.page_routes import Watched
from merlin_simulator.watch.view import EndpointView


@dataclass(frozen=True)
class Shown:
    """An endpoint as it stands, in service or not; also while fleets come and go."""

    played: Played
    rules: Rules

    def view(self) -> EndpointView:
        """Of all its instances: those that serve, those that come up, those that leave."""
        deployment = self.played.deployment
        deployed = tuple(deployment.deployed())
        instances = tuple(
            replace(instance.view(), variant=one.fleet.variant.name, fleet=part)
            for part, one in deployed
            for instance in one.fleet.variant.instances
        )
        whole = deployed[0][1].fleet.variant.view() if deployed else self._view_of_record()
        return replace(whole, sequence=deployment.log.last, instances=instances)

    def more(self) -> Mapping[str, Any]:
        """What else its page says."""
        record = self.played.record
        return {
            "status": self.played.status,
            "failure_reason": record.get("FailureReason"),
            "config": record["EndpointConfigName"],
        }

    def _view_of_record(self) -> EndpointView:
        """Nothing is deployed: as its configuration has it."""
        record = self.played.record
        container = container_of(record["Models"][record["ProductionVariants"][0]["ModelName"]])
        cache = container.get("MultiModelConfig", {}).get("ModelCacheSetting")
        return EndpointView(
            self.played.name,
            container.get("Mode") == "MultiModel",
            str(container.get("ModelDataUrl") or ""),
            cache or self.rules.cache.value,
            self.played.deployment.log.last,
            (),
        )


class EndpointPages:
    """What the pages of endpoints show, by name."""

    def __init__(self, endpoints: Endpoints, rules: Rules) -> None:
        self._endpoints, self._rules = endpoints, rules
        self._watched: dict[str, Watched] = {}

    def find(self, name: str) -> Watched | None:
        """None: there is no endpoint of that name."""
        played = self._endpoints.look(name)
        if played is None:
            return None
        watched = self._watched.get(name)
        if watched is None or watched.log is not played.deployment.log:
            shown, log = Shown(played, self._rules), played.deployment.log
            watched = Watched(shown, log, self._rules.memory_threshold, shown.more)
            self._watched[name] = watched
        return watched

    def views(self) -> tuple[EndpointView, ...]:
        """Of all endpoints, in the order of their creation."""
        return tuple(Shown(one, self._rules).view() for one in self._endpoints.played())

    def forget(self, name: str) -> None:
        """It is gone: whoever follows its events hears that there are no more."""
        watched = self._watched.pop(name, None)
        if watched is not None:
            watched.ended.set()

    def end(self) -> None:
        """The simulator ends: so do all events that are followed."""
        for watched in self._watched.values():
            watched.ended.set()
