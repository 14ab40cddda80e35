"""What belongs to an endpoint besides itself: autoscaling, alarms, configurations and models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from deploy.aws.account import Account
from deploy.desired.monitoring import (
    DIMENSION,
    NAMESPACE,
    is_alarm_of,
    is_ours,
    make_alarm_prefix,
    make_resource_id,
    make_scalable,
)
from deploy.desired.requests import Members, has_all
from deploy.endpoint.state import digest_of, find_deployed, is_tagged
from deploy.terminal import Say

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


#: DeleteAlarms takes so many at once.
_MOST_DELETED = 100


def find_alarms(account: Account, endpoint_name: str) -> list[Mapping[str, Any]]:
    """All that `up` makes for an endpoint, as DescribeAlarms has them."""
    listed = account.ask_all(
        "cloudwatch",
        "DescribeAlarms",
        "MetricAlarms",
        AlarmNamePrefix=make_alarm_prefix(endpoint_name),
    )
    return [one for one in listed if is_alarm_of(endpoint_name, one["AlarmName"])]


def bring_alarms(account: Account, endpoint_name: str, wanted: Sequence[Members], say: Say) -> None:
    """Those that differ are written, those that nobody wants any more go."""
    present = {alarm["AlarmName"]: alarm for alarm in find_alarms(account, endpoint_name)}
    for alarm in wanted:
        if not has_all(present.get(alarm["AlarmName"]), alarm):
            account.change("cloudwatch", "PutMetricAlarm", **alarm)
            say(f"alarm {alarm['AlarmName']}: written")
    names = {alarm["AlarmName"] for alarm in wanted}
    remove_alarms(account, sorted(set(present) - names), say)


def remove_alarms(account: Account, names: Sequence[str], say: Say) -> None:
    """By their names."""
    for start in range(0, len(names), _MOST_DELETED):
        some = list(names[start : start + _MOST_DELETED])
        account.remove("cloudwatch", "DeleteAlarms", AlarmNames=some)
        for name in some:
            say(f"alarm {name}: removed")


def find_model_archives(account: Account, endpoint_name: str) -> frozenset[str]:
    """Their URLs, of all models that `up` made and that are still there. Raises DeployError."""
    listed = account.ask_all("sagemaker", "ListModels", "Models", NameContains=f"{endpoint_name}-")
    names = [one["ModelName"] for one in listed if is_ours(endpoint_name, one["ModelName"])]
    found = (account.find("sagemaker", "DescribeModel", ModelName=name) for name in names)
    containers = (one.get("PrimaryContainer", {}) for one in found if one is not None)
    return frozenset(one["ModelDataUrl"] for one in containers if "ModelDataUrl" in one)


def prune(account: Account, endpoint_name: str, say: Say) -> None:
    """Remove what neither the endpoint nor its history has."""
    deployed = find_deployed(account, endpoint_name)
    if deployed is None:
        return
    remove_configs(account, endpoint_name, {*deployed.history.digests, deployed.digest}, say)


def remove_configs(
    account: Account, endpoint_name: str, kept_digests: Collection[str], say: Say
) -> None:
    """Configurations of other digests go, and models that no kept configuration has.

    What others made stays, whatever its name is: shop-20261125 looks like a digest of ours.
    """
    kept_models: set[str] = set()
    for name, arn in _listed(account, endpoint_name, "EndpointConfig"):
        if digest_of(name) in kept_digests:
            found = account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=name)
            kept_models |= {one["ModelName"] for one in (found or {}).get("ProductionVariants", ())}
        elif is_tagged(account, arn, endpoint_name) and account.remove(
            "sagemaker", "DeleteEndpointConfig", EndpointConfigName=name
        ):
            say(f"endpoint configuration {name}: removed")
    for name, arn in _listed(account, endpoint_name, "Model"):
        if (
            name not in kept_models
            and is_tagged(account, arn, endpoint_name)
            and account.remove("sagemaker", "DeleteModel", ModelName=name)
        ):
            say(f"model {name}: removed")


def _listed(account: Account, endpoint_name: str, what: str) -> list[tuple[str, str]]:
    """Names and ARNs."""
    listed = account.ask_all(
        "sagemaker", f"List{what}s", f"{what}s", NameContains=f"{endpoint_name}-"
    )
    return [
        (one[f"{what}Name"], one[f"{what}Arn"])
        for one in listed
        if is_ours(endpoint_name, one[f"{what}Name"])
    ]
