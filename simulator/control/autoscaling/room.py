"""Application Auto Scaling joined: what it keeps, its calls, and the loop that carries it out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from simulator.control.autoscaling.activities import Activities
from simulator.control.autoscaling.endpoint_variants import EndpointVariants
from simulator.control.autoscaling.listing import about_variants, answer
from simulator.control.autoscaling.policies import Policies
from simulator.control.autoscaling.scaler import Scaler
from simulator.control.autoscaling.scheduled import ScheduledActions
from simulator.control.autoscaling.targets import Targets
from simulator.control.caller import Call
from simulator.control.clock import Clock
from simulator.control.cloudwatch.store import MetricStore
from simulator.control.json_api import Operation
from simulator.control.records import Record, Records
from simulator.control.sagemaker.endpoints import Endpoints
from simulator.watch.events import EventLog


class Autoscaling:
    """kept: the folder of its records; log: hears of its activities."""

    def __init__(
        self, kept: Path, endpoints: Endpoints, store: MetricStore, clock: Clock, log: EventLog
    ) -> None:
        variants = EndpointVariants(endpoints)
        self.targets = Targets(Records(kept / "targets"), clock, variants)
        self.policies = Policies(Records(kept / "policies"), clock, self.targets)
        self.actions = ScheduledActions(Records(kept / "scheduled-actions"), clock, self.targets)
        self.activities = Activities(Records(kept / "activities"), clock, log)
        self.scaler = Scaler(
            self.targets, self.policies, self.actions, self.activities, variants, store, clock
        )
        endpoints.listeners.deleted.append(self.targets.forget_endpoint)

    def operations(self) -> Mapping[str, Operation]:
        """By their names in the service model."""
        return {
            "RegisterScalableTarget": self.targets.register,
            "DescribeScalableTargets": self.targets.describe,
            "DeregisterScalableTarget": self.targets.deregister,
            "TagResource": self.targets.tag,
            "UntagResource": self.targets.untag,
            "ListTagsForResource": self.targets.list_tags,
            "PutScalingPolicy": self.policies.put,
            "DescribeScalingPolicies": self.policies.describe,
            "DeleteScalingPolicy": self.policies.delete,
            "PutScheduledAction": self.actions.put,
            "DescribeScheduledActions": self.actions.describe,
            "DeleteScheduledAction": self.actions.delete,
            "DescribeScalingActivities": self._describe_activities,
        }

    def scaling_activities(self) -> Sequence[Record]:
        """Of all targets, newest first, those that did something."""
        return self.activities.of(None, not_scaled=False)

    def scalable_targets(self) -> Sequence[Record]:
        """All of them."""
        return self.targets.all()

    def scaling_policies(self) -> Sequence[Record]:
        """All of them."""
        return self.policies.all()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carried out within the block."""
        self.activities.restore()
        self.actions.restore()
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
        found = self.activities.of(members.get("ResourceId"), not_scaled)
        return answer("ScalingActivities", found if about_variants(members) else [], members)
