"""How many instances there are, may be, and what autoscaling did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.aws.account import Account
from deploy.endpoint.scaling import find_policies, find_target
from deploy.status.report import Activity, InstancesPart, Missing
from deploy.wanted.scaling import DIMENSION, NAMESPACE, make_resource_id

_SERVICE = "application-autoscaling"
#: The last ones, on one screen.
_ACTIVITIES = 3


@dataclass(frozen=True)
class Scaling:
    """As AWS describes it; target None: there is no autoscaling."""

    target: Mapping[str, Any] | None
    policies: Sequence[Mapping[str, Any]]
    activities: tuple[Activity, ...]

    @property
    def alarms(self) -> int:
        """How many autoscaling made for itself."""
        return sum(len(policy.get("Alarms", ())) for policy in self.policies)


def find_scaling(account: Account, name: str) -> Scaling:
    """Activities are told of a target that is gone, too. Raises DeployError."""
    target = find_target(account, name)
    policies = [] if target is None else find_policies(account, name)
    return Scaling(target, policies, _find_activities(account, name))


def make_instances(description: Mapping[str, Any], scaling: Scaling | Missing) -> InstancesPart:
    """description: DescribeEndpoint's."""
    variant = (description.get("ProductionVariants") or [{}])[0]
    now, wanted = variant.get("CurrentInstanceCount"), variant.get("DesiredInstanceCount")
    if isinstance(scaling, Missing):
        return InstancesPart(now, wanted, missing=scaling.missing)
    bounds = scaling.target or {}
    return InstancesPart(
        now, wanted, bounds.get("MinCapacity"), bounds.get("MaxCapacity"), scaling.activities
    )


def _find_activities(account: Account, name: str) -> tuple[Activity, ...]:
    """Newest first, those that did not scale with their reasons."""
    found = account.ask(
        _SERVICE,
        "DescribeScalingActivities",
        ServiceNamespace=NAMESPACE,
        ResourceId=make_resource_id(name),
        ScalableDimension=DIMENSION,
        MaxResults=_ACTIVITIES,
        IncludeNotScaledActivities=True,
    )
    return tuple(
        Activity(
            at=one["StartTime"],
            status=one["StatusCode"],
            description=one["Description"],
            cause=one["Cause"],
            message=_message(one),
        )
        for one in found["ScalingActivities"]
    )


def _message(activity: Mapping[str, Any]) -> str | None:
    reasons = ", ".join(str(one["Code"]) for one in activity.get("NotScaledReasons", ()))
    return reasons or activity.get("StatusMessage")
