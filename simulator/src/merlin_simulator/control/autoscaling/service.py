"""Application Auto Scaling, joined: calls, the loop, and the variants that it scales."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from merlin_simulator.control.apis import Operation
from merlin_simulator.control.autoscaling.calls import (
    Activities,
    Policies,
    ScheduledActions,
    Targets,
    about_variants,
    answer,
)
from merlin_simulator.control.autoscaling.scaler import Scaler, ScalingFailed
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.store import MetricStore
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Records
from merlin_simulator.control.sagemaker.deployment import DeploymentFailed
from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.watch.events import EventLog


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


#: What each of its records has.
_NEEDED = ("ResourceId", "CreationTime")


class Autoscaling:
    """kept: the folder of its records; log: hears of its activities."""

    def __init__(
        self, kept: Path, endpoints: Endpoints, store: MetricStore, clock: Clock, log: EventLog
    ) -> None:
        variants = EndpointVariants(endpoints)
        self._targets = Targets(
            Records(kept / "targets", *_NEEDED, "MinCapacity", "Past"), clock, variants
        )
        self._policies = Policies(
            Records(kept / "policies", *_NEEDED, "PolicyId"), clock, self._targets
        )
        self._actions = ScheduledActions(
            Records(kept / "scheduled-actions", *_NEEDED, "ActionId"), clock, self._targets
        )
        self._activities = Activities(
            Records(kept / "activities", *_NEEDED, "Activities"), clock, log
        )
        self.scaler = Scaler(
            self._targets, self._policies, self._actions, self._activities, variants, store, clock
        )
        endpoints.listeners.deleted.append(self._targets.forget_endpoint)
        endpoints.is_scaled = self._targets.has

    def operations(self) -> Mapping[str, Operation]:
        """By their names in the service model."""
        return {
            "RegisterScalableTarget": self._targets.register,
            "DescribeScalableTargets": self._targets.describe,
            "DeregisterScalableTarget": self._targets.deregister,
            "TagResource": self._targets.tag,
            "UntagResource": self._targets.untag,
            "ListTagsForResource": self._targets.list_tags,
            "PutScalingPolicy": self._policies.put,
            "DescribeScalingPolicies": self._policies.describe,
            "DeleteScalingPolicy": self._policies.delete,
            "PutScheduledAction": self._actions.put,
            "DescribeScheduledActions": self._actions.describe,
            "DeleteScheduledAction": self._actions.delete,
            "DescribeScalingActivities": self._describe_activities,
        }

    # -- for who shows it: as the service's own answers have it

    def scalable_targets(self) -> Sequence[Mapping[str, Any]]:
        """ScalableTargets of DescribeScalableTargets."""
        return self._targets.described()

    def scaling_policies(self) -> Sequence[Mapping[str, Any]]:
        """ScalingPolicies of DescribeScalingPolicies."""
        return self._policies.described()

    def scaling_activities(self) -> Sequence[Mapping[str, Any]]:
        """ScalingActivities of DescribeScalingActivities, newest first."""
        return self._activities.of(None, not_scaled=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carried out within the block."""
        self._activities.restore()
        self._actions.restore()
        loop = asyncio.create_task(self.scaler.run())
        try:
            yield
        finally:
            loop.cancel()
            await asyncio.wait({loop})
            await self.scaler.stop()

    async def _describe_activities(self, call: Call) -> Mapping[str, Any]:
        """DescribeScalingActivities: newest first."""
        members = call.members
        not_scaled = bool(members.get("IncludeNotScaledActivities"))
        found = self._activities.of(members.get("ResourceId"), not_scaled)
        return answer("ScalingActivities", found if about_variants(members) else [], members)
