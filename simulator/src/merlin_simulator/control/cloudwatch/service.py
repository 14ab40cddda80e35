"""CloudWatch, joined: calls, and the watch that evaluates alarms."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from starlette.routing import Route
from starlette.types import ASGIApp

from merlin_simulator.control.apis import JsonApi, Operation, QueryApi, read_service_model
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarms import (
    Alarms,
    Condition,
    Point,
    State,
    condition_of,
    decide,
    described,
    reason,
    reason_data,
)
from merlin_simulator.control.cloudwatch.metric_calls import (
    WRONG_TOKEN,
    MetricCalls,
    answer,
    dimensions_of,
    is_percentile,
    metric_of,
    moment,
    period_of,
)
from merlin_simulator.control.cloudwatch.published import ContainerMetrics, EndpointMetrics, Page
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, Metric, MetricStore, Statistics
from merlin_simulator.control.errors import ServiceError, UnknownOperation
from merlin_simulator.control.records import Record, Records, page
from merlin_simulator.watch.cloudwatch import EndpointsMetrics, make_metrics_routes
from merlin_simulator.watch.events import Event, EventLog
from merlin_simulator.watch.state import EndpointView

_T = TypeVar("_T")
#: AWS: as many a page, where MaxRecords is not given.
_RECORDS, _ITEMS = 50, 100

_logger = logging.getLogger(__name__)


class AlarmCalls:
    """See alarms for what is kept."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms

    async def put(self, call: Call) -> None:
        """PutMetricAlarm."""
        self._alarms.put(call.members, call.region)

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeAlarms: metric alarms; there are no others."""
        members = call.members
        for member in ("ChildrenOfAlarmName", "ParentsOfAlarmName"):
            if member in members:
                raise ServiceError(
                    f"{member} is given: this simulator has no composite alarms.", "ValidationError"
                )
        if members.get("AlarmNames") and "AlarmNamePrefix" in members:
            raise ServiceError(
                "AlarmNamePrefix and AlarmNames cannot be specified at the same time.",
                "ValidationError",
            )
        found = [record for record in self._alarms.values() if _is_asked(record, members)]
        shown, token = _page(found, members, _RECORDS)
        return {
            "MetricAlarms": [described(record) for record in shown],
            "CompositeAlarms": [],
            **({"NextToken": token} if token else {}),
        }

    async def describe_for_metric(self, call: Call) -> Mapping[str, Any]:
        """DescribeAlarmsForMetric: the members that are given must be the alarm's."""
        members = call.members
        same = [key for key in ("MetricName", "Namespace", "Statistic", "Period") if key in members]
        same += [key for key in ("ExtendedStatistic", "Unit") if key in members]
        results = [
            described(record)
            for record in self._alarms.values()
            if all(record.get(key) == members[key] for key in same)
            and dimensions_of(record) == dimensions_of(members)
        ]
        return {"MetricAlarms": results}

    async def delete(self, call: Call) -> None:
        """DeleteAlarms: all, or where one is not there, none of them."""
        names = call.members["AlarmNames"]
        lacking = [name for name in names if self._alarms.find(name) is None]
        if lacking:
            raise ServiceError(
                f"Alarms do not exist: {', '.join(map(repr, lacking))}.", "ResourceNotFound"
            )
        for name in set(names):
            self._alarms.remove(name)

    async def set_state(self, call: Call) -> None:
        """SetAlarmState: until the next time that it is decided."""
        members, record = call.members, self._found(call.members["AlarmName"])
        try:
            data = json.loads(members.get("StateReasonData") or "{}")
        except (ValueError, RecursionError) as error:
            raise ServiceError(
                "The parameter StateReasonData must be valid JSON.", "InvalidFormat"
            ) from error
        self._alarms.change(record, State(members["StateValue"]), members["StateReason"], data)

    async def history(self, call: Call) -> Mapping[str, Any]:
        """DescribeAlarmHistory."""
        members = call.members
        start, end = (
            moment(members[name], name) if name in members else otherwise
            for name, otherwise in (("StartDate", -math.inf), ("EndDate", math.inf))
        )
        items = [
            {"AlarmName": record["AlarmName"], "AlarmType": "MetricAlarm", **item}
            for record in self._alarms.values()
            if members.get("AlarmName") in (None, record["AlarmName"])
            for item in record["History"]
            if members.get("HistoryItemType") in (None, item["HistoryItemType"])
            and start <= item["Timestamp"] <= end
        ]
        descending = members.get("ScanBy") != "TimestampAscending"
        items.sort(key=lambda item: item["Timestamp"], reverse=descending)
        shown, token = _page(items, members, _ITEMS)
        return {"AlarmHistoryItems": list(shown), **({"NextToken": token} if token else {})}

    async def enable_actions(self, call: Call) -> None:
        """EnableAlarmActions."""
        self._switch(call.members["AlarmNames"], True)

    async def disable_actions(self, call: Call) -> None:
        """DisableAlarmActions."""
        self._switch(call.members["AlarmNames"], False)

    async def list_tags(self, call: Call) -> Mapping[str, Any]:
        """ListTagsForResource, of alarms."""
        tags = self._tagged(call)["Tags"]
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    async def tag(self, call: Call) -> Mapping[str, Any]:
        """TagResource, of alarms."""
        record = self._tagged(call)
        record["Tags"] |= {tag["Key"]: tag["Value"] for tag in call.members["Tags"]}
        self._alarms.keep(record)
        return {}

    async def untag(self, call: Call) -> Mapping[str, Any]:
        """UntagResource, of alarms."""
        record = self._tagged(call)
        for key in call.members["TagKeys"]:
            record["Tags"].pop(key, None)
        self._alarms.keep(record)
        return {}

    def _switch(self, names: Iterable[str], enabled: bool) -> None:
        for record in filter(None, map(self._alarms.find, names)):
            record["ActionsEnabled"] = enabled
            self._alarms.keep(record)

    def _found(self, name: str) -> Record:
        record = self._alarms.find(name)
        if record is None:
            raise ServiceError(f"There is no alarm named {name!r}.", "ResourceNotFound")
        return record

    def _tagged(self, call: Call) -> Record:
        arn = call.members["ResourceARN"]
        for record in self._alarms.values():
            if record["AlarmArn"] == arn:
                return record
        raise ServiceError(f"There is no alarm of the ARN {arn!r}.", "ResourceNotFoundException")


def _is_asked(record: Record, members: Mapping[str, Any]) -> bool:
    names, prefix = members.get("AlarmNames"), members.get("ActionPrefix")
    actions = [
        action
        for kind in ("OKActions", "AlarmActions", "InsufficientDataActions")
        for action in record[kind]
    ]
    return (
        "MetricAlarm" in (members.get("AlarmTypes") or ["MetricAlarm"])
        and (not names or record["AlarmName"] in names)
        and record["AlarmName"].startswith(members.get("AlarmNamePrefix", ""))
        and members.get("StateValue") in (None, record["StateValue"])
        and (prefix is None or any(action.startswith(prefix) for action in actions))
    )


def _page(
    records: Sequence[_T], members: Mapping[str, Any], default: int
) -> tuple[Sequence[_T], str | None]:
    token, most = members.get("NextToken"), members.get("MaxRecords")
    return page(records, token, most, default, WRONG_TOKEN)


#: However fast the platform's time goes, this machine's seconds between two looks.
_LEAST_S = 0.05
#: Minutes that are made up for when it goes so fast that some are over between two looks.
_MADE_UP = 60


class AlarmWatch:
    """Decides by the minutes that are over.

    acting: who hears of each alarm that is in ALARM, at each evaluation, by its record and its
    newest data point.
    """

    def __init__(self, alarms: Alarms, store: MetricStore, clock: Clock) -> None:
        self._alarms, self._store, self._clock = alarms, store, clock
        self.acting: list[Callable[[Record, float], None]] = []

    async def run(self) -> None:
        """Until cancelled."""
        decided = self._clock.now() // RESOLUTION_S
        while True:
            over = self._clock.now() % RESOLUTION_S
            await asyncio.sleep(max(_LEAST_S, (RESOLUTION_S - over) / self._clock.scale))
            now = self._clock.now() // RESOLUTION_S
            for minute in range(int(max(decided + 1, now - _MADE_UP)), int(now) + 1):
                for record in self._alarms.values():
                    self._try(record, minute * float(RESOLUTION_S))
            decided = now

    def decide(self, record: Record, end: float) -> None:
        """Look at one alarm's data points before end, a whole minute, and put it in their state."""
        condition = condition_of(record)
        try:
            points = self._points(record, condition, end)
        except ServiceError as error:
            self._change(record, State.INSUFFICIENT_DATA, str(error), {})
            return
        decision = decide(points, condition)
        if decision.state is not None:
            words = reason(decision, condition)
            data = reason_data(decision, condition, self._clock.now(), _measure(record))
            self._change(record, decision.state, words, data)
        newest = next((point.value for point in reversed(decision.used)), None)
        if newest is not None and record["StateValue"] == State.ALARM.value:
            for act in self.acting:
                act(record, newest)

    def _try(self, record: Record, end: float) -> None:
        try:
            self.decide(record, end)
        except Exception:
            _logger.exception("alarm %s was not decided", record["AlarmName"])

    def _change(self, record: Record, state: State, message: str, data: Mapping[str, Any]) -> None:
        """AWS leaves the reason as it was while the state stays."""
        if record["StateValue"] != state.value or "StateReasonData" not in record:
            self._alarms.change(record, state, message, data)

    def _points(self, record: Record, condition: Condition, end: float) -> Sequence[Point]:
        if record.get("Metrics"):
            return self._reckoned(record["Metrics"], condition, end)
        period_s, unit = record["Period"], record.get("Unit")
        statistic = record.get("Statistic") or record["ExtendedStatistic"]
        exactly = is_percentile(statistic)
        read = windows(self._store, metric_of(record), end, period_s, condition.range, exactly)
        found = dict(read)
        points = list[Point]()
        for begin in _begins(end, period_s, condition.range):
            statistics = found.get(begin)
            if statistics is None or unit not in (None, statistics.unit):
                points.append(Point(begin))
            else:
                points.append(Point(begin, statistics.read(statistic), statistics.count))
        return points

    def _reckoned(
        self, queries: Sequence[Mapping[str, Any]], condition: Condition, end: float
    ) -> Sequence[Point]:
        """Of metric math: the one query that returns data."""
        count = condition.range
        (answered, *_) = answer(
            queries,
            lambda metric, period_s, exactly: windows(
                self._store, metric, end, period_s, count, exactly
            ),
            lambda period_s: _begins(end, period_s, count),
        )
        begins = _begins(end, period_of(queries), count)
        return [Point(begin, answered.values.get(begin)) for begin in begins]


def windows(
    store: MetricStore, metric: Metric, end: float, period_s: int, count: int, exactly: bool
) -> list[tuple[float, Statistics]]:
    """The last periods before end, which is a whole minute, by when they begin.

    exactly: percentiles will be read, too.
    """
    start, sets = end - count * period_s, dict[float, Statistics]()
    for minute, statistics in store.read(metric, start, end):
        begin = start + (minute - start) // period_s * period_s
        sets.setdefault(begin, Statistics()).merge(statistics, exactly)
    return list(sets.items())


def _begins(end: float, period_s: int, count: int) -> list[float]:
    return [end - number * period_s for number in range(count, 0, -1)]


def _measure(record: Record) -> dict[str, Any]:
    queries = record.get("Metrics")
    if queries:
        return {"period": period_of(queries)}
    return {
        **({"unit": record["Unit"]} if "Unit" in record else {}),
        "statistic": record.get("Statistic") or record["ExtendedStatistic"],
        "period": record["Period"],
    }


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


def make_operations(metrics: MetricCalls, alarms: AlarmCalls) -> Mapping[str, Operation]:
    """By their names in the service model."""
    return {
        "PutMetricData": metrics.put,
        "ListMetrics": metrics.list,
        "GetMetricStatistics": metrics.statistics,
        "GetMetricData": metrics.data,
        "PutMetricAlarm": alarms.put,
        "DescribeAlarms": alarms.describe,
        "DescribeAlarmsForMetric": alarms.describe_for_metric,
        "DescribeAlarmHistory": alarms.history,
        "DeleteAlarms": alarms.delete,
        "SetAlarmState": alarms.set_state,
        "EnableAlarmActions": alarms.enable_actions,
        "DisableAlarmActions": alarms.disable_actions,
        "ListTagsForResource": alarms.list_tags,
        "TagResource": alarms.tag,
        "UntagResource": alarms.untag,
    }


def refusals(names: list[str]) -> Mapping[str, Operation]:
    """For each operation of the service model: one that is refused in a sentence."""
    return dict.fromkeys(names, _refuse)


async def _refuse(call: Call) -> None:
    raise UnknownOperation(
        f"{call.operation} is not carried out by this simulator: it plays metrics and metric "
        "alarms, and has dashboards and insight rules."
    )


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
