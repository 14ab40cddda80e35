"""What AWS should have for a CONFIG.toml, as requests. Nothing here asks AWS.

`up` sends them, `render` prints them. The same Config and Facts give the same requests.

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

from merlin_deploy.config.catalog import choose_ami
from merlin_deploy.config.container_settings import RESERVE
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
#: CloudWatch has times in microseconds.
MICROSECONDS = 1000.0
#: Metrics of invocations, and of instances; the latter is also how names of log groups begin.
INVOCATIONS, INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
_UNSEEN = "unseen-values"
#: Seconds over which the share of unseen values is taken, at least.
_LEAST_WINDOW_S = 300
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
        _UNSEEN,
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
    """One threshold."""

    name: str
    metric: str
    statistic: str  # CloudWatch's, or a percentile such as p99
    threshold: float | None
    operator: str = "GreaterThanThreshold"


def make_alarms(config: Config) -> tuple[dict[str, Any], ...]:
    """PutMetricAlarm's members, for each threshold that is set."""
    alarms = [
        _make_alarm(config, watch) for watch in _list_watches(config) if watch.threshold is not None
    ]
    if config.alarms.unseen_above_percent is not None:
        alarms.append(_make_unseen_alarm(config, config.alarms.unseen_above_percent))
    return tuple(alarms)


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
        return None if milliseconds is None else milliseconds * MICROSECONDS

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
        "Namespace": INVOCATIONS,
        "MetricName": watch.metric,
        "Dimensions": make_dimensions(config.endpoint.name),
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


def _make_unseen_alarm(config: Config, percent: float) -> dict[str, Any]:
    """On PromQL: what SageMaker scrapes off the container is no metric of a namespace.

    Each archive that the query returns is a contributor, and in alarm once it has been so for as
    long as the others.
    """
    name, seconds = config.endpoint.name, 60 * config.alarms.minutes
    # A counter's increase needs several scrapes.
    window_s = max(_LEAST_WINDOW_S, 4 * config.metrics.every)
    labels = f'{{"aws.sagemaker.endpoint.name"="{name}"}}[{window_s}s]'
    unseen, values = (
        f"sum by (target_model) (increase(serve_feature_{number}_total{labels}))"
        for number in ("unseen", "values")
    )
    criteria = {
        "Query": f"100 * {unseen} / {values} > {percent:g}",
        "PendingPeriod": seconds,
        "RecoveryPeriod": seconds,
    }
    return {
        "AlarmName": f"{make_alarm_prefix(name)}{_UNSEEN}",
        "AlarmDescription": f"Unseen values of each archive of the endpoint {name}, in percent",
        "EvaluationCriteria": {"PromQLCriteria": criteria},
        "EvaluationInterval": 60,
        "AlarmActions": list(config.alarms.topics),
        "OKActions": list(config.alarms.topics),
    }


def make_dimensions(endpoint_name: str) -> list[dict[str, str]]:
    """Dimensions of the variant's metrics."""
    dimensions = {"EndpointName": endpoint_name, "VariantName": VARIANT}
    return [{"Name": name, "Value": value} for name, value in dimensions.items()]


def make_log_group(endpoint_name: str) -> str:
    """Where SageMaker writes the containers' logs."""
    return f"{INSTANCES}/{endpoint_name}"


def make_resource_id(endpoint_name: str) -> str:
    """The variant's name in Application Auto Scaling."""
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


_ROUTING = {"least-outstanding-requests": "LEAST_OUTSTANDING_REQUESTS", "random": "RANDOM"}
_BLUE_GREEN = {"all-at-once": "ALL_AT_ONCE", "canary": "CANARY", "linear": "LINEAR"}
#: Seconds that an update may take beyond its steps' waits, until instances have come; and AWS's
#: bounds.
_INSTANCES_COME_S = 3600
_SHORTEST_LIMIT_S, _LONGEST_LIMIT_S = 600, 28_800
#: A batch of a rolling update has at most this share of the fleet (the guide on rolling updates).
_MOST_BATCH_PERCENT = 50
#: A request's.
Members = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """Facts that only AWS knows."""

    image: str  # with its digest, if it has one
    model_data_url: str  # the prefix of all archives, or the archive of a single-model endpoint


@dataclass(frozen=True)
class Desired:
    """Members of each request, without the history that `up` adds.

    target and policy are None without autoscaling.
    """

    endpoint_name: str
    model: Members
    endpoint_config: Members
    target: Members | None
    policy: Members | None
    alarms: tuple[Members, ...]
    deployment: Members
    tags: tuple[Members, ...]

    @property
    def model_name(self) -> str:
        """ModelName of CreateModel."""
        return str(self.model["ModelName"])

    @property
    def config_name(self) -> str:
        """EndpointConfigName of CreateEndpointConfig."""
        return str(self.endpoint_config["EndpointConfigName"])


def make_desired(config: Config, facts: Facts) -> Desired:
    """All requests for an endpoint."""
    name = config.endpoint.name
    model = make_model(config, facts.image, facts.model_data_url)
    model_name = make_content_name(name, model)
    endpoint_config = make_endpoint_config(config, model_name)
    config_name = make_content_name(name, endpoint_config)
    tags = {**config.tags, ENDPOINT_TAG: name}
    return Desired(
        endpoint_name=name,
        model={"ModelName": model_name, **model},
        endpoint_config={"EndpointConfigName": config_name, **endpoint_config},
        target=make_target(config),
        policy=make_policy(config),
        alarms=make_alarms(config),
        deployment=make_deployment_config(config),
        tags=tuple({"Key": key, "Value": value} for key, value in sorted(tags.items())),
    )


def has_members(present: Any, desired: Any) -> bool:
    """Whether all that is desired is there; AWS adds members of its own. present may be None."""
    if isinstance(desired, Mapping):
        return isinstance(present, Mapping) and all(
            has_members(present.get(name), value) for name, value in desired.items()
        )
    return bool(present == desired)


def make_model(config: Config, image: str, model_data_url: str) -> dict[str, Any]:
    """CreateModel's members, but for name and tags."""
    container: dict[str, Any] = {"Image": image, "ModelDataUrl": model_data_url}
    if config.endpoint.single_model is None:
        container["Mode"] = "MultiModel"
        setting = "Enabled" if config.container.model_cache else "Disabled"
        container["MultiModelConfig"] = {"ModelCacheSetting": setting}
    if environment := make_environment(config):
        container["Environment"] = environment
    if config.metrics.detailed:
        endpoint = {
            "MetricsEndpointPath": config.metrics.path,
            "MetricPublishFrequencyInSeconds": config.metrics.every,
        }
        container["ContainerMetricsConfig"] = {"MetricsEndpoints": [endpoint]}
    model: dict[str, Any] = {
        "PrimaryContainer": container,
        "ExecutionRoleArn": config.endpoint.role,
        "EnableNetworkIsolation": config.network.isolated,
    }
    if config.network.subnets:
        model["VpcConfig"] = {
            "Subnets": list(config.network.subnets),
            "SecurityGroupIds": list(config.network.security_groups),
        }
    return model


def make_environment(config: Config) -> dict[str, str]:
    """The container's variables, sorted by name."""
    environment = dict(config.container.environment or {})
    if config.container.memory_reserve_mb is not None:
        environment[RESERVE] = str(config.container.memory_reserve_mb)
    return dict(sorted(environment.items()))


def make_endpoint_config(config: Config, model_name: str) -> dict[str, Any]:
    """CreateEndpointConfig's members, but for name and tags."""
    instances = config.instances
    variant: dict[str, Any] = {
        "VariantName": VARIANT,
        "ModelName": model_name,
        "InstanceType": instances.type,
        "InitialInstanceCount": instances.count,
        "InitialVariantWeight": 1.0,
        "ContainerStartupHealthCheckTimeoutInSeconds": instances.startup_timeout,
        "ModelDataDownloadTimeoutInSeconds": instances.download_timeout,
        "RoutingConfig": {"RoutingStrategy": _ROUTING[instances.routing]},
    }
    if instances.volume_gb is not None:
        variant["VolumeSizeInGB"] = instances.volume_gb
    if (ami := choose_ami(instances.type, instances.ami)) is not None:
        variant["InferenceAmiVersion"] = ami
    members: dict[str, Any] = {
        "ProductionVariants": [variant],
        "MetricsConfig": {"EnableDetailedObservability": config.metrics.detailed},
    }
    if config.encryption.volume_key is not None:
        members["KmsKeyId"] = config.encryption.volume_key
    return members


def make_deployment_config(config: Config) -> dict[str, Any]:
    """UpdateEndpoint's DeploymentConfig: how traffic moves, and which alarms move it back."""
    deployment_config = _make_traffic_policy(config)
    alarms = [{"AlarmName": name} for name in make_rollback_alarm_names(config)]
    if config.deployment.roll_back_on_alarms and alarms:
        deployment_config["AutoRollbackConfiguration"] = {"Alarms": alarms}
    return deployment_config


def _make_traffic_policy(config: Config) -> dict[str, Any]:
    deployment = config.deployment
    traffic, percent = deployment.traffic, deployment.step_percent
    wait = 0 if traffic == "all-at-once" else deployment.wait
    waits = wait * -(-100 // percent) + deployment.termination_wait
    limit = max(_SHORTEST_LIMIT_S, min(_LONGEST_LIMIT_S, waits + _INSTANCES_COME_S))
    if traffic == "rolling":
        return {
            "RollingUpdatePolicy": {
                "MaximumBatchSize": _make_share(min(percent, _MOST_BATCH_PERCENT)),
                "WaitIntervalInSeconds": wait,
                "MaximumExecutionTimeoutInSeconds": limit,
            }
        }
    routing: dict[str, Any] = {"Type": _BLUE_GREEN[traffic], "WaitIntervalInSeconds": wait}
    if traffic in ("canary", "linear"):
        size = "CanarySize" if traffic == "canary" else "LinearStepSize"
        routing[size] = _make_share(percent)
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": routing,
            "TerminationWaitInSeconds": deployment.termination_wait,
            "MaximumExecutionTimeoutInSeconds": limit,
        }
    }


def _make_share(percent: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": percent}
