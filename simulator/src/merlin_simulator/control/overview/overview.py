"""Everything at a glance, as JSON: endpoints, variants, instances, activities, alarms, clock."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from merlin_simulator.control.autoscaling.names import DIMENSION
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.overview.sources import Activities, Alarms, Described
from merlin_simulator.control.overview.traffic import SAMPLE_S, Rates, Traffic
from merlin_simulator.control.sagemaker.deployment import Production
from merlin_simulator.control.sagemaker.played import Played
from merlin_simulator.instance.instance import Instance
from merlin_simulator.watch.view import FleetPart, ModelState

#: Scaling activities that are told, newest first.
_ACTIVITIES = 50
#: What is scaled of a variant: its number of instances.


class Listed(Protocol):
    """Where the endpoints are."""

    def played(self) -> tuple[Played, ...]:
        """All of them, in the order of their creation."""
        ...


@dataclass(frozen=True)
class Overview:
    """The control plane as it stands. run: tells this one from the one before a restart."""

    endpoints: Listed
    clock: Clock
    traffic: Traffic
    activities: Activities
    alarms: Alarms
    region: str
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def as_json(self, since: float = 0.0) -> dict[str, Any]:
        """The whole; of each endpoint's course what is newer than since.

        Times are seconds since the epoch on the platform's clock, memory is bytes, null where it
        is not known. Rates are per minute of the platform. What AWS describes has AWS's members.

            {"run": "5f0c…", "region": "us-east-1",
             "clock": {"now": 1760000000.0, "scale": 60.0},
             "window_s": 600.0,                      rates are taken from the last so many seconds
             "sample_s": 120.0,                      from one point of a course to the next
             "endpoints": [
               {"name": "shop", "status": "InService", "failure_reason": null, "config": "shop-2",
                "pending_config": null, "created": …, "modified": …,
                "page": "/simulator/endpoints/shop/",
                "requests_per_minute": 1200.0, "errors_per_minute": 0.0,
                "requests": 52345, "errors": 3,      of all time
                "course": [[at, instances in service, requests, errors], …],
                "variants": [
                  {"name": "AllTraffic", "fleet": "serving" | "coming" | "leaving",
                   "model": "shop", "multi_model": true, "instance_type": "ml.c5.xlarge",
                   "weight": 1.0, "share": 1.0,      of the traffic; null unless serving
                   "in_service": 2, "desired": 3, "requests_per_minute": 1200.0,
                   "scaling": {"target": ScalableTarget, "policies": [ScalingPolicy, …]} | null,
                   "instances": [
                     {"name": "AllTraffic-1", "state": "in service", "message": "",
                      "memory_used": …, "memory_limit": …, "cpu_percent": 12.0,
                      "in_flight": 1, "loaded": 12, "on_the_way": 1}, …]}, …]}, …],
             "activities": [ScalingActivity, …],     newest first, at most 50
             "alarms": [MetricAlarm, …]}
        """
        scaling = _scaling(self.activities)
        return {
            "run": self.run,
            "region": self.region,
            "clock": {"now": self.clock.now(), "scale": self.clock.scale},
            "window_s": self.traffic.window_s,
            "sample_s": SAMPLE_S * self.clock.scale,
            "endpoints": [self._endpoint(one, scaling, since) for one in self.endpoints.played()],
            "activities": [
                _plain(one) for one in self.activities.scaling_activities()[:_ACTIVITIES]
            ],
            "alarms": [_plain(one) for one in self.alarms.metric_alarms()],
        }

    def counts(self) -> dict[str, int]:
        """Endpoints by status."""
        found = defaultdict[str, int](int)
        for played in self.endpoints.played():
            found[played.status] += 1
        return dict(found)

    async def run_sampling(self) -> None:
        """Keeps each endpoint's course going, until cancelled."""
        while True:
            self.traffic.sample({one.name: _in_service(one) for one in self.endpoints.played()})
            await asyncio.sleep(SAMPLE_S)

    def _endpoint(
        self, played: Played, scaling: Mapping[str, Described], since: float
    ) -> dict[str, Any]:
        record, rates = played.record, self.traffic.rates(played.name)
        deployed = tuple(played.deployment.deployed())
        whole = sum(one.weight for part, one in deployed if part is FleetPart.SERVING)
        return {
            "name": played.name,
            "status": played.status,
            "failure_reason": record.get("FailureReason"),
            "config": record["EndpointConfigName"],
            "pending_config": record.get("Pending", {}).get("EndpointConfigName"),
            "created": record["CreationTime"],
            "modified": record["LastModifiedTime"],
            "page": f"/simulator/endpoints/{played.name}/",
            "requests_per_minute": rates.requests,
            "errors_per_minute": rates.errors,
            "requests": rates.all_requests,
            "errors": rates.all_errors,
            "course": [
                [one.at, one.instances, one.requests, one.errors]
                for one in self.traffic.course(played.name, since)
            ],
            "variants": [
                _variant(
                    part,
                    one,
                    rates,
                    whole,
                    scaling.get(f"endpoint/{played.name}/variant/{one.fleet.variant.name}"),
                )
                for part, one in deployed
            ],
        }


def _variant(
    part: FleetPart, one: Production, rates: Rates, whole: float, scaling: Described | None
) -> dict[str, Any]:
    variant, serving = one.fleet.variant, part is FleetPart.SERVING
    return {
        "name": variant.name,
        "fleet": part.value,
        "model": one.config["ModelName"],
        "multi_model": variant.multi_model,
        "instance_type": one.config["InstanceType"],
        "weight": one.weight,
        "share": one.weight / whole if serving and whole else None,
        "in_service": one.fleet.in_service,
        "desired": one.fleet.wanted,
        "requests_per_minute": rates.by_variant.get(variant.name, 0.0) if serving else 0.0,
        "scaling": scaling if serving else None,
        "instances": [_instance(instance) for instance in variant.instances],
    }


def _instance(instance: Instance) -> dict[str, Any]:
    view = instance.view()
    held = [model for model in view.models if model.state is not ModelState.ON_DISK]
    loaded = sum(model.state is ModelState.LOADED for model in held)
    return {
        "name": view.name,
        "state": view.state.value,
        "message": view.message,
        "memory_used": view.memory_used,
        "memory_limit": view.memory_limit,
        "cpu_percent": view.cpu_percent,
        "in_flight": view.in_flight,
        "loaded": loaded,
        "on_the_way": len(held) - loaded,
    }


def _in_service(played: Played) -> int:
    return sum(one.fleet.in_service for one in played.deployment.productions.values())


def _scaling(activities: Activities) -> dict[str, Described]:
    """What is registered for the instances of variants, by resource."""
    policies = defaultdict[str, list[Any]](list)
    for policy in _of_counts(activities.scaling_policies()):
        policies[policy["ResourceId"]].append(_plain(policy))
    return {
        target["ResourceId"]: {
            "target": _plain(target),
            "policies": policies.get(target["ResourceId"], []),
        }
        for target in _of_counts(activities.scalable_targets())
    }


def _of_counts(described: Iterable[Described]) -> Iterable[Described]:
    return (one for one in described if one.get("ScalableDimension") == DIMENSION)


def _plain(value: Any) -> Any:
    """As JSON knows it: datetimes as seconds since the epoch."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.timestamp() if isinstance(value, datetime) else value
