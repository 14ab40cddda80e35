"""Application Auto Scaling, joined: calls, the loop, and the alarms of policies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from merlin_simulator.control.apis import Operation
from merlin_simulator.control.autoscaling.calls import (
    Activities,
    Policies,
    ScheduledActions,
    Targets,
    config_of,
)
from merlin_simulator.control.autoscaling.metrics import alarm_members
from merlin_simulator.control.autoscaling.scaler import Scaler
from merlin_simulator.control.autoscaling.variants import Variants, parse_resource
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.service import CloudWatch
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records
from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.watch.events import EventLog

_logger = logging.getLogger(__name__)

#: What each of its records has.
_NEEDED = ("ResourceId", "CreationTime")
#: How the names of tracking policies' alarms begin, and the ARNs of scaling policies.
_ALARM, _POLICY = "TargetTracking-", "arn:aws:autoscaling:"


class Autoscaling:
    """state: the folder of its records; log: hears of its activities.

    As on AWS, each tracking policy has its alarms in CloudWatch, and an alarm whose action is a
    step policy has it carried out.
    """

    def __init__(
        self, state: Path, endpoints: Endpoints, cloudwatch: CloudWatch, clock: Clock, log: EventLog
    ) -> None:
        def records(kind: str, *needed: str) -> Records:
            return Records(state / kind, *_NEEDED, *needed)

        variants = Variants(endpoints)
        self.targets = Targets(records("targets", "MinCapacity", "Past"), clock, variants)
        self.policies = Policies(records("policies", "PolicyId"), clock, self.targets)
        self.actions = ScheduledActions(
            records("scheduled-actions", "ActionId"), clock, self.targets
        )
        self.activities = Activities(records("activities", "Activities"), clock, log)
        self._scaler = Scaler(
            self.targets,
            self.policies,
            self.actions,
            self.activities,
            variants,
            cloudwatch.metrics,
            clock,
        )
        self._alarms = cloudwatch.alarms
        self.policies.changed = self._follow_policies
        cloudwatch.acting.append(self._act)
        endpoints.listeners.deleted.append(self.targets.forget_endpoint)
        endpoints.is_scaled = self.targets.has

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
            "DescribeScalingActivities": self.activities.describe,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carried out within the block."""
        self._follow_policies()
        self.activities.restore()
        self.actions.restore()
        loop = asyncio.create_task(self._scaler.run())
        try:
            yield
        finally:
            loop.cancel()
            await asyncio.wait({loop})
            await self._scaler.stop()

    def _follow_policies(self) -> None:
        """Make the alarms that policies lack, change those that differ, remove those left over."""
        alarms = dict[str, Mapping[str, Any]]()
        for policy in self.policies.described():
            variant, config = parse_resource(policy["ResourceId"]), config_of(policy)
            for alarm in policy.get("Alarms", ()):
                name = alarm["AlarmName"]
                alarms[name] = alarm_members(policy, config, variant, name)
        for alarm in self._alarms.values():
            if alarm["AlarmName"].startswith(_ALARM) and alarm["AlarmName"] not in alarms:
                self._alarms.remove(alarm["AlarmName"])
        for name, members in alarms.items():
            self._put_alarm(name, members)

    def _put_alarm(self, name: str, members: Mapping[str, Any]) -> None:
        before = self._alarms.find(name)
        if before is not None and members.items() <= before.items():
            return
        region = members["AlarmActions"][0].split(":")[3]
        try:
            self._alarms.put(members, region)
        except ServiceError as error:  # a metric that may be tracked and not be watched
            _logger.warning("alarm %s is not made: %s", name, error)

    def _act(self, alarm: Record, value: float) -> None:
        """An alarm is in ALARM, told at each of its evaluations; value: its newest data point."""
        for action in alarm["AlarmActions"] if alarm["ActionsEnabled"] else ():
            if action.startswith(_POLICY):
                name, threshold = alarm["AlarmName"], alarm["Threshold"]
                self._scaler.alarm_fired(action, value, threshold, name)
