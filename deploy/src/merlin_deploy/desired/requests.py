"""All requests that make an endpoint what its CONFIG.toml says.

`up` sends them, `render` prints them. The same Config and Facts give the same requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from merlin_deploy.config.catalog import choose_ami
from merlin_deploy.config.sections import Config
from merlin_deploy.desired.monitoring import (
    ENDPOINT_TAG,
    VARIANT,
    make_alarms,
    make_content_name,
    make_policy,
    make_rollback_alarm_names,
    make_target,
)

_RESERVE = "SERVE_MEMORY_RESERVE_MB"
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
    """What only AWS knows. image: with its digest, if it has one. model_data_url: the prefix of all
    archives, or the archive of a single-model endpoint."""

    image: str
    model_data_url: str


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
        """CreateModel's."""
        return str(self.model["ModelName"])

    @property
    def config_name(self) -> str:
        """CreateEndpointConfig's."""
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
        environment[_RESERVE] = str(config.container.memory_reserve_mb)
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
