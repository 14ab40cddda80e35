"""Carries scaling out: looks at every target each minute of the platform, and scales its variant.

What is wanted is decided in decision.py. One change of a target at a time: what comes meanwhile
waits for the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from merlin_simulator.control.autoscaling.calls import (
    STEPS,
    TRACKING,
    Activities,
    Policies,
    ScheduledActions,
    Targets,
    alarm_name,
    bounds_after,
    check_bounds,
    config_of,
    tracking_of,
)
from merlin_simulator.control.autoscaling.decision import (
    Bounds,
    Decision,
    NotScaled,
    Past,
    Reading,
    Situation,
    Suspended,
    decide,
    step,
)
from merlin_simulator.control.autoscaling.metrics import read_datapoints
from merlin_simulator.control.autoscaling.variants import Variants, parse_resource
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, MetricStore
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record
from merlin_simulator.control.sagemaker.deployment import DeploymentFailed
from merlin_simulator.errors import PlatformFailed

_logger = logging.getLogger(__name__)

#: Between two looks at what is due, platform seconds; at least so many of this machine's.
_LOOK_S, _LOOK_AT_LEAST_S = 5.0, 0.05
#: After a minute's end before its datapoint is read, platform seconds.
_LATE_S = 2.0


class Scaler:
    """The loop. run it as a task, and stop it before the endpoints stop."""

    def __init__(
        self,
        targets: Targets,
        policies: Policies,
        actions: ScheduledActions,
        activities: Activities,
        variants: Variants,
        store: MetricStore,
        clock: Clock,
    ) -> None:
        self._targets, self._policies, self._actions = targets, policies, actions
        self._activities, self._variants, self._store = activities, variants, store
        self._clock = clock
        self._changing: dict[str, asyncio.Task[None]] = {}
        #: Of a target whose change failed, when it is tried again.
        self._not_before: dict[str, float] = {}
        self._minute = int(clock.now() // RESOLUTION_S)
        targets.changed = self._bound
        targets.removed.append(self._forget)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(max(_LOOK_S / self._clock.scale, _LOOK_AT_LEAST_S))
            try:
                self.look(self._clock.now())
            except Exception:
                _logger.exception("a look at what is to be scaled failed")

    async def stop(self) -> None:
        """No change is begun or waited for any more."""
        tasks = set(self._changing.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def alarm_fired(
        self, policy_arn: str, metric_value: float, threshold: float, alarm: str = ""
    ) -> None:
        """An alarm whose action is this policy is in ALARM: told at each of its evaluations.

        alarm: its name. A policy that is not there, or is not a step policy, is nothing to it.
        """
        policy = self._policies.by_arn(policy_arn)
        if policy is None or policy["PolicyType"] != STEPS:
            return
        target = self._targets.get(policy["ResourceId"])
        situation = self._situation(target)
        if situation is None:
            return
        name = policy["PolicyName"]
        decision = step(situation, name, config_of(policy), metric_value, threshold)
        self._follow(target, decision, alarm)

    def _forget(self, resource: str) -> None:
        self._not_before.pop(resource, None)

    # -- what is looked at

    def look(self, now: float) -> None:
        """Carry out scheduled actions and bounds that are due, and policies each whole minute."""
        for action in self._actions.due(now):
            self._try(action["ResourceId"], partial(self._act, action))
        minute = int((now - _LATE_S) // RESOLUTION_S)
        whole, self._minute = minute > self._minute, minute
        for target in self._targets.all():
            resource = target["ResourceId"]
            self._try(resource, partial(self._bound, resource))
            if whole:
                self._try(resource, partial(self._track, target, now))

    def _try(self, resource: str, look: Callable[[], None]) -> None:
        """Log a target's failure and go on with the others."""
        try:
            look()
        except Exception:
            _logger.exception("a look at %s failed", resource)

    def _act(self, action: Record) -> None:
        """A scheduled action changes its target's bounds; scaling into them is another activity."""
        target = self._targets.find(action["ResourceId"])
        if target is None or target["SuspendedState"]["ScheduledScalingSuspended"]:
            return
        bounds = bounds_after(target, action["ScalableTargetAction"])
        least, most = bounds.values()
        # AWS, "Scheduled scaling": these words.
        message = f"min capacity to {least} and max capacity to {most}"
        activity = self._activities.begin(
            action["ResourceId"],
            f"Setting {message}",
            f"scheduled action name {action['ScheduledActionName']} was triggered",
        )
        try:
            check_bounds(least, most)
        except ServiceError as error:
            self._activities.end(activity, "Failed", f"Failed to set {message}. Reason: {error}")
            return
        self._targets.put({**target, **bounds})
        self._activities.end(activity, "Successful", f"Successfully set {message}")
        self._bound(action["ResourceId"])

    def _bound(self, resource: str) -> None:
        """AWS, "RegisterScalableTarget": a capacity that is out of its bounds is brought in."""
        target = self._targets.find(resource)
        situation = None if target is None else self._situation(target)
        if target is None or situation is None:
            return
        count = situation.bounds.clip(situation.current)
        if count != situation.current:
            which = "minimum" if count > situation.current else "maximum"
            self._begin(target, count, f"{which} capacity was set to {count}", lambda _: None)

    def _track(self, target: Record, now: float) -> None:
        policies = {
            policy["PolicyName"]: policy
            for policy in self._policies.of_type(target["ResourceId"], TRACKING)
        }
        situation = self._situation(target)
        if situation is None or not policies:
            return
        decision = decide(situation, [self._read(policy, now) for policy in policies.values()])
        if decision is not None and decision.side is not None:
            alarm = alarm_name(policies[decision.policy], decision.side)
            self._follow(target, decision, alarm)

    def _read(self, policy: Mapping[str, Any], now: float) -> Reading:
        variant = parse_resource(policy["ResourceId"])
        values = read_datapoints(config_of(policy), variant, self._store, now - _LATE_S)
        return Reading(tracking_of(policy), values)

    def _situation(self, target: Mapping[str, Any]) -> Situation | None:
        """None while nothing is to be decided: it changes, failed just now, or is not there."""
        resource, now = target["ResourceId"], self._clock.now()
        if resource in self._changing or self._not_before.get(resource, 0.0) - now > 0:
            return None
        suspended = target["SuspendedState"]
        current = self._variants.count(parse_resource(resource))
        if current is None:
            return None
        return Situation(
            now,
            current,
            Bounds(target["MinCapacity"], target["MaxCapacity"]),
            Past(**target["Past"]),
            Suspended(
                suspended["DynamicScalingInSuspended"], suspended["DynamicScalingOutSuspended"]
            ),
        )

    # -- what is done

    def _follow(self, target: Record, decision: Decision, alarm: str) -> None:
        """alarm: the name of the one that triggered the policy."""
        if decision is None:
            return
        resource, policy = target["ResourceId"], decision.policy
        cause = f"monitor alarm {alarm} in state ALARM triggered policy {policy}"
        if isinstance(decision, NotScaled):
            self._activities.not_scaled(resource, cause, _reason(decision.code, target))
            return
        change, before = decision, self._variants.count(parse_resource(resource)) or 0

        def done(now: float) -> None:
            after = self._targets.find(resource)
            if after is not None:
                past = Past(**after["Past"]).after(change, before, now)
                self._targets.put({**after, "Past": asdict(past)})

        self._begin(target, change.count, cause, done)

    def _begin(
        self, target: Mapping[str, Any], count: int, cause: str, done: Callable[[float], None]
    ) -> None:
        resource = target["ResourceId"]
        task = asyncio.create_task(self._change(resource, count, cause, done))
        self._changing[resource] = task

    async def _change(
        self, resource: str, count: int, cause: str, done: Callable[[float], None]
    ) -> None:
        change = f"desired instance count to {count}."
        try:
            activity = self._activities.begin(resource, f"Setting {change}", cause)
        except PlatformFailed as error:
            _logger.error("%s is not scaled: %s", resource, error)
            self._changing.pop(resource, None)
            return
        try:
            await self._variants.scale(parse_resource(resource), count)
        except (ServiceError, DeploymentFailed) as error:
            self._not_before[resource] = self._clock.now() + RESOLUTION_S
            self._activities.end(activity, *_failure(error, change))
        except Exception as error:
            _logger.exception("scaling %s failed by the simulator's fault", resource)
            self._not_before[resource] = self._clock.now() + RESOLUTION_S
            self._activities.end(activity, "Failed", f"The simulator failed: {error!r}")
        else:
            done(self._clock.now())
            self._activities.end(
                activity,
                "Successful",
                f"Successfully set {change} Change successfully fulfilled by sagemaker.",
            )
        finally:
            self._changing.pop(resource, None)


def _failure(error: ServiceError | DeploymentFailed, change: str) -> tuple[str, str]:
    """StatusCode and StatusMessage, as SageMaker's documents have them."""
    if isinstance(error, DeploymentFailed):
        return "Unfulfilled", f"Successfully set {change} Change was not fulfilled: {error}"
    code = f" (Service: AmazonSageMaker; Status Code: 400; Error Code: {error.code})."
    return "Failed", f"Failed to set {change[:-1]}. Reason: {error}{code}"


def _reason(code: str, target: Mapping[str, Any]) -> dict[str, Any]:
    which = {"AlreadyAtMaxCapacity": "MaxCapacity", "AlreadyAtMinCapacity": "MinCapacity"}
    member = which.get(code)
    return {"Code": code, **({member: target[member]} if member else {})}
