"""Alarms: what is kept of them, CloudWatch's calls about them, and the watch that decides them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarm_states import (
    OPERATORS,
    Condition,
    MissingData,
    Point,
    State,
    decide,
    reason,
    reason_data,
)
from merlin_simulator.control.cloudwatch.metric_calls import (
    WRONG_TOKEN,
    answer,
    check_period,
    check_statistic,
    dimensions_of,
    is_percentile,
    metric_of,
    period_of,
)
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, Metric, MetricStore, Statistics
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records, page
from merlin_simulator.errors import ACCOUNT
from merlin_simulator.watch.events import EventLog

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)

#: What an alarm may ask for that this simulator does not play.
_NOT_PLAYED = {
    "ThresholdMetricId": "anomaly detection",
    "EvaluationCriteria": "alarms on PromQL",
    "EvaluationInterval": "alarms on PromQL",
    "EvaluationWindow": "windows of wall clock time",
    "WarmUpConfiguration": "warm-up periods of alarms",
    "ActionConfiguration": "repeated actions",
}
#: Of one metric alone; with Metrics none of these may be given.
_OF_ONE = (
    "MetricName",
    "Namespace",
    "Dimensions",
    "Period",
    "Unit",
    "Statistic",
    "ExtendedStatistic",
)
_DAY_S = 24 * 3600


def check_alarm(members: Mapping[str, Any]) -> None:
    """Raises ServiceError for an alarm that AWS refuses, or that is not played."""
    for member, sentence in _NOT_PLAYED.items():
        if members.get(member) is not None:
            raise _refused(f"{member} is given: this simulator does not play {sentence}.")
    for member in ("EvaluationPeriods", "ComparisonOperator", "Threshold"):
        if members.get(member) is None:
            raise _refused(f"The parameter {member} must be specified.")
    if members["ComparisonOperator"] not in OPERATORS:
        raise _refused(
            f"ComparisonOperator is {members['ComparisonOperator']}, which is for anomaly "
            f"detection: this simulator plays {', '.join(OPERATORS)}."
        )
    treatments = [treatment.value for treatment in MissingData]
    if members.get("TreatMissingData", "missing") not in treatments:
        raise _refused(
            f"Unsupported value for TreatMissingData: {members['TreatMissingData']}: expected one "
            f"of {', '.join(treatments)}."
        )
    if members.get("DatapointsToAlarm", 1) > members["EvaluationPeriods"]:
        raise _refused("DatapointsToAlarm must be less than or equal to EvaluationPeriods.")
    if members.get("Metrics"):
        _check_metrics(members)
    else:
        _check_metric(members)


def _check_metric(members: Mapping[str, Any]) -> None:
    for member in ("MetricName", "Namespace", "Period"):
        if members.get(member) is None:
            raise _refused(
                f"The parameter {member} must be specified, or Metrics in the place of one metric."
            )
    if (members.get("Statistic") is None) == (members.get("ExtendedStatistic") is None):
        raise _refused("Exactly one of Statistic and ExtendedStatistic must be specified.")
    if (extended := members.get("ExtendedStatistic")) is not None:
        check_statistic(extended)
    check_period(members["Period"])
    _check_range(members["EvaluationPeriods"], members["Period"])


def _check_metrics(members: Mapping[str, Any]) -> None:
    of_one_metric = [member for member in _OF_ONE if members.get(member)]
    if of_one_metric:
        raise _refused(f"The parameters Metrics and {of_one_metric[0]} are mutually exclusive.")
    queries: Sequence[Mapping[str, Any]] = members["Metrics"]
    returned = [query["Id"] for query in queries if query.get("ReturnData", True)]
    if len(returned) != 1:
        raise _refused(
            f"Exactly one element of the metrics list should return data: {len(returned)} do."
        )
    for query in queries:
        period_s = query.get("MetricStat", query).get("Period")
        if period_s is None:
            continue
        check_period(period_s)
        _check_range(members["EvaluationPeriods"], period_s)


def _check_range(periods: int, period_s: int) -> None:
    """AWS, "PutMetricAlarm": a day; seven for periods of an hour and more."""
    most = 7 * _DAY_S if period_s >= 3600 else _DAY_S
    if periods * period_s > most:
        raise _refused(
            f"Metrics cannot be checked across more than {most // _DAY_S} day(s) "
            f"(EvaluationPeriods * Period must be <= {most})."
        )


def _refused(message: str) -> ServiceError:
    return ServiceError(message, "ValidationError")


#: Changes of one alarm that are kept.
_HISTORY = 100
#: The name of a file has at most 255 bytes.
_LONGEST_KEY = 200

#: What of its record no answer has.
_OURS = frozenset({"CreationTime", "History", "Tags"})
_STATE = ("StateValue", "StateReason", "StateReasonData")
#: What an alarm that is put again has as before.
_STAYS = (
    *_STATE,
    "CreationTime",
    "StateUpdatedTimestamp",
    "StateTransitionedTimestamp",
    "History",
    "Tags",
)
#: AWS: as many a page, where MaxRecords is not given.
_RECORDS, _ITEMS = 50, 100


class Alarms:
    """All alarms; log: hears of their states. A record is AWS's MetricAlarm, History and Tags."""

    def __init__(self, records: Records, clock: Clock, log: EventLog) -> None:
        self._records, self._clock, self._log = records, clock, log
        self._by_name = {record["AlarmName"]: record for record in records.values()}

    def find(self, name: str) -> Record | None:
        """An alarm's record; None: there is no such alarm."""
        return self._by_name.get(name)

    def values(self) -> tuple[Record, ...]:
        """All of them, by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def metric_alarms(self) -> tuple[Mapping[str, Any], ...]:
        """MetricAlarms of DescribeAlarms."""
        return tuple(map(describe_alarm, self.values()))

    def put(self, members: Mapping[str, Any], region: str) -> Record:
        """Make an alarm, or change one, which keeps its state. Raises ServiceError."""
        check_alarm(members)
        name, now, before = members["AlarmName"], self._clock.now(), self.find(members["AlarmName"])
        record = {
            "ActionsEnabled": True,
            "OKActions": [],
            "AlarmActions": [],
            "InsufficientDataActions": [],
            "Dimensions": [],
            **{key: value for key, value in members.items() if key != "Tags"},
            "Threshold": float(members["Threshold"]),
            "AlarmArn": f"arn:aws:cloudwatch:{region}:{ACCOUNT}:alarm:{name}",
            "AlarmConfigurationUpdatedTimestamp": now,
            "CreationTime": now,
            "StateValue": State.INSUFFICIENT_DATA.value,
            "StateReason": "Unchecked: Initial alarm creation",
            "StateUpdatedTimestamp": now,
            "StateTransitionedTimestamp": now,
            "History": [],
            "Tags": {tag["Key"]: tag["Value"] for tag in members.get("Tags") or ()},
            **{key: before[key] for key in _STAYS if before and key in before},
        }
        subject = "updated" if before else "created"
        self._note(
            record, "ConfigurationUpdate", f'Alarm "{name}" {subject}', {"type": subject.title()}
        )
        self._keep(record)
        self._by_name[name] = record
        return record

    def remove(self, name: str) -> None:
        """An alarm that is there."""
        self._records.remove(_key(self._by_name.pop(name)["AlarmName"]))

    def change(self, record: Record, state: State, reason: str, data: Mapping[str, Any]) -> None:
        """Put an alarm in a state; it may be the one that it is in."""
        before, now = {key: record.get(key) for key in _STATE}, self._clock.now()
        record |= {
            "StateValue": state.value,
            "StateReason": reason,
            "StateReasonData": json.dumps(data),
            "StateUpdatedTimestamp": now,
        }
        if before["StateValue"] == state.value:
            self._keep(record)
            return
        record["StateTransitionedTimestamp"] = now
        summary = f"Alarm updated from {before['StateValue']} to {state.value}"
        states = {"oldState": _state(before), "newState": _state(record)}
        self._note(record, "StateUpdate", summary, states)
        self._keep(record)
        self._log.tell(
            "alarm_state",
            alarm=record["AlarmName"],
            state=state.value,
            before=before["StateValue"],
            message=reason,
        )

    # -- the calls

    async def put_alarm(self, call: Call) -> None:
        """PutMetricAlarm."""
        self.put(call.members, call.region)

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
        records = [record for record in self.values() if _matches(record, members)]
        shown, token = _page(records, members, _RECORDS)
        return {
            "MetricAlarms": [describe_alarm(record) for record in shown],
            "CompositeAlarms": [],
            **({"NextToken": token} if token else {}),
        }

    async def describe_for_metric(self, call: Call) -> Mapping[str, Any]:
        """DescribeAlarmsForMetric: the members that are given must be the alarm's."""
        members, same = call.members, [key for key in _OF_ONE if key != "Dimensions"]
        return {
            "MetricAlarms": [
                describe_alarm(record)
                for record in self.values()
                if all(record.get(key) == members[key] for key in same if key in members)
                and dimensions_of(record) == dimensions_of(members)
            ]
        }

    async def delete(self, call: Call) -> None:
        """DeleteAlarms: all, or where one is not there, none of them."""
        names = call.members["AlarmNames"]
        lacking = [name for name in names if self.find(name) is None]
        if lacking:
            raise ServiceError(
                f"Alarms do not exist: {', '.join(map(repr, lacking))}.", "ResourceNotFound"
            )
        for name in set(names):
            self.remove(name)

    async def set_state(self, call: Call) -> None:
        """SetAlarmState: until the next time that it is decided."""
        members, record = call.members, self.find(call.members["AlarmName"])
        if record is None:
            message = f"There is no alarm named {members['AlarmName']!r}."
            raise ServiceError(message, "ResourceNotFound")
        try:
            data = json.loads(members.get("StateReasonData") or "{}")
        except (ValueError, RecursionError) as error:
            raise ServiceError(
                "The parameter StateReasonData must be valid JSON.", "InvalidFormat"
            ) from error
        self.change(record, State(members["StateValue"]), members["StateReason"], data)

    async def history(self, call: Call) -> Mapping[str, Any]:
        """DescribeAlarmHistory."""
        members = call.members
        start, end = members.get("StartDate", -math.inf), members.get("EndDate", math.inf)
        items = [
            {"AlarmName": record["AlarmName"], "AlarmType": "MetricAlarm", **item}
            for record in self.values()
            if members.get("AlarmName") in (None, record["AlarmName"])
            for item in record["History"]
            if members.get("HistoryItemType") in (None, item["HistoryItemType"])
            and start <= item["Timestamp"] <= end
        ]
        descending = members.get("ScanBy") != "TimestampAscending"
        items.sort(key=lambda item: item["Timestamp"], reverse=descending)
        shown, token = _page(items, members, _ITEMS)
        return {"AlarmHistoryItems": list(shown), **({"NextToken": token} if token else {})}

    async def switch_actions(self, call: Call) -> None:
        """EnableAlarmActions, DisableAlarmActions."""
        for record in filter(None, map(self.find, call.members["AlarmNames"])):
            record["ActionsEnabled"] = call.operation == "EnableAlarmActions"
            self._keep(record)

    async def list_tags(self, call: Call) -> Mapping[str, Any]:
        """ListTagsForResource, of alarms."""
        tags = self._find_by_arn(call)["Tags"]
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    async def tag(self, call: Call) -> Mapping[str, Any]:
        """TagResource, of alarms."""
        record = self._find_by_arn(call)
        record["Tags"] |= {tag["Key"]: tag["Value"] for tag in call.members["Tags"]}
        self._keep(record)
        return {}

    async def untag(self, call: Call) -> Mapping[str, Any]:
        """UntagResource, of alarms."""
        record = self._find_by_arn(call)
        for key in call.members["TagKeys"]:
            record["Tags"].pop(key, None)
        self._keep(record)
        return {}

    def _find_by_arn(self, call: Call) -> Record:
        arn = call.members["ResourceARN"]
        for record in self.values():
            if record["AlarmArn"] == arn:
                return record
        raise ServiceError(f"There is no alarm of the ARN {arn!r}.", "ResourceNotFoundException")

    def _keep(self, record: Record) -> None:
        self._records.put(_key(record["AlarmName"]), record)

    def _note(self, record: Record, kind: str, summary: str, data: Mapping[str, Any]) -> None:
        item = {
            "Timestamp": self._clock.now(),
            "HistoryItemType": kind,
            "HistorySummary": summary,
            "HistoryData": json.dumps({"version": "1.0", **data}),
        }
        record["History"] = [*record["History"], item][-_HISTORY:]


def describe_alarm(record: Record) -> dict[str, Any]:
    """AWS's MetricAlarm."""
    return {key: value for key, value in record.items() if key not in _OURS}


def condition_of(record: Record) -> Condition:
    """When an alarm goes off."""
    return Condition(
        record["ComparisonOperator"],
        float(record["Threshold"]),
        record["EvaluationPeriods"],
        record.get("DatapointsToAlarm"),
        MissingData(record.get("TreatMissingData", "missing")),
    )


def _state(record: Mapping[str, Any]) -> dict[str, Any]:
    data = record.get("StateReasonData")
    return {
        "stateValue": record["StateValue"],
        "stateReason": record["StateReason"],
        **({"stateReasonData": json.loads(data)} if data else {}),
    }


def _key(name: str) -> str:
    """The record's name: the alarm's, where a file may have it."""
    if len(urllib.parse.quote(name, safe="")) <= _LONGEST_KEY:
        return name
    return f"{name[:20]}-{hashlib.sha256(name.encode()).hexdigest()}"


def _matches(record: Record, members: Mapping[str, Any]) -> bool:
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
            points = read_points(self._store, record, end, condition.range)
        except ServiceError as error:
            self._change(record, State.INSUFFICIENT_DATA, str(error), {})
            return
        decision = decide(points, condition)
        if decision.state is not None:
            data = reason_data(decision, condition, self._clock.now(), _measure(record))
            self._change(record, decision.state, reason(decision, condition), data)
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


def read_points(
    store: MetricStore, members: Mapping[str, Any], end: float, count: int
) -> list[Point]:
    """The last periods before end, a whole minute, oldest first, of what an alarm watches.

    members: PutMetricAlarm's: one metric, or metric math. Raises ServiceError where that fails.
    """

    def begins(period_s: int) -> list[float]:
        return [end - number * period_s for number in range(count, 0, -1)]

    def read(metric: Metric, period_s: int, exactly: bool) -> list[tuple[float, Statistics]]:
        start, sets = end - count * period_s, dict[float, Statistics]()
        for minute, statistics in store.read(metric, start, end):
            begin = start + (minute - start) // period_s * period_s
            sets.setdefault(begin, Statistics()).merge(statistics, exactly)
        return list(sets.items())

    if queries := members.get("Metrics"):
        (answered, *_) = answer(queries, read, begins)
        return [Point(begin, answered.values.get(begin)) for begin in begins(period_of(queries))]
    period_s, unit = members["Period"], members.get("Unit")
    statistic = members.get("Statistic") or members["ExtendedStatistic"]
    points = {
        begin: Point(begin, statistics.read(statistic), statistics.count)
        for begin, statistics in read(metric_of(members), period_s, is_percentile(statistic))
        if unit in (None, statistics.unit)
    }
    return [points.get(begin, Point(begin)) for begin in begins(period_s)]


def _measure(record: Record) -> dict[str, Any]:
    queries = record.get("Metrics")
    if queries:
        return {"period": period_of(queries)}
    return {
        **({"unit": record["Unit"]} if "Unit" in record else {}),
        "statistic": record.get("Statistic") or record["ExtendedStatistic"],
        "period": record["Period"],
    }
