"""Alarms' states by their data points, and the words that AWS gives for them. No I/O."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

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


class MissingData(Enum):
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
    """When an alarm goes off."""

    comparison: str
    threshold: float
    periods: int
    to_alarm: int | None = None  # DatapointsToAlarm, None where it was not given
    missing: MissingData = MissingData.MISSING

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
        """The words for a breaching data point."""
        return _OPERATORS[self.comparison][1]

    def breached_by(self, point: Point) -> bool:
        """Whether a data point is beyond the threshold."""
        return point.value is not None and _OPERATORS[self.comparison][0](
            point.value, self.threshold
        )


@dataclass(frozen=True)
class Decision:
    """The alarm's next state, and why."""

    state: State | None  # None: it stays what it is
    used: Sequence[Point] = field(default=())  # the real data points, oldest first
    filled: int = 0  # others that were taken to be breaching, or not to be


def decide(points: Sequence[Point], condition: Condition) -> Decision:
    """points: of the evaluation range, oldest first."""
    real = [point for point in points if point.value is not None]
    if len(real) >= condition.periods:
        used = real[-condition.periods :]
        breaching = sum(map(condition.breached_by, used))
        return Decision(State.ALARM if breaching >= condition.least else State.OK, used)
    filled = condition.periods - len(real)
    breaching = sum(map(condition.breached_by, real))
    if condition.missing is MissingData.BREACHING:
        breaching += filled
    elif condition.missing is not MissingData.NOT_BREACHING:
        return Decision(_undisturbed(points, real, breaching, condition), real)
    return Decision(State.ALARM if breaching >= condition.least else State.OK, real, filled)


def _undisturbed(
    points: Sequence[Point], real: Sequence[Point], breaching: int, condition: Condition
) -> State | None:
    """Missing data points are missing, or keep the state."""
    keeps = condition.missing is MissingData.IGNORE
    if not real:
        return None if keeps else State.INSUFFICIENT_DATA
    if breaching >= condition.least:
        return State.ALARM
    if breaching < len(real):
        return State.OK
    # All are breaching, and too few. The next may not be: they must be old enough.
    age = len(points) - points.index(real[0])
    return State.ALARM if age >= condition.least and not keeps else None


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
        "queryDate": _stamp(now),
        **({"startDate": _stamp(used[0].begin)} if used else {}),
        **measure,
        "recentDatapoints": [point.value for point in used],
        "threshold": condition.threshold,
        "evaluatedDatapoints": [
            {"timestamp": _stamp(point.begin), "sampleCount": point.samples, "value": point.value}
            for point in reversed(used)
        ],
    }


def _stamp(at: float) -> str:
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
    way = "Breaching" if condition.missing is MissingData.BREACHING else "NonBreaching"
    missing = _count(decision.filled, "missing datapoint")
    return f"{missing} {_be(decision.filled)} treated as [{way}]"


def _point(point: Point) -> str:
    time = datetime.fromtimestamp(point.begin, timezone.utc)
    return f"{point.value} ({time:%d/%m/%y %H:%M:%S})"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _be(count: int) -> str:
    return "was" if count == 1 else "were"
