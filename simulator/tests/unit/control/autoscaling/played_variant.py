"""Application Auto Scaling over a variant that does at once, or never, what it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from merlin_simulator.control.autoscaling.calls import (
    Activities,
    Policies,
    ScheduledActions,
    Targets,
)
from merlin_simulator.control.autoscaling.scaler import Scaler
from merlin_simulator.control.autoscaling.variants import VariantId, Variants
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.store import MetricStore, make_metric
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Records
from merlin_simulator.control.sagemaker.deployment import DeploymentFailed
from merlin_simulator.watch.events import EventLog

RESOURCE = "endpoint/shop/variant/all"
SCALED = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": RESOURCE,
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
#: Noon of a Monday.
START = 1_767_614_400.0


class PlayedVariant(Variants):
    """What is scaled. counts: every number that it was told, in order."""

    def __init__(self, count: int) -> None:
        self.current: int | None = count
        self.counts: list[int] = []
        self.fails: ServiceError | DeploymentFailed | None = None
        self.goes_on: asyncio.Event | None = None

    def has_endpoint(self, endpoint_name: str) -> bool:
        return endpoint_name == "shop"

    def instance_type(self, variant: VariantId) -> str | None:
        return {"all": "ml.c5.xlarge", "burst": "ml.t2.medium"}.get(variant.variant)

    def count(self, variant: VariantId) -> int | None:
        return self.current

    async def scale(self, variant: VariantId, count: int) -> None:
        self.counts.append(count)
        if self.goes_on is not None:
            await self.goes_on.wait()
        if self.fails is not None:
            raise self.fails
        self.current = count


class SteppedAutoscaling:
    """All parts of the autoscaling, and a clock that goes when it is told to."""

    def __init__(self, state: Path, count: int = 1) -> None:
        self.state, self.now = state, START
        self.clock = Clock(1.0, lambda: START, lambda: self.now - START)
        self.variant, self.store, self.log = PlayedVariant(count), MetricStore(), EventLog()
        self.targets = Targets(Records(state / "targets"), self.clock, self.variant)
        self.policies = Policies(Records(state / "policies"), self.clock, self.targets)
        self.actions = ScheduledActions(Records(state / "actions"), self.clock, self.targets)
        self.activities = Activities(Records(state / "activities"), self.clock, self.log)
        self.scaler = Scaler(
            self.targets,
            self.policies,
            self.actions,
            self.activities,
            self.variant,
            self.store,
            self.clock,
        )

    async def register(self, least: int = 1, most: int = 4, **more: Any) -> None:
        await self.targets.register(
            call("RegisterScalableTarget", MinCapacity=least, MaxCapacity=most, **more)
        )
        await settle()

    async def track(self, target: float = 100, **config: Any) -> dict[str, Any]:
        metric = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
        configuration = {
            "TargetValue": target,
            "PredefinedMetricSpecification": metric,
            **config,
        }
        put = call(
            "PutScalingPolicy",
            PolicyName="p",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=configuration,
        )
        return dict(await self.policies.put(put))

    async def pass_minutes(self, count: int, invocations: float | None = None) -> None:
        """Each with so many invocations in all; None: none are published."""
        for _ in range(count):
            if invocations is not None and self.variant.current:
                dimensions = {"EndpointName": "shop", "VariantName": "all"}
                metric = make_metric("AWS/SageMaker", "InvocationsPerInstance", dimensions)
                self.store.add(metric, invocations / self.variant.current, self.now)
            self.now += 60
            self.scaler.look(self.now + 3)
            await settle()

    def told(self, not_scaled: bool = False) -> list[tuple[str, str]]:
        """Status and description of the activities, the oldest first."""
        found = self.activities.of(None, not_scaled)
        return [(one["StatusCode"], one["Description"]) for one in reversed(found)]


def call(operation: str, **members: Any) -> Call:
    """About the variant."""
    return Call(operation, {**SCALED, **members}, "us-east-1")


async def settle() -> None:
    """What was begun is done, as far as it can be."""
    for _ in range(10):
        await asyncio.sleep(0)
