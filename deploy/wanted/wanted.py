"""Everything that AWS is to have for one configuration, as the requests that make it.

Pure: the same Config and Facts give the same requests. `up` sends them, `render` writes them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploy.config.config import Config
from deploy.wanted.alarms import make_alarms
from deploy.wanted.hosting import make_endpoint_config, make_model
from deploy.wanted.names import ENDPOINT_TAG, content_name
from deploy.wanted.scaling import make_policy, make_target
from deploy.wanted.traffic import make_deployment_config

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
