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

from merlin_deploy.config.sections import Config

VARIANT = "AllTraffic"
#: Of a digest; two of a name's some hundred versions share it once in a million times.
DIGEST_CHARACTERS = 8
#: Tags: the endpoint that a resource was made for; and of the endpoint itself which configurations
#: it had, and the one to which an unfinished rollback goes.
ENDPOINT_TAG = "deploy:endpoint"
HISTORY_TAG = "deploy:history"
STEP_TAG = "deploy:rollback"
#: Application Auto Scaling's.
NAMESPACE = "sagemaker"
DIMENSION = "sagemaker:variant:DesiredInstanceCount"
_MICROSECONDS = 1000.0
#: What `up` calls its alarms behind the endpoint's prefix. A name stays here when no alarm has it
#: any more, so that `up` removes the alarm.
_ALARM_NAMES = frozenset(
    {
        "model-cache-hit",
        "model-loading-wait",
        "model-unloading",
        "errors-5xx",
        "errors-4xx",
        "latency-p99",
    }
)
#: New instances have nothing loaded, so an alarm about loading would end every update.
_UPDATE_ENDING = ("errors-5xx", "latency-p99")


def make_content_name(endpoint_name: str, members: Mapping[str, Any]) -> str:
    """NAME-<digest> of a request's members: equal content has an equal name, and is made once."""
    content = json.dumps(members, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(content.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{endpoint_name}-{digest}"


def is_content_name(endpoint_name: str, name: str) -> bool:
    """Whether make_content_name makes such names for this endpoint."""
    digest = rf"[0-9a-f]{{{DIGEST_CHARACTERS}}}"
    return re.fullmatch(rf"{re.escape(endpoint_name)}-{digest}", name) is not None


@dataclass(frozen=True)
class _Watch:
    """One threshold. statistic: CloudWatch's, or a percentile such as p99."""

    name: str
    metric: str
    statistic: str
    threshold: float | None
    operator: str = "GreaterThanThreshold"


def make_alarms(config: Config) -> tuple[dict[str, Any], ...]:
    """PutMetricAlarm's members, for each threshold that is set."""
    return tuple(
        _make_alarm(config, watch) for watch in _list_watches(config) if watch.threshold is not None
    )


def make_rollback_alarm_names(config: Config) -> tuple[str, ...]:
    """The alarms that end an update: errors and latency."""
    prefix = make_alarm_prefix(config.endpoint.name)
    names = (alarm["AlarmName"] for alarm in make_alarms(config))
    return tuple(name for name in names if name.removeprefix(prefix) in _UPDATE_ENDING)


def make_alarm_prefix(endpoint_name: str) -> str:
    """How the names of an endpoint's alarms begin, and no other's: endpoints have no slashes."""
    return f"{endpoint_name}/"


def is_alarm_of(endpoint_name: str, alarm_name: str) -> bool:
    """Whether `up` makes an alarm of this name; others may begin with the prefix, too."""
    prefix = make_alarm_prefix(endpoint_name)
    return alarm_name.startswith(prefix) and alarm_name.removeprefix(prefix) in _ALARM_NAMES


def _list_watches(config: Config) -> Iterator[_Watch]:
    alarms = config.alarms

    def in_microseconds(milliseconds: float | None) -> float | None:
        return None if milliseconds is None else milliseconds * _MICROSECONDS

    if config.endpoint.single_model is None:
        wait, unloading = alarms.loading_wait_above_ms, alarms.unloading_above_ms
        yield _Watch(
            "model-cache-hit",
            "ModelCacheHit",
            "Average",
            alarms.cache_hit_below,
            "LessThanThreshold",
        )
        yield _Watch("model-loading-wait", "ModelLoadingWaitTime", "Average", in_microseconds(wait))
        yield _Watch("model-unloading", "ModelUnloadingTime", "Average", in_microseconds(unloading))
    yield _Watch("errors-5xx", "Invocation5XXErrors", "Sum", alarms.errors_5xx_above)
    yield _Watch("errors-4xx", "Invocation4XXErrors", "Sum", alarms.errors_4xx_above)
    latency = in_microseconds(alarms.latency_p99_above_ms)
    yield _Watch("latency-p99", "ModelLatency", "p99", latency)


def _make_alarm(config: Config, watch: _Watch) -> dict[str, Any]:
    kind = "ExtendedStatistic" if watch.statistic.startswith("p") else "Statistic"
    return {
        "AlarmName": f"{make_alarm_prefix(config.endpoint.name)}{watch.name}",
        "AlarmDescription": f"{watch.metric} of the endpoint {config.endpoint.name}",
        "Namespace": "AWS/SageMaker",
        "MetricName": watch.metric,
        "Dimensions": [
            {"Name": "EndpointName", "Value": config.endpoint.name},
            {"Name": "VariantName", "Value": VARIANT},
        ],
        kind: watch.statistic,
        "Period": 60,
        "EvaluationPeriods": config.alarms.minutes,
        "DatapointsToAlarm": config.alarms.minutes,
        "Threshold": watch.threshold,
        "ComparisonOperator": watch.operator,
        # No requests are no failure.
        "TreatMissingData": "notBreaching",
        "AlarmActions": list(config.alarms.topics),
        "OKActions": list(config.alarms.topics),
    }


def make_resource_id(endpoint_name: str) -> str:
    """What Application Auto Scaling calls the variant."""
    return f"endpoint/{endpoint_name}/variant/{VARIANT}"


def make_scalable(endpoint_name: str) -> dict[str, str]:
    """The members that every call about the target has."""
    return {
        "ServiceNamespace": NAMESPACE,
        "ResourceId": make_resource_id(endpoint_name),
        "ScalableDimension": DIMENSION,
    }


def make_target(config: Config) -> dict[str, Any] | None:
    """RegisterScalableTarget's members; None without autoscaling."""
    scaling = config.autoscaling
    if scaling is None:
        return None
    return {
        **make_scalable(config.endpoint.name),
        "MinCapacity": scaling.min,
        "MaxCapacity": scaling.max,
    }


def make_policy(config: Config) -> dict[str, Any] | None:
    """PutScalingPolicy's members: target tracking on invocations, as AWS's guide recommends."""
    scaling = config.autoscaling
    if scaling is None:
        return None
    return {
        "PolicyName": f"{config.endpoint.name}-invocations",
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
