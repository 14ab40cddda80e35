"""Alarms: what is kept of each, its state and its history."""

from __future__ import annotations

import hashlib
import json
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarm_checks import check_alarm
from merlin_simulator.control.cloudwatch.alarm_state import Condition, Missing, State
from merlin_simulator.control.cloudwatch.alarm_words import CREATED
from merlin_simulator.control.records import Record, Records
from merlin_simulator.errors import ACCOUNT
from merlin_simulator.watch.events import EventLog

#: Changes of one alarm that are kept.
_HISTORY = 100
#: The name of a file has at most 255 bytes.
_LONGEST_KEY = 200

#: What of its record no answer has.
_OURS = frozenset({"CreationTime", "History", "Tags"})
_STATE = ("StateValue", "StateReason", "StateReasonData")


class Alarms:
    """All alarms. log: hears of their states; changed: who else does, by the alarm's record."""

    def __init__(self, records: Records, clock: Clock, log: EventLog) -> None:
        self._records, self._clock, self._log = records, clock, log
        self._by_name = {record["AlarmName"]: record for record in records.values()}
        self.changed: list[Callable[[Record], None]] = []

    def find(self, name: str) -> Record | None:
        """An alarm's record: the members of AWS's MetricAlarm, History and Tags."""
        return self._by_name.get(name)

    def values(self) -> tuple[Record, ...]:
        """All of them, by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def metric_alarms(self) -> tuple[Mapping[str, Any], ...]:
        """MetricAlarms of DescribeAlarms."""
        return tuple(map(described, self.values()))

    def put(self, members: Mapping[str, Any], region: str) -> Record:
        """Make an alarm, or change one, which keeps its state. Raises ServiceError."""
        check_alarm(members)
        name, now, before = members["AlarmName"], self._clock.now(), self.find(members["AlarmName"])
        tags = {tag["Key"]: tag["Value"] for tag in members.get("Tags") or ()}
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
            **(_kept(before) if before else _made(now)),
        }
        if before is None:
            record["Tags"] = tags
        what = "updated" if before else "created"
        self._note(record, "ConfigurationUpdate", f'Alarm "{name}" {what}', {"type": what.title()})
        self.keep(record)
        self._by_name[name] = record
        return record

    def keep(self, record: Record) -> None:
        """A record that was changed."""
        self._records.put(_key(record["AlarmName"]), record)

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
            self.keep(record)
            return
        record["StateTransitionedTimestamp"] = now
        summary = f"Alarm updated from {before['StateValue']} to {state.value}"
        self._note(record, "StateUpdate", summary, _states(before, record))
        self.keep(record)
        self._log.tell(
            "alarm_state",
            alarm=record["AlarmName"],
            state=state.value,
            before=before["StateValue"],
            message=reason,
        )
        for hear in self.changed:
            hear(record)

    def _note(self, record: Record, kind: str, summary: str, data: Mapping[str, Any]) -> None:
        item = {
            "Timestamp": self._clock.now(),
            "HistoryItemType": kind,
            "HistorySummary": summary,
            "HistoryData": json.dumps({"version": "1.0", **data}),
        }
        record["History"] = [*record["History"], item][-_HISTORY:]


def described(record: Record) -> dict[str, Any]:
    """AWS's MetricAlarm."""
    return {key: value for key, value in record.items() if key not in _OURS}


def condition_of(record: Record) -> Condition:
    """When an alarm goes off."""
    return Condition(
        record["ComparisonOperator"],
        float(record["Threshold"]),
        record["EvaluationPeriods"],
        record.get("DatapointsToAlarm"),
        Missing(record.get("TreatMissingData", "missing")),
    )


def _made(now: float) -> dict[str, Any]:
    return {
        "CreationTime": now,
        "StateValue": State.INSUFFICIENT_DATA.value,
        "StateReason": CREATED,
        "StateUpdatedTimestamp": now,
        "StateTransitionedTimestamp": now,
        "History": [],
    }


def _kept(before: Record) -> dict[str, Any]:
    kept = (
        *_STATE,
        "CreationTime",
        "StateUpdatedTimestamp",
        "StateTransitionedTimestamp",
        "History",
        "Tags",
    )
    return {key: before[key] for key in kept if key in before}


def _states(before: Mapping[str, Any], after: Record) -> dict[str, Any]:
    return {"oldState": _state(before), "newState": _state(after)}


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
