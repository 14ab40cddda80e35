"""Members of SageMaker's calls that CloudFormation's resources do not have (yet).

Found with cfn-lint's schemas, which a test looks at again: one that has come fails there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploy.wanted.wanted import Wanted

CONTAINER_METRICS = "ContainerMetricsConfig"


@dataclass(frozen=True)
class LeftOut:
    """member: with the resource's property that it would be in. instead: what happens now."""

    resource: str
    member: str
    instead: str

    def __str__(self) -> str:
        return f"{self.resource} has no {self.member} in CloudFormation: {self.instead}"


def find_left_out(wanted: Wanted) -> tuple[LeftOut, ...]:
    """Those that are wanted; the same ones are gone from make_container's."""
    config = wanted.model["PrimaryContainer"].get(CONTAINER_METRICS)
    if config is None:
        return ()
    (endpoint,) = config["MetricsEndpoints"]
    path = endpoint["MetricsEndpointPath"]
    seconds = endpoint["MetricPublishFrequencyInSeconds"]
    return (
        LeftOut(
            "AWS::SageMaker::Model",
            f"PrimaryContainer.{CONTAINER_METRICS}",
            f"{path} every {seconds} s is asked for, and SageMaker scrapes by its defaults, "
            "/metrics every 60 s",
        ),
    )


def without_left_out(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container as CloudFormation takes it."""
    return {name: value for name, value in container.items() if name != CONTAINER_METRICS}
