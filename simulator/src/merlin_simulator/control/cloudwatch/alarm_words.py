"""StateReason and StateReasonData as CloudWatch writes them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from merlin_simulator.control.cloudwatch.alarm_state import (
    Condition,
    Decision,
    Missing,
    Point,
    State,
)

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
    words = "" if alarm and condition.breached_by(shown[0]) else "not "
    verdict = f"{_be(count)} {words}{condition.words} the threshold ({condition.threshold})"
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
