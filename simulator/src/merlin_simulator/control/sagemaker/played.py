"""One endpoint of the control plane: its record, its deployment, and how both are described."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record
from merlin_simulator.control.sagemaker.deployment import Deployment
from merlin_simulator.control.sagemaker.names import in_progress

#: What of its record an endpoint is described by.
DESCRIBED = (
    "EndpointName",
    "EndpointArn",
    "EndpointConfigName",
    "EndpointStatus",
    "FailureReason",
    "CreationTime",
    "LastModifiedTime",
    "LastDeploymentConfig",
    "MetricsConfig",
    "DataCaptureConfig",
)
_CHANGING = ("Creating", "Updating", "RollingBack", "Deleting")


@dataclass
class Played:
    """An endpoint: what is kept of it, what is deployed of it, and the change it is in."""

    record: Record
    deployment: Deployment
    work: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The endpoint's."""
        return str(self.record["EndpointName"])

    @property
    def status(self) -> str:
        """EndpointStatus."""
        return str(self.record["EndpointStatus"])


def metrics_config(config: Record) -> Record:
    """What an endpoint has of its configuration's MetricsConfig."""
    return {key: config[key] for key in ("MetricsConfig",) if key in config}


def check_idle(played: Played, region: str) -> None:
    """Raises ServiceError where it is in a change."""
    if played.status in _CHANGING:
        raise ServiceError(in_progress(played.name, region))


def describe_variants(played: Played) -> list[dict[str, Any]]:
    """ProductionVariants of DescribeEndpoint."""
    described = []
    for name, one in played.deployment.productions.items():
        described.append(
            {
                "VariantName": name,
                "DeployedImages": [
                    {
                        "SpecifiedImage": one.image,
                        "ResolvedImage": one.image,
                        "ResolutionTime": played.record["LastModifiedTime"],
                    }
                ],
                "CurrentWeight": one.weight,
                "DesiredWeight": one.weight,
                "CurrentInstanceCount": one.fleet.in_service,
                "DesiredInstanceCount": one.fleet.wanted,
            }
        )
    return described


def find_retained(played: Played, members: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """AWS, "UpdateEndpoint": counts and weights that stay as they are, by variant."""
    if not members.get("RetainAllVariantProperties"):
        return {}
    left_out = {
        one["VariantPropertyType"] for one in members.get("ExcludeRetainedVariantProperties", ())
    }
    kept = dict[str, dict[str, Any]]()
    for name, one in played.deployment.productions.items():
        kept[name] = {"count": one.fleet.wanted, "weight": one.weight}
        if "DesiredInstanceCount" in left_out:
            del kept[name]["count"]
        if "DesiredWeight" in left_out:
            del kept[name]["weight"]
    return kept
