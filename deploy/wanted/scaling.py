"""RegisterScalableTarget's and PutScalingPolicy's members."""

from __future__ import annotations

from typing import Any

from deploy.config.config import Config
from deploy.wanted.names import VARIANT

NAMESPACE = "sagemaker"
DIMENSION = "sagemaker:variant:DesiredInstanceCount"


def make_resource_id(endpoint_name: str) -> str:
    """What Application Auto Scaling calls the variant."""
    return f"endpoint/{endpoint_name}/variant/{VARIANT}"


def make_policy_name(endpoint_name: str) -> str:
    """Of the one policy."""
    return f"{endpoint_name}-invocations"


def make_scalable(endpoint_name: str) -> dict[str, str]:
    """The members that every call about the target has."""
    return {
        "ServiceNamespace": NAMESPACE,
        "ResourceId": make_resource_id(endpoint_name),
        "ScalableDimension": DIMENSION,
    }


def make_target(config: Config) -> dict[str, Any] | None:
    """Of RegisterScalableTarget; None without autoscaling."""
    scaling = config.autoscaling
    if scaling is None:
        return None
    return {
        **make_scalable(config.endpoint.name),
        "MinCapacity": scaling.min,
        "MaxCapacity": scaling.max,
    }


def make_policy(config: Config) -> dict[str, Any] | None:
    """Of PutScalingPolicy: target tracking on invocations, which AWS's guide recommends."""
    scaling = config.autoscaling
    if scaling is None:
        return None
    return {
        "PolicyName": make_policy_name(config.endpoint.name),
        **make_scalable(config.endpoint.name),
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": {
            "TargetValue": scaling.invocations_per_instance,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
            "ScaleOutCooldown": scaling.scale_out_cooldown,
            "ScaleInCooldown": scaling.scale_in_cooldown,
            "DisableScaleIn": not scaling.scale_in,
        },
    }
