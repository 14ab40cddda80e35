"""CloudWatch's calls that are carried out here, and those that are refused; the rest is moto's."""

from __future__ import annotations

from collections.abc import Mapping

from merlin_simulator.control.caller import Call
from merlin_simulator.control.cloudwatch.alarm_calls import AlarmCalls
from merlin_simulator.control.cloudwatch.metric_calls import MetricCalls
from merlin_simulator.control.errors import UnknownOperation
from merlin_simulator.control.json_api import Operation

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
