"""Between alarms and scaling policies: each tracking policy has its alarms in CloudWatch, as AWS
makes them, and an alarm whose action is a step policy has it carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from merlin_simulator.control.apis import Operation
from merlin_simulator.control.autoscaling.decision import (
    IN_DATAPOINTS,
    IN_SHARE,
    OUT_DATAPOINTS,
    Side,
    by_the_minute,
)
from merlin_simulator.control.autoscaling.names import split_resource
from merlin_simulator.control.autoscaling.service import Autoscaling
from merlin_simulator.control.caller import Call
from merlin_simulator.control.cloudwatch.alarms import Alarms
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record

_logger = logging.getLogger(__name__)

_PREFIX = "TargetTracking-"
#: What the ARN of a scaling policy begins with, and what calls change policies.
_POLICY = "arn:aws:autoscaling:"
_CHANGING = ("PutScalingPolicy", "DeleteScalingPolicy", "DeregisterScalableTarget")
_WORDS = "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy {arn}."


class ScalingAlarms:
    """Keeps CloudWatch's alarms in step with the policies."""

    def __init__(self, autoscaling: Autoscaling, alarms: Alarms) -> None:
        self._autoscaling, self._alarms = autoscaling, alarms

    def operations(self) -> Mapping[str, Operation]:
        """Application Auto Scaling's; those that change policies change their alarms, too."""
        return {
            name: self._followed(operation) if name in _CHANGING else operation
            for name, operation in self._autoscaling.operations().items()
        }

    def follow(self, _: object = None) -> None:
        """Make what alarms the policies lack, change those that differ, remove those left over."""
        wanted = dict[str, Mapping[str, Any]]()
        for policy in self._autoscaling.scaling_policies():
            for alarm in policy.get("Alarms", ()):
                wanted[alarm["AlarmName"]] = _members(policy, alarm["AlarmName"])
        for alarm in self._alarms.values():
            if alarm["AlarmName"].startswith(_PREFIX) and alarm["AlarmName"] not in wanted:
                self._alarms.remove(alarm["AlarmName"])
        for name, members in wanted.items():
            self._put(name, members)

    def act(self, alarm: Record, value: float) -> None:
        """An alarm is in ALARM, told at each of its evaluations; value: its newest data point."""
        for action in alarm["AlarmActions"] if alarm["ActionsEnabled"] else ():
            if action.startswith(_POLICY):
                name, threshold = alarm["AlarmName"], alarm["Threshold"]
                self._autoscaling.scaler.alarm_fired(action, value, threshold, name)

    def _put(self, name: str, members: Mapping[str, Any]) -> None:
        kept = self._alarms.find(name)
        if kept is not None and all(kept.get(key) == members[key] for key in members):
            return
        region = members["AlarmActions"][0].split(":")[3]
        try:
            self._alarms.put(members, region)
        except ServiceError as error:  # a metric that may be tracked and not be watched
            _logger.warning("alarm %s is not made: %s", name, error)

    def _followed(self, operation: Operation) -> Callable[[Call], Awaitable[Any]]:
        async def carried_out(call: Call) -> Mapping[str, Any] | None:
            output = await operation(call)
            self.follow()
            return output

        return carried_out


def _members(policy: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Of PutMetricAlarm, for one side of a policy."""
    config = policy["TargetTrackingScalingPolicyConfiguration"]
    is_high = f"-Alarm{Side.HIGH.value}-" in name
    target = float(config["TargetValue"])
    return {
        "AlarmName": name,
        "AlarmDescription": _WORDS.format(arn=policy["PolicyARN"]),
        "AlarmActions": [policy["PolicyARN"]],
        "EvaluationPeriods": OUT_DATAPOINTS if is_high else IN_DATAPOINTS,
        "Threshold": target if is_high else target * IN_SHARE,
        "ComparisonOperator": "GreaterThanThreshold" if is_high else "LessThanThreshold",
        **_metric(policy["ResourceId"], config),
    }


def _metric(resource: str, config: Mapping[str, Any]) -> dict[str, Any]:
    spec = config.get("CustomizedMetricSpecification")
    if spec is None:
        variant = split_resource(resource)
        return {
            "Namespace": "AWS/SageMaker",
            "MetricName": "InvocationsPerInstance",
            "Statistic": "Sum",
            "Period": 60,
            "Dimensions": [
                {"Name": "EndpointName", "Value": variant.endpoint},
                {"Name": "VariantName", "Value": variant.variant},
            ],
        }
    if "Metrics" in spec:
        return {"Metrics": by_the_minute(spec["Metrics"])}
    return {
        "Namespace": spec["Namespace"],
        "MetricName": spec["MetricName"],
        "Statistic": spec["Statistic"],
        "Period": 60,
        "Dimensions": list(spec.get("Dimensions", ())),
    }
