"""All requests that make an endpoint what its CONFIG.toml says.

`up` sends them, `render` prints them. The same Config and Facts give the same requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploy.config.catalog import choose_ami
from deploy.config.sections import Config
from deploy.desired.monitoring import (
    ENDPOINT_TAG,
    VARIANT,
    content_name,
    make_alarms,
    make_policy,
    make_rollback_alarm_names,
    make_target,
)


def has_all(present: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; AWS adds members of its own. None: nothing is."""
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(
            has_all(present.get(name), value) for name, value in wanted.items()
        )
    return bool(present == wanted)


RESERVE = "SERVE_MEMORY_RESERVE_MB"
_ROUTING = {"least-outstanding-requests": "LEAST_OUTSTANDING_REQUESTS", "random": "RANDOM"}


def make_model(config: Config, image: str, model_data_url: str) -> dict[str, Any]:
    """Of CreateModel."""
    container: dict[str, Any] = {"Image": image, "ModelDataUrl": model_data_url}
    if config.endpoint.single_model is None:
        container["Mode"] = "MultiModel"
        setting = "Enabled" if config.container.model_cache else "Disabled"
        container["MultiModelConfig"] = {"ModelCacheSetting": setting}
    if environment := make_environment(config):
        container["Environment"] = environment
    if config.metrics.detailed:
        container["ContainerMetricsConfig"] = {
            "MetricsEndpoints": [
                {
                    "MetricsEndpointPath": config.metrics.path,
                    "MetricPublishFrequencyInSeconds": config.metrics.every,
                }
            ]
        }
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
    """The container's variables, in the order of their names."""
    environment = dict(config.container.environment or {})
    if config.container.memory_reserve_mb is not None:
        environment[RESERVE] = str(config.container.memory_reserve_mb)
    return dict(sorted(environment.items()))


def make_endpoint_config(config: Config, model_name: str) -> dict[str, Any]:
    """Of CreateEndpointConfig."""
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
    made: dict[str, Any] = {
        "ProductionVariants": [variant],
        "MetricsConfig": {"EnableDetailedObservability": config.metrics.detailed},
    }
    if config.encryption.volume_key is not None:
        made["KmsKeyId"] = config.encryption.volume_key
    return made


#: Beyond the steps' waits: instances take so long to come, in seconds.
_ROOM_S = 3600
_LEAST_S, _MOST_S = 600, 28_800
#: The guide on rolling updates: a batch has at most so much of the fleet.
_MOST_BATCH_PERCENT = 50


def make_deployment_config(config: Config) -> dict[str, Any]:
    """How the new instances take over, and which alarms bring the old ones back."""
    made = _make_update_policy(config)
    alarms = [{"AlarmName": name} for name in make_rollback_alarm_names(config)]
    if config.deployment.roll_back_on_alarms and alarms:
        made["AutoRollbackConfiguration"] = {"Alarms": alarms}
    return made


def _make_update_policy(config: Config) -> dict[str, Any]:
    deployment = config.deployment
    share: dict[str, Any] = {"Type": "CAPACITY_PERCENT", "Value": deployment.step_percent}
    steps = -(-100 // deployment.step_percent)
    wait = 0 if deployment.traffic == "all-at-once" else deployment.wait
    waits = wait * steps + deployment.termination_wait
    limit = max(_LEAST_S, min(_MOST_S, waits + _ROOM_S))
    if deployment.traffic == "rolling":
        share["Value"] = min(share["Value"], _MOST_BATCH_PERCENT)
        return {
            "RollingUpdatePolicy": {
                "MaximumBatchSize": share,
                "WaitIntervalInSeconds": deployment.wait,
                "MaximumExecutionTimeoutInSeconds": limit,
            }
        }
    kind = {"all-at-once": "ALL_AT_ONCE", "canary": "CANARY", "linear": "LINEAR"}
    routing: dict[str, Any] = {
        "Type": kind[deployment.traffic],
        "WaitIntervalInSeconds": wait,
    }
    if deployment.traffic == "canary":
        routing["CanarySize"] = share
    if deployment.traffic == "linear":
        routing["LinearStepSize"] = share
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": routing,
            "TerminationWaitInSeconds": deployment.termination_wait,
            "MaximumExecutionTimeoutInSeconds": limit,
        }
    }


Members = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """What only AWS knows. image: with its digest, where it has one. model_data_url: the prefix of
    all archives, or one archive of a single-model endpoint."""

    image: str
    model_data_url: str


@dataclass(frozen=True)
class Wanted:
    """Requests by their operations' members, without what `up` alone adds (history).

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


def make_wanted(config: Config, facts: Facts) -> Wanted:
    """All of it."""
    name = config.endpoint.name
    model = make_model(config, facts.image, facts.model_data_url)
    model_name = content_name(name, model)
    endpoint_config = make_endpoint_config(config, model_name)
    tags = {**config.tags, ENDPOINT_TAG: name}
    return Wanted(
        endpoint_name=name,
        model={"ModelName": model_name, **model},
        endpoint_config={
            "EndpointConfigName": content_name(name, endpoint_config),
            **endpoint_config,
        },
        target=make_target(config),
        policy=make_policy(config),
        alarms=make_alarms(config),
        deployment=make_deployment_config(config),
        tags=tuple({"Key": key, "Value": value} for key, value in sorted(tags.items())),
    )
