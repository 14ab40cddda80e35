"""Scaling policies: PutScalingPolicy and what goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from merlin_simulator.control.autoscaling.datapoints import check_metric
from merlin_simulator.control.autoscaling.decision import COOLDOWN_S, Side, Tracking
from merlin_simulator.control.autoscaling.listing import about_variants, answer, described
from merlin_simulator.control.autoscaling.names import (
    DIMENSION,
    NAMESPACE,
    LimitExceeded,
    alarm_arn,
    make_id,
    no_policy,
    policy_arn,
    read_resource,
)
from merlin_simulator.control.autoscaling.steps import check_steps
from merlin_simulator.control.autoscaling.targets import Targets
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records

TRACKING, STEPS = "TargetTrackingScaling", "StepScaling"
_CONFIGS = {
    TRACKING: "TargetTrackingScalingPolicyConfiguration",
    STEPS: "StepScalingPolicyConfiguration",
}
_OURS = ("PolicyId",)
#: AWS, "Quotas for Application Auto Scaling": policies of a target.
_MOST = 50


class Policies:
    """All of them, by an id of their own."""

    def __init__(self, records: Records, clock: Clock, targets: Targets) -> None:
        self._records, self._clock, self._targets = records, clock, targets
        targets.gone.append(self._forget)

    def of(self, resource: str, kind: str) -> list[Record]:
        """Those of a target; kind: a PolicyType."""
        return [one for one in self._of(resource) if one["PolicyType"] == kind]

    def described(self) -> list[Record]:
        """As DescribeScalingPolicies has them."""
        return described(self._records.values(), _OURS)

    def by_arn(self, arn: str) -> Record | None:
        """The policy that an alarm's action names."""
        return next((one for one in self._records.values() if one["PolicyARN"] == arn), None)

    # -- the calls

    async def put(self, call: Call) -> Mapping[str, Any]:
        """PutScalingPolicy: a new one, or another configuration of one that is there."""
        members, name = call.members, call.members["PolicyName"]
        resource = str(read_resource(members))
        self._targets.get(resource)
        before = self._find(resource, name)
        kind, config = _configuration(members, before)
        others = [one for one in self._of(resource) if one is not before]
        if before is None and len(others) >= _MOST:
            raise LimitExceeded(f"A scalable target may have at most {_MOST} scaling policies.")
        if kind == TRACKING:
            _check_alone(config, others)
        policy = before or self._made(resource, name, call)
        policy = {
            **{key: value for key, value in policy.items() if key not in _CONFIGS.values()},
            "PolicyType": kind,
            _CONFIGS[kind]: config,
            "Alarms": _alarms(policy, kind, config, call.region),
        }
        self._records.put(policy["PolicyId"], policy)
        return {"PolicyARN": policy["PolicyARN"], "Alarms": policy["Alarms"]}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScalingPolicies."""
        members, found = call.members, list[Record]()
        if about_variants(members):
            names, resource = members.get("PolicyNames"), members.get("ResourceId")
            found = [
                one
                for one in self._records.values()
                if (not names or one["PolicyName"] in names)
                and resource in (None, one["ResourceId"])
            ]
        return answer("ScalingPolicies", found, members, _OURS)

    async def delete(self, call: Call) -> Mapping[str, Any]:
        """DeleteScalingPolicy."""
        resource, name = str(read_resource(call.members)), call.members["PolicyName"]
        policy = self._find(resource, name)
        if policy is None:
            raise no_policy(resource, name)
        self._records.remove(policy["PolicyId"])
        return {}

    def _find(self, resource: str, name: str) -> Record | None:
        return next((one for one in self._of(resource) if one["PolicyName"] == name), None)

    def _of(self, resource: str) -> list[Record]:
        return [one for one in self._records.values() if one["ResourceId"] == resource]

    def _forget(self, resource: str) -> None:
        for policy in self._of(resource):
            self._records.remove(policy["PolicyId"])

    def _made(self, resource: str, name: str, call: Call) -> Record:
        policy_id = make_id()
        return {
            "PolicyId": policy_id,
            "PolicyARN": policy_arn(policy_id, resource, name, call.region),
            "PolicyName": name,
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource,
            "ScalableDimension": DIMENSION,
            "CreationTime": self._clock.now(),
        }


def rule(policy: Mapping[str, Any]) -> Tracking:
    """What a target-tracking policy is decided by."""
    config = policy[_CONFIGS[TRACKING]]
    return Tracking(
        policy["PolicyName"],
        float(config["TargetValue"]),
        float(config.get("ScaleOutCooldown", COOLDOWN_S)),
        float(config.get("ScaleInCooldown", COOLDOWN_S)),
        bool(config.get("DisableScaleIn")),
    )


def config_of(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration that goes with its type."""
    config: Mapping[str, Any] = policy[_CONFIGS[policy["PolicyType"]]]
    return config


def alarm_name(policy: Mapping[str, Any], side: Side) -> str:
    """Of the alarm that watches one side of a target-tracking policy; "" where there is none."""
    names = (str(alarm["AlarmName"]) for alarm in policy["Alarms"])
    return next((name for name in names if f"-Alarm{side.value}-" in name), "")


def _configuration(
    members: Mapping[str, Any], before: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any]]:
    """Type and configuration that a call leaves. Raises ServiceError."""
    # StepScaling is what the service took where none was given.
    kind = members.get("PolicyType") or (before["PolicyType"] if before else STEPS)
    member = _CONFIGS.get(kind)
    if member is None:
        raise ServiceError(
            f"PolicyType is {kind}: here {TRACKING} and {STEPS} are carried out for {NAMESPACE}."
        )
    config = members.get(member)
    if config is None and before is not None and member in before:
        config = before[member]
    if config is None:
        raise ServiceError(f"{member} must be specified for a policy of type {kind}")
    if kind == STEPS:
        check_steps(config)
    else:
        _check_tracking(config)
    return kind, config


def _check_tracking(config: Mapping[str, Any]) -> None:
    if not config["TargetValue"] > 0:
        raise ServiceError(f"TargetValue is {config['TargetValue']:g}: expected more than 0.")
    for member in ("ScaleInCooldown", "ScaleOutCooldown"):
        if config.get(member, 0) < 0:
            raise ServiceError(f"{member} is {config[member]}: expected 0 or more seconds.")
    check_metric(config)


def _check_alone(config: Mapping[str, Any], others: list[Record]) -> None:
    """Two targets of one metric would pull at each other."""
    members = ("PredefinedMetricSpecification", "CustomizedMetricSpecification")
    for other in others:
        kept = other.get(_CONFIGS[TRACKING])
        if kept and all(kept.get(member) == config.get(member) for member in members):
            # The service's own words.
            raise ServiceError(
                "Only one TargetTrackingScaling policy for a given metric specification is allowed."
            )


def _alarms(
    policy: Mapping[str, Any], kind: str, config: Mapping[str, Any], region: str
) -> list[dict[str, str]]:
    """Of a target-tracking policy those that AWS makes; they stay while it is changed."""
    if kind == STEPS:
        return []
    sides = [Side.HIGH] if config.get("DisableScaleIn") else [Side.HIGH, Side.LOW]
    kept = {side: alarm_name(policy, side) for side in sides} if policy.get("Alarms") else {}
    alarms = []
    for side in sides:
        new = f"TargetTracking-{policy['ResourceId']}-Alarm{side.value}-{make_id()}"
        name = kept.get(side) or new
        alarms.append({"AlarmName": name, "AlarmARN": alarm_arn(name, region)})
    return alarms
