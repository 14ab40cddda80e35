"""Alarms: their members, their state, and the words that AWS gives for a change of it."""

from __future__ import annotations

import hashlib
import json
import operator
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.metric_calls import check_period, check_statistic
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records
from merlin_simulator.errors import ACCOUNT
from merlin_simulator.watch.events import EventLog

#: How many periods more than it needs an alarm looks back at: AWS's examples have five for three.
_MORE_PERIODS = 2

_OPERATORS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
OPERATORS = tuple(_OPERATORS)


class State(Enum):
    """StateValue."""

    OK = "OK"
    ALARM = "ALARM"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"


class Missing(Enum):
    """TreatMissingData."""

    MISSING = "missing"
    IGNORE = "ignore"
    BREACHING = "breaching"
    NOT_BREACHING = "notBreaching"


@dataclass(frozen=True)
class Point:
    """A period: when it begins, its value, None where it lacks, and of how many samples it is."""

    begin: float
    value: float | None = None
    samples: float = 0.0


@dataclass(frozen=True)
class Condition:
    """When an alarm goes off. to_alarm: DatapointsToAlarm, None where it was not given."""

    comparison: str
    threshold: float
    periods: int
    to_alarm: int | None = None
    missing: Missing = Missing.MISSING

    @property
    def range(self) -> int:
        """Periods to look back at, the evaluation range."""
        return self.periods + _MORE_PERIODS

    @property
    def least(self) -> int:
        """Breaching data points that it takes."""
        return self.to_alarm or self.periods

    @property
    def words(self) -> str:
        """What a breaching data point is."""
        return _OPERATORS[self.comparison][1]

    def breached_by(self, point: Point) -> bool:
        """Whether a data point is beyond the threshold."""
        return point.value is not None and _OPERATORS[self.comparison][0](
            point.value, self.threshold
        )


@dataclass(frozen=True)
class Decision:
    """state: None: it stays what it is. used: the real data points, oldest first. filled: others
    that were taken to be breaching, or not to be."""

    state: State | None
    used: Sequence[Point] = field(default=())
    filled: int = 0


def decide(points: Sequence[Point], condition: Condition) -> Decision:
    """points: of the evaluation range, oldest first."""
    real = [point for point in points if point.value is not None]
    if len(real) >= condition.periods:
        used = real[-condition.periods :]
        breaching = sum(map(condition.breached_by, used))
        return Decision(State.ALARM if breaching >= condition.least else State.OK, used)
    filled = condition.periods - len(real)
    breaching = sum(map(condition.breached_by, real))
    if condition.missing is Missing.BREACHING:
        breaching += filled
    elif condition.missing is not Missing.NOT_BREACHING:
        return Decision(_undisturbed(points, real, breaching, condition), real)
    return Decision(State.ALARM if breaching >= condition.least else State.OK, real, filled)


def _undisturbed(
    points: Sequence[Point], real: Sequence[Point], breaching: int, condition: Condition
) -> State | None:
    """Missing data points are missing, or keep the state."""
    keeps = condition.missing is Missing.IGNORE
    if not real:
        return None if keeps else State.INSUFFICIENT_DATA
    if breaching >= condition.least:
        return State.ALARM
    if breaching < len(real):
        return State.OK
    # All are breaching, and too few. The next may not be: they must be old enough.
    age = len(points) - points.index(real[0])
    return State.ALARM if age >= condition.least and not keeps else None


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
    treatments = [one.value for one in Missing]
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
    given = [member for member in _OF_ONE if members.get(member)]
    if given:
        raise _refused(f"The parameters Metrics and {given[0]} are mutually exclusive.")
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


CREATED = "Unchecked: Initial alarm creation"
#: So many data points are listed inside the sentence; of more, the newest come after it.
_INLINE, _LISTED = 4, 5


def reason(decision: Decision, condition: Condition) -> str:
    """StateReason of a decision that has a state."""
    if decision.state is State.INSUFFICIENT_DATA:
        count = condition.periods - len(decision.used)
        return f"Insufficient Data: {_count(count, 'datapoint')} {_be(count)} unknown."
    if not decision.used:
        return (
            "Threshold Crossed: no datapoints were received for "
            f"{_count(decision.filled, 'period')} and {_treated(decision, condition)}."
        )
    return f"Threshold Crossed: {_crossed(decision, condition)}"


def reason_data(
    decision: Decision, condition: Condition, now: float, measure: Mapping[str, Any]
) -> dict[str, Any]:
    """StateReasonData. measure: what the data points are: unit, statistic, period."""
    used = decision.used
    return {
        "version": "1.0",
        "queryDate": stamp(now),
        **({"startDate": stamp(used[0].begin)} if used else {}),
        **measure,
        "recentDatapoints": [point.value for point in used],
        "threshold": condition.threshold,
        "evaluatedDatapoints": [
            {"timestamp": stamp(point.begin), "sampleCount": point.samples, "value": point.value}
            for point in reversed(used)
        ],
    }


def stamp(at: float) -> str:
    """A time as it stands in what CloudWatch writes."""
    time = datetime.fromtimestamp(at, timezone.utc)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}+0000"


def _crossed(decision: Decision, condition: Condition) -> str:
    alarm = decision.state is State.ALARM
    shown = [point for point in decision.used if condition.breached_by(point) is alarm]
    shown = list(reversed(shown or decision.used))
    count, total = len(shown), condition.periods
    if condition.to_alarm is None:
        many, least = _count(count, "datapoint"), ""
    else:
        needed = condition.least if alarm else total - condition.least + 1
        change = "OK -> ALARM" if alarm else "ALARM -> OK"
        many = f"{count} out of the last {total} datapoints"
        least = f" (minimum {_count(needed, 'datapoint')} for {change} transition)"
    listed = f"[{', '.join(map(_point, shown[:_LISTED]))}]"
    message = "" if alarm and condition.breached_by(shown[0]) else "not "
    verdict = f"{_be(count)} {message}{condition.words} the threshold ({condition.threshold})"
    if decision.filled:
        verdict += f" and {_treated(decision, condition)}"
    if count <= _INLINE:
        return f"{many} {listed} {verdict}{least}."
    crossed = "crossed" if alarm else "did not cross"
    return (
        f"{many} {verdict}. The most recent datapoints which {crossed} the threshold: "
        f"{listed}{least}."
    )


def _treated(decision: Decision, condition: Condition) -> str:
    way = "Breaching" if condition.missing is Missing.BREACHING else "NonBreaching"
    missing = _count(decision.filled, "missing datapoint")
    return f"{missing} {_be(decision.filled)} treated as [{way}]"


def _point(point: Point) -> str:
    time = datetime.fromtimestamp(point.begin, timezone.utc)
    return f"{point.value} ({time:%d/%m/%y %H:%M:%S})"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _be(count: int) -> str:
    return "was" if count == 1 else "were"


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
        subject = "updated" if before else "created"
        self._note(
            record, "ConfigurationUpdate", f'Alarm "{name}" {subject}', {"type": subject.title()}
        )
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
