"""CloudWatch's parts, joined."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from starlette.routing import Route
from starlette.types import ASGIApp

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarm_calls import AlarmCalls
from merlin_simulator.control.cloudwatch.alarm_watch import AlarmWatch
from merlin_simulator.control.cloudwatch.alarms import Alarms
from merlin_simulator.control.cloudwatch.container_metrics import ContainerMetrics, Page
from merlin_simulator.control.cloudwatch.endpoint_metrics import EndpointMetrics
from merlin_simulator.control.cloudwatch.metric_calls import MetricCalls
from merlin_simulator.control.cloudwatch.operations import MOTOS, make_operations, refusals
from merlin_simulator.control.cloudwatch.store import MetricStore
from merlin_simulator.control.json_api import JsonApi, read_service_model
from merlin_simulator.control.query_api import QueryApi
from merlin_simulator.control.records import Records
from merlin_simulator.watch.cloudwatch import EndpointsMetrics, make_metrics_routes
from merlin_simulator.watch.events import Event, EventLog
from merlin_simulator.watch.view import EndpointView

_logger = logging.getLogger(__name__)

_SERVICE = "cloudwatch"
#: Before a loop that failed begins again.
_AGAIN_S = 1.0


class Watched(Protocol):
    """What there is to measure."""

    def views(self) -> Iterable[EndpointView]:
        """The endpoints as they stand now."""
        ...

    def in_service(self, endpoint_name: str, variant: str) -> int:
        """How many instances a variant has in service."""
        ...

    def pages(self) -> Iterable[Page]:
        """Where the instances in service have their own metrics."""
        ...


class CloudWatch:
    """state: where alarms are kept. store: of metrics. log: hears of alarms.

    acting: who else hears of each alarm that is in ALARM; see AlarmWatch.
    """

    def __init__(
        self, state: Path, store: MetricStore, clock: Clock, log: EventLog, watched: Watched
    ) -> None:
        self.alarms = Alarms(
            Records(state / "alarms", "AlarmName", "StateValue", "History", "Tags"), clock, log
        )
        self._calls = MetricCalls(store, clock)
        self._published = EndpointMetrics(store, clock, watched.views, watched.in_service)
        self._scraped = EndpointsMetrics(watched.views, watched.in_service)
        self._containers = ContainerMetrics(store, clock, watched.pages)
        self._watch = AlarmWatch(self.alarms, store, clock)
        self.acting = self._watch.acting

    def hear(self, endpoint_name: str, event: Event) -> None:
        """An event of an endpoint."""
        self._published.hear(endpoint_name, event)
        self._scraped.hear(endpoint_name, event)

    def forget(self, endpoint_name: str) -> None:
        """An endpoint is gone; what was published of it stays, as on AWS."""
        self._scraped.forget(endpoint_name)

    def routes(self) -> Sequence[Route]:
        """/metrics."""
        return make_metrics_routes(self._scraped)

    def api(self, moto: ASGIApp) -> QueryApi:
        """The service by both of its protocols. moto: has dashboards and insight rules."""
        model = read_service_model(_SERVICE)
        operations = {
            **refusals([name for name in model.operation_names if name not in MOTOS]),
            **make_operations(self._calls, AlarmCalls(self.alarms)),
        }
        return QueryApi(_SERVICE, JsonApi(model, operations, moto), moto)

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(
            *(_kept_up(loop) for loop in (self._published, self._containers, self._watch))
        )


class _Loop(Protocol):
    async def run(self) -> None:
        """Until cancelled."""


async def _kept_up(loop: _Loop) -> None:
    """What fails in one of them is told, and it goes on."""
    while True:
        try:
            await loop.run()
        except Exception:
            _logger.exception("%s failed, and begins again", type(loop).__name__)
        await asyncio.sleep(_AGAIN_S)
