"""The state that an alarm's data points put it in, by AWS's rules. No I/O.

AWS, "Configuring how CloudWatch alarms treat missing data" and "Alarm evaluation".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

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
