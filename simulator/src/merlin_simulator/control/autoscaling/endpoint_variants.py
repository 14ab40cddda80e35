"""The variants of endpoints as scaling sees them."""

from __future__ import annotations

import asyncio

from merlin_simulator.control.autoscaling.scaler import ScalingFailed
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.sagemaker.deployment import DeploymentFailed
from merlin_simulator.control.sagemaker.endpoints import Endpoints


class EndpointVariants:
    """Of all endpoints of this control plane."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    def exists(self, endpoint_name: str) -> bool:
        """Whether there is an endpoint of that name, in service or not."""
        return self._endpoints.look(endpoint_name) is not None

    def instance_type(self, endpoint_name: str, variant_name: str) -> str | None:
        """Of a variant; None: there is none. While it is created its configuration counts."""
        played = self._endpoints.look(endpoint_name)
        variants = [] if played is None else played.record["ProductionVariants"]
        found = (one["InstanceType"] for one in variants if one["VariantName"] == variant_name)
        return next(found, None)

    def count(self, endpoint_name: str, variant_name: str) -> int | None:
        """DesiredInstanceCount; None while the endpoint is in no state to be changed."""
        played = self._endpoints.look(endpoint_name)
        if played is None or played.status != "InService":
            return None
        variant = self._endpoints.find_variant(endpoint_name, variant_name)
        return None if variant is None else int(variant["DesiredInstanceCount"])

    async def scale(self, endpoint_name: str, variant_name: str, count: int) -> None:
        """Returns once it is so. Raises ScalingFailed."""
        scaling = asyncio.create_task(self._endpoints.scale(endpoint_name, variant_name, count))
        try:
            await asyncio.wait({scaling})
        except asyncio.CancelledError:
            scaling.cancel()
            raise
        if scaling.cancelled():
            raise ScalingFailed("the endpoint is being deleted.", accepted=True)
        error = scaling.exception()
        if isinstance(error, ServiceError):
            raise ScalingFailed(str(error), accepted=False, code=error.code) from error
        if isinstance(error, DeploymentFailed):
            raise ScalingFailed(str(error), accepted=True) from error
        if error is not None:
            raise error
