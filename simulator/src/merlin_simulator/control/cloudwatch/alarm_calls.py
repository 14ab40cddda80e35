"""The calls about alarms."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from merlin_simulator.control.caller import Call
from merlin_simulator.control.cloudwatch.alarm_state import State
from merlin_simulator.control.cloudwatch.alarms import Alarms, described
from merlin_simulator.control.cloudwatch.asked import WRONG_TOKEN, dimensions_of, moment
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.pages import page
from merlin_simulator.control.records import Record

_T = TypeVar("_T")
#: AWS: as many a page, where MaxRecords is not given.
_RECORDS, _ITEMS = 50, 100


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
        found = [
            described(record)
            for record in self._alarms.values()
            if all(record.get(key) == members[key] for key in same)
            and dimensions_of(record) == dimensions_of(members)
        ]
        return {"MetricAlarms": found}

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
    found: Sequence[_T], members: Mapping[str, Any], default: int
) -> tuple[Sequence[_T], str | None]:
    token, most = members.get("NextToken"), members.get("MaxRecords")
    return page(found, token, most, default, WRONG_TOKEN)
