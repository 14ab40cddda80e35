"""What PutMetricAlarm refuses beyond what the service model says. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from merlin_simulator.control.cloudwatch.alarm_state import OPERATORS, Missing
from merlin_simulator.control.cloudwatch.asked import check_period, check_statistic
from merlin_simulator.control.errors import ServiceError

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
    for member, words in _NOT_PLAYED.items():
        if members.get(member) is not None:
            raise _refused(f"{member} is given: this simulator does not play {words}.")
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


def _refused(words: str) -> ServiceError:
    return ServiceError(words, "ValidationError")
