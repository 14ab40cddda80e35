"""Scaling carried out minute by minute: what is scaled when, and what is told of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from merlin_simulator.control.autoscaling.calls import ScheduledActions
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Records
from merlin_simulator.control.sagemaker.deployment import DeploymentFailed
from simulator.tests.support.waiting import until
from simulator.tests.unit.control.autoscaling.played_variant import (
    RESOURCE,
    START,
    SteppedAutoscaling,
    call,
)

SUSPENDED = {"DynamicScalingInSuspended": True, "DynamicScalingOutSuspended": True}


async def test_instances_follow_the_traffic_within_bounds_and_cooldowns(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register(1, 4)
    await scaling.track()
    await scaling.pass_minutes(2, 250)
    assert scaling.variant.counts == []
    await scaling.pass_minutes(1, 250)
    assert scaling.variant.counts == [3]
    # 600 in all would need 6: the cooldown of 300 s holds, then the bound.
    await scaling.pass_minutes(4, 360)
    assert scaling.variant.counts == [3]
    await scaling.pass_minutes(3, 600)
    assert scaling.variant.counts == [3, 4]
    await scaling.pass_minutes(17, 100)
    assert scaling.variant.counts == [3, 4, 1]
    await scaling.pass_minutes(30, 0)
    assert scaling.variant.counts == [3, 4, 1]
    assert scaling.told() == [
        ("Successful", "Setting desired instance count to 3."),
        ("Successful", "Setting desired instance count to 4."),
        ("Successful", "Setting desired instance count to 1."),
    ]
    kinds = {event.kind for event in scaling.log.since(0)}
    assert kinds == {"scaling_activity"}


async def test_an_activity_says_which_alarm_triggered_which_policy(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    high, _ = (await scaling.track())["Alarms"]
    assert high["AlarmName"].startswith(f"TargetTracking-{RESOURCE}-AlarmHigh-")
    await scaling.pass_minutes(3, 150)
    (activity,) = scaling.activities.of(RESOURCE, False)
    alarm = high["AlarmName"]
    assert activity["Cause"] == f"monitor alarm {alarm} in state ALARM triggered policy p"
    assert activity["StatusMessage"] == (
        "Successfully set desired instance count to 2. Change successfully fulfilled by sagemaker."
    )


async def test_no_data_does_nothing(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path, count=3)
    await scaling.register()
    await scaling.track()
    await scaling.pass_minutes(40)
    assert scaling.variant.counts == []


@pytest.mark.parametrize(
    ("count", "scaled", "cause"),
    [
        (1, [2], "minimum capacity was set to 2"),
        (9, [4], "maximum capacity was set to 4"),
        (3, [], None),
    ],
)
async def test_out_of_its_bounds_a_variant_is_scaled_at_once(
    tmp_path: Path, count: int, scaled: list[int], cause: str | None
) -> None:
    scaling = SteppedAutoscaling(tmp_path, count)
    await scaling.register(2, 4)
    assert scaling.variant.counts == scaled
    assert [one["Cause"] for one in scaling.activities.of(None, True)] == [cause] * len(scaled)


async def test_what_is_at_its_bound_is_told_once(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path, count=4)
    await scaling.register()
    await scaling.track()
    await scaling.pass_minutes(10, 1000)
    assert scaling.told() == []
    (activity,) = scaling.activities.of(None, True)
    assert activity["NotScaledReasons"] == [{"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 4}]


async def test_suspended_scaling_waits_until_it_is_not(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register(SuspendedState=SUSPENDED)
    await scaling.track()
    await scaling.pass_minutes(5, 250)
    assert scaling.variant.counts == []
    await scaling.register(SuspendedState={"DynamicScalingOutSuspended": False})
    await scaling.pass_minutes(1, 250)
    assert scaling.variant.counts == [3]


@pytest.mark.parametrize(
    ("fails", "status", "message"),
    [
        (
            ServiceError("the limit is 2.", "ResourceLimitExceeded"),
            "Failed",
            "Failed to set desired instance count to 3. Reason: the limit is 2. (Service: "
            "AmazonSageMaker; Status Code: 400; Error Code: ResourceLimitExceeded).",
        ),
        (
            DeploymentFailed("no ping."),
            "Unfulfilled",
            "Successfully set desired instance count to 3. Change was not fulfilled: no ping.",
        ),
    ],
)
async def test_a_change_that_fails_is_told_and_tried_again(
    tmp_path: Path, fails: ServiceError | DeploymentFailed, status: str, message: str
) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    await scaling.track()
    scaling.variant.fails = fails
    await scaling.pass_minutes(3, 250)
    (activity,) = scaling.activities.of(None, False)
    assert (activity["StatusCode"], activity["StatusMessage"]) == (status, message)
    scaling.variant.fails = None
    await scaling.pass_minutes(2, 250)
    assert scaling.variant.current == 3


async def test_the_same_failure_again_and_again_is_one_activity(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    await scaling.track()
    scaling.variant.fails = ServiceError("it is updating.")
    await scaling.pass_minutes(12, 250)
    assert len(scaling.variant.counts) > 3
    assert len(scaling.told()) == 1


async def test_one_change_at_a_time_and_none_while_the_endpoint_changes(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    await scaling.track()
    scaling.variant.goes_on = asyncio.Event()
    await scaling.pass_minutes(6, 250)
    assert scaling.variant.counts == [3]
    assert scaling.told() == [("InProgress", "Setting desired instance count to 3.")]
    scaling.variant.goes_on.set()
    await scaling.pass_minutes(1)
    scaling.variant.current = None
    await scaling.pass_minutes(20, 0)
    assert scaling.variant.counts == [3]


async def test_an_alarm_fires_a_step_policy(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    steps = [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 2}]
    put = call(
        "PutScalingPolicy",
        PolicyName="s",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={
            "AdjustmentType": "ChangeInCapacity",
            "StepAdjustments": steps,
            "Cooldown": 60,
        },
    )
    arn = (await scaling.policies.put(put))["PolicyARN"]
    scaling.scaler.alarm_fired(arn, 80.0, 70.0, "busy")
    await scaling.pass_minutes(0)
    await until(lambda: scaling.variant.counts == [3], "it is scaled")
    assert scaling.activities.of(None, False)[0]["Cause"] == (
        "monitor alarm busy in state ALARM triggered policy s"
    )
    scaling.scaler.alarm_fired(arn, 80.0, 70.0, "busy")
    scaling.scaler.alarm_fired("arn:another", 80.0, 70.0)
    scaling.now += 60
    scaling.scaler.alarm_fired(arn, 80.0, 70.0, "busy")
    # The two before changed nothing.
    await until(lambda: scaling.variant.counts == [3, 4], "it is scaled again")


async def test_a_scheduled_action_sets_bounds_at_its_time(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register(1, 4)
    await scaling.actions.put(
        call(
            "PutScheduledAction",
            ScheduledActionName="noon",
            Schedule="cron(5 12 * * ? *)",
            EndTime=START + 3600,
            ScalableTargetAction={"MinCapacity": 2},
        )
    )
    await scaling.pass_minutes(4)
    assert scaling.variant.counts == []
    await scaling.pass_minutes(1)
    assert scaling.variant.counts == [2]
    assert scaling.told() == [
        ("Successful", "Setting min capacity to 2 and max capacity to 4"),
        ("Successful", "Setting desired instance count to 2."),
    ]
    await scaling.register(1, 4, SuspendedState={"ScheduledScalingSuspended": True})
    await scaling.pass_minutes(24 * 60)
    assert len(scaling.told()) == 2, "its EndTime is over"


async def test_what_was_due_while_nothing_ran_is_not_made_up_for(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    for name, schedule in (("once", "at(2026-01-05T12:30:00)"), ("often", "rate(10 minutes)")):
        action = {"MinCapacity": 2}
        put = call(
            "PutScheduledAction",
            ScheduledActionName=name,
            Schedule=schedule,
            ScalableTargetAction=action,
        )
        await scaling.actions.put(put)
    scaling.now += 3600
    again = ScheduledActions(Records(tmp_path / "actions"), scaling.clock, scaling.targets)
    again.restore()
    assert list(again.due(scaling.now + 1)) == []
    due = [one["ScheduledActionName"] for one in again.due(scaling.now + 601)]
    assert due == ["often"]


async def test_what_goes_with_an_endpoint(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    await scaling.track()
    scaling.targets.forget_endpoint("shop-2")
    assert scaling.targets.find(RESOURCE) is not None
    scaling.targets.forget_endpoint("shop")
    assert scaling.targets.find(RESOURCE) is None
    assert scaling.policies.described() == []


async def test_all_is_there_again_after_a_restart(tmp_path: Path) -> None:
    before = SteppedAutoscaling(tmp_path)
    await before.register()
    await before.track(ScaleOutCooldown=600)
    await before.pass_minutes(3, 250)
    before.variant.goes_on = asyncio.Event()
    scaling = SteppedAutoscaling(tmp_path, count=3)
    scaling.now = before.now + 120
    scaling.activities.restore()
    assert scaling.told() == before.told()
    await scaling.pass_minutes(5, 360)
    assert scaling.variant.counts == [], "the cooldown goes on"
    await scaling.pass_minutes(6, 360)
    assert scaling.variant.counts == [4]


async def test_a_target_that_cannot_be_looked_at_keeps_no_other_waiting(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    await scaling.track()
    broken = {**scaling.targets.get(RESOURCE), "ResourceId": "endpoint/old/variant/all"}
    del broken["SuspendedState"]
    Records(tmp_path / "targets").put("endpoint/old/variant/all", broken)
    again = SteppedAutoscaling(tmp_path)
    assert next(iter(again.targets.all()))["ResourceId"] != RESOURCE
    await again.pass_minutes(3, 250)
    assert again.variant.counts == [3]


async def test_a_change_that_cannot_be_kept_is_tried_again(tmp_path: Path) -> None:
    """As on a full disk: scaling goes on once there is scaling."""
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    await scaling.track()
    kept = tmp_path / "activities"
    kept.rename(tmp_path / "away")
    await scaling.pass_minutes(3, 250)
    assert scaling.variant.counts == []
    (tmp_path / "away").rename(kept)
    await scaling.pass_minutes(1, 250)
    assert scaling.variant.counts == [3]
