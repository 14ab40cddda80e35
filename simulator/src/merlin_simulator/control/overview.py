"""The page of all endpoints, and the same as JSON."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from merlin_simulator.control.autoscaling.service import Autoscaling
from merlin_simulator.control.autoscaling.variants import VariantId
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarms import Alarms
from merlin_simulator.control.sagemaker.deployment import DeployedVariant, ManagedEndpoint
from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.control.sagemaker.resources import container_of
from merlin_simulator.instance.instance import Instance
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import Event
from merlin_simulator.watch.page_routes import (
    Watched,
    answer_json,
    answer_page,
    make_endpoint_routes,
    make_static_routes,
    make_targets,
)
from merlin_simulator.watch.state import EndpointView, FleetPart, ModelState

#: Seconds of this machine that figures per minute are taken from, at least: where the platform's
#: minute is shorter than that, they would jump.
_LEAST_S = 10
#: Points of an endpoint's course, and this machine's seconds from one to the next: a quarter of an
#: hour.
SAMPLE_S = 2.0
_SAMPLES = 450

_MINUTE_S = 60.0
_KINDS = ("invoked", "invocation_failed")


@dataclass
class _Second:
    """The requests of one second."""

    number: int  # of this machine's seconds
    #: By variant, "" for those that came to none.
    requests: Counter[str] = field(default_factory=Counter)
    errors: int = 0


#: When, on the platform; instances in service; requests and errors since the sample before.
HistoryPoint = tuple[float, int, int, int]


class _EndpointHistory:
    def __init__(self, seconds: int) -> None:
        self.recent: deque[_Second] = deque(maxlen=seconds)
        self.samples: deque[HistoryPoint] = deque(maxlen=_SAMPLES)
        self.requests = self.errors = 0
        self.sampled = (0, 0)

    def add(self, second: int, variant: str, failed: bool) -> None:
        if not self.recent or self.recent[-1].number != second:
            self.recent.append(_Second(second))
        self.recent[-1].requests[variant] += 1
        self.recent[-1].errors += failed
        self.requests += 1
        self.errors += failed

    def sample(self, at: float, instances: int) -> None:
        requests, errors = self.requests - self.sampled[0], self.errors - self.sampled[1]
        self.sampled = (self.requests, self.errors)
        self.samples.append((at, instances, requests, errors))


@dataclass(frozen=True)
class Rates:
    """Per minute of the platform; all: since the endpoint or the simulator began."""

    requests: float
    errors: float
    by_variant: Mapping[str, float]
    all_requests: int
    all_errors: int


class RequestRates:
    """Of all endpoints, by name. window_s: the platform's seconds that rates are taken from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds = max(_LEAST_S, round(_MINUTE_S / clock.scale))
        self.window_s = self._seconds * clock.scale
        self._histories: dict[str, _EndpointHistory] = {}

    def hear(self, endpoint_name: str, event: Event) -> None:
        """An event of an endpoint."""
        if event.kind in _KINDS:
            variant = str(event.fields.get("variant") or "")
            failed = event.kind == "invocation_failed"
            self._of(endpoint_name).add(self._second(), variant, failed)

    def sample(self, endpoint_name: str, instances: int) -> None:
        """A point of an endpoint's course; instances: in service."""
        self._of(endpoint_name).sample(self._clock.now(), instances)

    def rates(self, endpoint_name: str) -> Rates:
        """Of the last minute. Of a shorter one than 10 s of this machine: of these 10 s."""
        history, oldest = self._of(endpoint_name), self._second() - self._seconds
        recent = [second for second in history.recent if second.number > oldest]
        minutes = self.window_s / _MINUTE_S
        by_variant = Counter[str]()
        for second in recent:
            by_variant.update(second.requests)
        return Rates(
            sum(by_variant.values()) / minutes,
            sum(second.errors for second in recent) / minutes,
            {name: count / minutes for name, count in by_variant.items()},
            history.requests,
            history.errors,
        )

    def history(self, endpoint_name: str, since: float) -> list[HistoryPoint]:
        """The samples after that time, oldest first; since: on the platform's clock."""
        return [sample for sample in self._of(endpoint_name).samples if sample[0] > since]

    def forget(self, endpoint_name: str) -> None:
        """Drop the history of a deleted endpoint."""
        self._histories.pop(endpoint_name, None)

    def _of(self, endpoint_name: str) -> _EndpointHistory:
        if endpoint_name not in self._histories:
            self._histories[endpoint_name] = _EndpointHistory(self._seconds)
        return self._histories[endpoint_name]

    def _second(self) -> int:
        return int(self._clock.now() / self._clock.scale)


#: Scaling activities that are told, newest first.
_ACTIVITIES = 50


@dataclass(frozen=True)
class Overview:
    """The control plane as it stands."""

    endpoints: Endpoints
    clock: Clock
    traffic: RequestRates
    autoscaling: Autoscaling
    alarms: Alarms
    region: str
    #: Tells this one from the one before a restart.
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
        return {
            "run": self.run,
            "region": self.region,
            "clock": {"now": self.clock.now(), "scale": self.clock.scale},
            "window_s": self.traffic.window_s,
            "sample_s": SAMPLE_S * self.clock.scale,
            "endpoints": [self._endpoint(managed, since) for managed in self.endpoints.all()],
            "activities": self.autoscaling.activities.of(None)[:_ACTIVITIES],
            "alarms": self.alarms.metric_alarms(),
        }

    def counts(self) -> dict[str, int]:
        """Endpoints by status."""
        return dict(Counter(managed.status for managed in self.endpoints.all()))

    async def run_sampling(self) -> None:
        """Keeps each endpoint's course going, until cancelled."""
        while True:
            for managed in self.endpoints.all():
                deployed_variants = managed.deployment.deployed_variants.values()
                in_service = sum(
                    deployed_variant.fleet.in_service for deployed_variant in deployed_variants
                )
                self.traffic.sample(managed.name, in_service)
            await asyncio.sleep(SAMPLE_S)

    def _endpoint(self, managed: ManagedEndpoint, since: float) -> dict[str, Any]:
        record, rates = managed.record, self.traffic.rates(managed.name)
        deployed = tuple(managed.deployment.list_fleets())
        serving = managed.deployment.deployed_variants.values()
        weights = sum(deployed_variant.weight for deployed_variant in serving)
        return {
            "name": managed.name,
            "status": managed.status,
            "failure_reason": record.get("FailureReason"),
            "config": record["EndpointConfigName"],
            "pending_config": record.get("Pending", {}).get("EndpointConfigName"),
            "created": record["CreationTime"],
            "modified": record["LastModifiedTime"],
            "page": f"/simulator/endpoints/{managed.name}/",
            "requests_per_minute": rates.requests,
            "errors_per_minute": rates.errors,
            "requests": rates.all_requests,
            "errors": rates.all_errors,
            "course": self.traffic.history(managed.name, since),
            "variants": [
                self._variant(managed.name, part, deployed_variant, weights, rates)
                for part, deployed_variant in deployed
            ],
        }

    def _variant(
        self, endpoint_name: str, part: FleetPart, of: DeployedVariant, weights: float, rates: Rates
    ) -> dict[str, Any]:
        """weights: of all variants that serve, together."""
        variant, serving = of.fleet.variant, part is FleetPart.SERVING
        resource = str(VariantId(endpoint_name, variant.name))
        return {
            "name": variant.name,
            "fleet": part.value,
            "model": of.config["ModelName"],
            "multi_model": variant.multi_model,
            "instance_type": of.config["InstanceType"],
            "weight": of.weight,
            "share": of.weight / weights if serving and weights else None,
            "in_service": of.fleet.in_service,
            "desired": of.fleet.desired,
            "requests_per_minute": rates.by_variant.get(variant.name, 0.0) if serving else 0.0,
            "scaling": self._scaling(resource) if serving else None,
            "instances": [_instance(instance) for instance in variant.instances],
        }

    def _scaling(self, resource: str) -> dict[str, Any] | None:
        """The scaling that is registered for a variant."""
        scaling = self.autoscaling
        targets = [it for it in scaling.targets.described() if it["ResourceId"] == resource]
        policies = [it for it in scaling.policies.described() if it["ResourceId"] == resource]
        return {"target": targets[0], "policies": policies} if targets else None


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


@dataclass(frozen=True)
class DisplayedEndpoint:
    """An endpoint as it stands, in service or not; also while fleets come and go."""

    managed: ManagedEndpoint
    rules: Rules

    def view(self) -> EndpointView:
        """Of all its instances: those that serve, those that come up, those that leave."""
        deployment = self.managed.deployment
        deployed = tuple(deployment.list_fleets())
        instances = tuple(
            replace(instance.view(), variant=deployed_variant.fleet.variant.name, fleet=part)
            for part, deployed_variant in deployed
            for instance in deployed_variant.fleet.variant.instances
        )
        whole = deployed[0][1].fleet.variant.view() if deployed else self._view_of_record()
        return replace(whole, sequence=deployment.log.last, instances=instances)

    def more(self) -> Mapping[str, Any]:
        """Further data of an endpoint's page."""
        record = self.managed.record
        return {
            "status": self.managed.status,
            "failure_reason": record.get("FailureReason"),
            "config": record["EndpointConfigName"],
        }

    def _view_of_record(self) -> EndpointView:
        """Nothing is deployed: as its configuration has it."""
        record = self.managed.record
        container = container_of(record["Models"][record["ProductionVariants"][0]["ModelName"]])
        cache = container.get("MultiModelConfig", {}).get("ModelCacheSetting")
        return EndpointView(
            self.managed.name,
            container.get("Mode") == "MultiModel",
            str(container.get("ModelDataUrl") or ""),
            cache or self.rules.cache.value,
            self.managed.deployment.log.last,
            (),
        )


class EndpointPages:
    """Data of the pages of endpoints, by name."""

    def __init__(self, endpoints: Endpoints, rules: Rules) -> None:
        self._endpoints, self._rules = endpoints, rules
        self._watched: dict[str, Watched] = {}

    def find(self, name: str) -> Watched | None:
        """None: there is no endpoint of that name."""
        managed = self._endpoints.lookup(name)
        if managed is None:
            return None
        watched = self._watched.get(name)
        if watched is None or watched.log is not managed.deployment.log:
            displayed, log = DisplayedEndpoint(managed, self._rules), managed.deployment.log
            watched = Watched(displayed, log, self._rules.memory_threshold, displayed.more)
            self._watched[name] = watched
        return watched

    def views(self) -> tuple[EndpointView, ...]:
        """Of all endpoints, in the order of their creation."""
        return tuple(
            DisplayedEndpoint(managed, self._rules).view() for managed in self._endpoints.all()
        )

    def forget(self, name: str) -> None:
        """It is gone: whoever follows its events hears that there are no more."""
        watched = self._watched.pop(name, None)
        if watched is not None:
            watched.ended.set()

    def end(self) -> None:
        """The simulator ends: so do all events that are followed."""
        for watched in self._watched.values():
            watched.ended.set()


def make_overview_routes(overview: Overview, pages: EndpointPages) -> list[Route]:
    """All of them GET.

    /simulator/overview: see Overview.as_json; ?since=SECONDS leaves out of each endpoint's course
    what is not newer. /simulator/health: 200 as soon as it answers, with the number of endpoints
    by status. /simulator/targets: every container, for Prometheus' http_sd_configs.
    """

    async def index(_: Request) -> Response:
        return answer_page("overview.html")

    async def whole(request: Request) -> Response:
        text = request.query_params.get("since", "0")
        try:
            since = float(text)
        except ValueError:
            since = math.nan
        if not math.isfinite(since):
            message = f"since is {text!r}: expected seconds since the epoch, as clock.now has them."
            return answer_json({"message": message}, 400)
        return answer_json(overview.as_json(since))

    async def health(_: Request) -> Response:
        return answer_json({"status": "in service", "endpoints": overview.counts()})

    async def targets(_: Request) -> Response:
        return answer_json([target for view in pages.views() for target in make_targets(view)])

    return [
        Route("/", index),
        *make_static_routes(),
        Route("/simulator/overview", whole),
        Route("/simulator/health", health),
        Route("/simulator/targets", targets),
        *make_endpoint_routes(pages.find),
    ]
