"""CloudWatch, joined: what endpoints publish, the calls, and the watch of alarms."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from starlette.routing import Route
from starlette.types import ASGIApp

from merlin_simulator.control.apis import Api, Operation, read_service_model
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarms import Alarms, AlarmWatch
from merlin_simulator.control.cloudwatch.metric_calls import MetricCalls
from merlin_simulator.control.cloudwatch.published import (
    ContainerMetrics,
    EndpointMetrics,
    Page,
    page_of,
)
from merlin_simulator.control.cloudwatch.store import MetricStore
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Records
from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.control.sagemaker.resources import container_of
from merlin_simulator.watch.cloudwatch import EndpointsMetrics, make_metrics_routes
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import EndpointView, InstanceState

_logger = logging.getLogger(__name__)

_SERVICE = "cloudwatch"
#: Before a loop that failed begins again.
_AGAIN_S = 1.0
#: Dashboards and insight rules.
MOTOS = (
    "PutDashboard",
    "GetDashboard",
    "ListDashboards",
    "DeleteDashboards",
    "PutInsightRule",
    "DescribeInsightRules",
    "DeleteInsightRules",
    "EnableInsightRules",
    "DisableInsightRules",
)


class CloudWatch:
    """state: where alarms are kept. log: hears of alarms.

    acting: who else hears of each alarm that is in ALARM; see AlarmWatch.
    """

    def __init__(self, state: Path, clock: Clock, log: EventLog, endpoints: Endpoints) -> None:
        self._endpoints, self.metrics = endpoints, MetricStore()
        self.alarms = Alarms(
            Records(state / "alarms", "AlarmName", "StateValue", "History", "Tags"), clock, log
        )
        self._calls = MetricCalls(self.metrics, clock)
        self._published = EndpointMetrics(self.metrics, clock, self._views, self._in_service)
        self._scraped = EndpointsMetrics(self._views, self._in_service)
        self._containers = ContainerMetrics(self.metrics, clock, self._pages)
        self._watch = AlarmWatch(self.alarms, self.metrics, clock)
        self.acting = self._watch.acting
        endpoints.listeners.event += [self._published.hear, self._scraped.hear]
        # What was published of an endpoint stays, as on AWS.
        endpoints.listeners.deleted.append(self._scraped.forget)

    def routes(self) -> Sequence[Route]:
        """/metrics."""
        return make_metrics_routes(self._scraped)

    def operations(self) -> Mapping[str, Operation]:
        """By their names in the service model."""
        return {
            "PutMetricData": self._calls.put,
            "ListMetrics": self._calls.list,
            "GetMetricStatistics": self._calls.statistics,
            "GetMetricData": self._calls.data,
            "PutMetricAlarm": self.alarms.put_alarm,
            "DescribeAlarms": self.alarms.describe,
            "DescribeAlarmsForMetric": self.alarms.describe_for_metric,
            "DescribeAlarmHistory": self.alarms.history,
            "DeleteAlarms": self.alarms.delete,
            "SetAlarmState": self.alarms.set_state,
            "EnableAlarmActions": self.alarms.switch_actions,
            "DisableAlarmActions": self.alarms.switch_actions,
            "ListTagsForResource": self.alarms.list_tags,
            "TagResource": self.alarms.tag,
            "UntagResource": self.alarms.untag,
        }

    def api(self, moto: ASGIApp) -> Api:
        """The service. moto: has dashboards and insight rules."""
        names = read_service_model(_SERVICE).operation_names
        refused = dict.fromkeys([name for name in names if name not in MOTOS], _refuse)
        return Api(_SERVICE, {**refused, **self.operations()}, moto)

    async def run(self) -> None:
        """Until cancelled."""
        loops = (self._published, self._containers, self._watch)
        await asyncio.gather(*(_keep_running(loop) for loop in loops))

    def _views(self) -> Iterator[EndpointView]:
        """Of the endpoints that answer."""
        for managed in self._endpoints.all():
            if managed.deployment.endpoint is not None:
                yield managed.deployment.endpoint.view()

    def _in_service(self, endpoint_name: str, variant: str) -> int:
        managed = self._endpoints.lookup(endpoint_name)
        deployed_variant = (
            None if managed is None else managed.deployment.deployed_variants.get(variant)
        )
        return 0 if deployed_variant is None else deployed_variant.fleet.in_service

    def _pages(self) -> Iterator[Page]:
        """Where the instances in service have their own metrics."""
        for managed in self._endpoints.all():
            config = managed.record.get("MetricsConfig")
            for variant, deployed_variant in managed.deployment.deployed_variants.items():
                model = managed.record["Models"].get(deployed_variant.config["ModelName"])
                where = None if model is None else page_of(container_of(model), config)
                if where is None:
                    continue
                path, every_s = where
                for instance in deployed_variant.fleet.variant.instances:
                    if instance.state is InstanceState.IN_SERVICE:
                        url = instance.client.url.rstrip("/") + path
                        yield Page(managed.name, variant, instance.name, url, every_s)


async def _refuse(call: Call) -> None:
    raise ServiceError(
        f"{call.operation} is not carried out by this simulator: it plays metrics and metric "
        "alarms, and has dashboards and insight rules.",
        "UnknownOperationException",
    )


async def _keep_running(loop: EndpointMetrics | ContainerMetrics | AlarmWatch) -> None:
    """Log the failures of a loop and go on."""
    while True:
        try:
            await loop.run()
        except Exception:
            _logger.exception("%s failed, and begins again", type(loop).__name__)
        await asyncio.sleep(_AGAIN_S)
