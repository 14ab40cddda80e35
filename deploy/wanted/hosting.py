"""CreateModel's and CreateEndpointConfig's members, without names and tags."""

from __future__ import annotations

from typing import Any

from deploy.config.config import Config
from deploy.config.drivers import choose_ami
from deploy.wanted.names import VARIANT

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
