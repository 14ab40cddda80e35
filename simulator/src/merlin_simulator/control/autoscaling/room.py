"""Application Auto Scaling joined: what it keeps, its calls, and the loop that carries it out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from merlin_simulator.control.autoscaling.activities import Activities
from merlin_simulator.control.autoscaling.endpoint_variants import EndpointVariants
from merlin_simulator.control.autoscaling.listing import about_variants, answer
from merlin_simulator.control.autoscaling.policies import Policies
from merlin_simulator.control.autoscaling.scaler import Scaler
from merlin_simulator.control.autoscaling.scheduled import ScheduledActions
from merlin_simulator.control.autoscaling.targets import Targets
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.store import MetricStore
from merlin_simulator.control.json_api import Operation
from merlin_simulator.control.records import Records
from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.watch.events import EventLog

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
