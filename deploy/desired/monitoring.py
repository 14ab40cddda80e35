"""Names, alarms and autoscaling: the members of PutMetricAlarm, PutScalingPolicy and others.

The alarms watch the metrics of AWS's guide to multi-model endpoints (ModelCacheHit,
ModelLoadingWaitTime, ModelUnloadingTime), and errors. CloudWatch has times in microseconds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.config.sections import Config

VARIANT = "AllTraffic"
#: Of a digest; two of a name's some hundred versions share it once in a million times.
DIGEST_CHARACTERS = 8
#: A tag that all we make carries: whose it is.
ENDPOINT_TAG = "deploy:endpoint"
#: Tags of the endpoint: in which order configurations were deployed, and to which of them a
#: rollback goes that is not done yet.
HISTORY_TAG = "deploy:history"
STEP_TAG = "deploy:rollback"


def content_name(endpoint_name: str, members: Mapping[str, Any]) -> str:
    """NAME-<digest> of a request's members."""
    written = json.dumps(members, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(written.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{endpoint_name}-{digest}"


def is_ours(endpoint_name: str, name: str) -> bool:
    """Whether a model's or configuration's name is one that content_name makes."""
    digest = rf"[0-9a-f]{{{DIGEST_CHARACTERS}}}"
    return re.fullmatch(rf"{re.escape(endpoint_name)}-{digest}", name) is not None


_MICROSECONDS = 1000.0
#: What an alarm of ours may be called behind the endpoint's prefix; a name stays here when it is no
#: longer made, so that it goes.
_NAMES = frozenset(
    {
        "model-cache-hit",
        "model-loading-wait",
        "model-unloading",
        "errors-5xx",
        "errors-4xx",
        "latency-p99",
    }
)
#: Alarms that end an update.
_OF_UPDATES = ("errors-5xx", "latency-p99")


@dataclass(frozen=True)
class _Watch:
    """Of one threshold. statistic: CloudWatch's, or a percentile as it writes one."""

    name: str
    metric: str
    statistic: str
    threshold: float
    below: bool = False


def make_alarms(config: Config) -> tuple[dict[str, Any], ...]:
    """All of them."""
    return tuple(_make_alarm(config, watch) for watch in _watches(config))


def make_rollback_alarm_names(config: Config) -> tuple[str, ...]:
    """Those that say that an update is bad: errors and latency.

    New instances have nothing loaded, so those about loading would end every update.
    """
    prefix = make_alarm_prefix(config.endpoint.name)
    names = (alarm["AlarmName"] for alarm in make_alarms(config))
    return tuple(name for name in names if name.removeprefix(prefix) in _OF_UPDATES)


def make_alarm_prefix(endpoint_name: str) -> str:
    """What the names of an endpoint's alarms begin with, and no other's do: no name has a slash."""
    return f"{endpoint_name}/"


def is_alarm_of(endpoint_name: str, alarm_name: str) -> bool:
    """Whether make_alarms makes one of that name; others' may begin with the prefix, too."""
    prefix = make_alarm_prefix(endpoint_name)
    return alarm_name.startswith(prefix) and alarm_name.removeprefix(prefix) in _NAMES


def _watches(config: Config) -> Iterator[_Watch]:
    alarms = config.alarms
    of_many = config.endpoint.single_model is None
    if of_many and alarms.cache_hit_below is not None:
        yield _Watch("model-cache-hit", "ModelCacheHit", "Average", alarms.cache_hit_below, True)
    if of_many and (limit := alarms.loading_wait_above_ms) is not None:
        yield _Watch("model-loading-wait", "ModelLoadingWaitTime", "Average", limit * _MICROSECONDS)
    if of_many and (limit := alarms.unloading_above_ms) is not None:
        yield _Watch("model-unloading", "ModelUnloadingTime", "Average", limit * _MICROSECONDS)
    if alarms.errors_5xx_above is not None:
        yield _Watch("errors-5xx", "Invocation5XXErrors", "Sum", alarms.errors_5xx_above)
    if alarms.errors_4xx_above is not None:
        yield _Watch("errors-4xx", "Invocation4XXErrors", "Sum", alarms.errors_4xx_above)
    if (limit := alarms.latency_p99_above_ms) is not None:
        yield _Watch("latency-p99", "ModelLatency", "p99", limit * _MICROSECONDS)


def _make_alarm(config: Config, watch: _Watch) -> dict[str, Any]:
    statistic = (
        {"ExtendedStatistic": watch.statistic}
        if watch.statistic.startswith("p")
        else {"Statistic": watch.statistic}
    )
    sign = "Less" if watch.below else "Greater"
    return {
        "AlarmName": f"{make_alarm_prefix(config.endpoint.name)}{watch.name}",
        "AlarmDescription": f"{watch.metric} of the endpoint {config.endpoint.name}",
        "Namespace": "AWS/SageMaker",
        "MetricName": watch.metric,
        "Dimensions": [
            {"Name": "EndpointName", "Value": config.endpoint.name},
            {"Name": "VariantName", "Value": VARIANT},
        ],
        **statistic,
        "Period": 60,
        "EvaluationPeriods": config.alarms.minutes,
        "DatapointsToAlarm": config.alarms.minutes,
        "Threshold": watch.threshold,
        "ComparisonOperator": f"{sign}ThanThreshold",
        # An endpoint that nobody asks is none that fails.
        "TreatMissingData": "notBreaching",
        "AlarmActions": list(config.alarms.topics),
        "OKActions": list(config.alarms.topics),
    }


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
