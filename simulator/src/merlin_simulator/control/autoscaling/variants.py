"""Variants of endpoints: what Application Auto Scaling scales, by resource ID."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.sagemaker.deployment import DeploymentFailed
from merlin_simulator.control.sagemaker.endpoints import Endpoints

#: What is carried out here, of all that the service scales.
NAMESPACE = "sagemaker"
DIMENSION = "sagemaker:variant:DesiredInstanceCount"


@dataclass(frozen=True)
class VariantId:
    """A resource ID: endpoint/NAME/variant/VARIANT."""

    endpoint: str
    variant: str

    def __str__(self) -> str:
        return f"endpoint/{self.endpoint}/variant/{self.variant}"


def parse_resource(resource: str) -> VariantId:
    """The variant of a resource ID. Raises ValueError for another kind of resource."""
    parts = resource.split("/")
    if len(parts) != 4 or parts[0] != "endpoint" or parts[2] != "variant" or not all(parts):
        raise ValueError(f"{resource!r} is no endpoint/NAME/variant/VARIANT")
    return VariantId(parts[1], parts[3])


def read_resource(members: Mapping[str, Any]) -> VariantId:
    """Which variant a call is about. Raises ServiceError for what is not scaled here."""
    namespace, dimension = members["ServiceNamespace"], members["ScalableDimension"]
    try:
        variant = parse_resource(members["ResourceId"])
    except ValueError:
        variant = None
    if not dimension.startswith(f"{namespace}:") or (dimension == DIMENSION and variant is None):
        # The service's own words.
        raise ServiceError("Unsupported service namespace, resource type or scalable dimension")
    if dimension != DIMENSION or variant is None:
        raise ServiceError(
            f"{dimension} is not scaled here: expected ServiceNamespace {NAMESPACE}, "
            f"ScalableDimension {DIMENSION} and ResourceId endpoint/NAME/variant/VARIANT."
        )
    return variant


class Variants:
    """Those of all endpoints of this control plane."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    def has_endpoint(self, endpoint_name: str) -> bool:
        """Whether there is an endpoint of that name, in service or not."""
        return self._endpoints.lookup(endpoint_name) is not None

    def instance_type(self, variant: VariantId) -> str | None:
        """None: there is no such variant. While it is created its configuration counts."""
        managed = self._endpoints.lookup(variant.endpoint)
        configs = [] if managed is None else managed.record["ProductionVariants"]
        types = {config["VariantName"]: config["InstanceType"] for config in configs}
        return types.get(variant.variant)

    def count(self, variant: VariantId) -> int | None:
        """DesiredInstanceCount; None while the endpoint is in no state to be changed."""
        managed = self._endpoints.lookup(variant.endpoint)
        if managed is None or managed.status != "InService":
            return None
        deployed_variant = managed.deployment.deployed_variants.get(variant.variant)
        return None if deployed_variant is None else deployed_variant.fleet.desired

    async def scale(self, variant: VariantId, count: int) -> None:
        """Returns once the variant has so many instances.

        Raises ServiceError where the change is refused, DeploymentFailed where it was begun.
        """
        scaling = asyncio.create_task(
            self._endpoints.scale(variant.endpoint, variant.variant, count)
        )
        try:
            await asyncio.wait({scaling})
        except asyncio.CancelledError:
            scaling.cancel()
            raise
        if scaling.cancelled():
            raise DeploymentFailed("the endpoint is being deleted.")
        scaling.result()
