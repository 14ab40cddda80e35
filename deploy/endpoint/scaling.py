"""Autoscaling brought to what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploy.aws.account import Account, Say
from deploy.wanted.comparing import has_all
from deploy.wanted.scaling import DIMENSION, NAMESPACE, make_resource_id, make_scalable
from deploy.wanted.wanted import Members

_SERVICE = "application-autoscaling"


def find_target(account: Account, endpoint_name: str) -> Mapping[str, Any] | None:
    """The variant as a scalable target; None where it is none."""
    found = account.ask(
        _SERVICE,
        "DescribeScalableTargets",
        ServiceNamespace=NAMESPACE,
        ResourceIds=[make_resource_id(endpoint_name)],
        ScalableDimension=DIMENSION,
    )
    return next(iter(found["ScalableTargets"]), None)


def has_scaling(account: Account, endpoint_name: str) -> bool:
    """Whether autoscaling moves the instances."""
    return find_target(account, endpoint_name) is not None


def bring_scaling(
    account: Account, endpoint_name: str, target: Members | None, policy: Members | None, say: Say
) -> None:
    """To the target and the policy that are wanted; None: to no autoscaling."""
    present = find_target(account, endpoint_name)
    if target is None or policy is None:
        if present is not None:
            end_scaling(account, endpoint_name)
            say("autoscaling: ended")
        return
    if not has_all(present, target):
        account.change(_SERVICE, "RegisterScalableTarget", **target)
        say(f"autoscaling: {target['MinCapacity']} to {target['MaxCapacity']} instances")
    policies = find_policies(account, endpoint_name)
    if not any(has_all(one, policy) for one in policies):
        account.change(_SERVICE, "PutScalingPolicy", **policy)
        say(f"autoscaling: policy {policy['PolicyName']}")


def end_scaling(account: Account, endpoint_name: str) -> bool:
    """The target goes, with every policy and every alarm that Application Auto Scaling made.

    Whether it was there.
    """
    return account.remove(_SERVICE, "DeregisterScalableTarget", **make_scalable(endpoint_name))


def find_policies(account: Account, endpoint_name: str) -> list[Mapping[str, Any]]:
    """Of the variant, as DescribeScalingPolicies has them."""
    return list(
        account.ask_all(
            _SERVICE,
            "DescribeScalingPolicies",
            "ScalingPolicies",
            ServiceNamespace=NAMESPACE,
            ResourceId=make_resource_id(endpoint_name),
            ScalableDimension=DIMENSION,
        )
    )
