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
from simulator.tests.unit.control.autoscaling.played_variant import RESOURCE, START, Room, call

SUSPENDED = {"DynamicScalingInSuspended": True, "DynamicScalingOutSuspended": True}


async def test_instances_follow_the_traffic_within_bounds_and_cooldowns(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register(1, 4)
    await room.track()
    await room.pass_minutes(2, 250)
    assert room.variant.counts == []
    await room.pass_minutes(1, 250)
    assert room.variant.counts == [3]
    # 600 in all would need 6: the cooldown of 300 s holds, then the bound.
    await room.pass_minutes(4, 360)
    assert room.variant.counts == [3]
    await room.pass_minutes(3, 600)
    assert room.variant.counts == [3, 4]
    await room.pass_minutes(17, 100)
    assert room.variant.counts == [3, 4, 1]
    await room.pass_minutes(30, 0)
    assert room.variant.counts == [3, 4, 1]
    assert room.told() == [
        ("Successful", "Setting desired instance count to 3."),
        ("Successful", "Setting desired instance count to 4."),
        ("Successful", "Setting desired instance count to 1."),
    ]
    kinds = {event.kind for event in room.log.since(0)}
    assert kinds == {"scaling_activity"}


async def test_an_activity_says_which_alarm_triggered_which_policy(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register()
    high, _ = (await room.track())["Alarms"]
    assert high["AlarmName"].startswith(f"TargetTracking-{RESOURCE}-AlarmHigh-")
    await room.pass_minutes(3, 150)
    (activity,) = room.activities.of(RESOURCE, False)
    alarm = high["AlarmName"]
    assert activity["Cause"] == f"monitor alarm {alarm} in state ALARM triggered policy p"
    assert activity["StatusMessage"] == (
        "Successfully set desired instance count to 2. Change successfully fulfilled by sagemaker."
    )


async def test_no_data_does_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path, count=3)
    await room.register()
    await room.track()
    await room.pass_minutes(40)
    assert room.variant.counts == []


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
    room = Room(tmp_path, count)
    await room.register(2, 4)
    assert room.variant.counts == scaled
    assert [one["Cause"] for one in room.activities.of(None, True)] == [cause] * len(scaled)


async def test_what_is_at_its_bound_is_told_once(tmp_path: Path) -> None:
    room = Room(tmp_path, count=4)
    await room.register()
    await room.track()
    await room.pass_minutes(10, 1000)
    assert room.told() == []
    (activity,) = room.activities.of(None, True)
    assert activity["NotScaledReasons"] == [{"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 4}]


async def test_suspended_scaling_waits_until_it_is_not(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register(SuspendedState=SUSPENDED)
    await room.track()
    await room.pass_minutes(5, 250)
    assert room.variant.counts == []
    await room.register(SuspendedState={"DynamicScalingOutSuspended": False})
    await room.pass_minutes(1, 250)
    assert room.variant.counts == [3]


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
    room = Room(tmp_path)
    await room.register()
    await room.track()
    room.variant.fails = fails
    await room.pass_minutes(3, 250)
    (activity,) = room.activities.of(None, False)
    assert (activity["StatusCode"], activity["StatusMessage"]) == (status, message)
    room.variant.fails = None
    await room.pass_minutes(2, 250)
    assert room.variant.current == 3


async def test_the_same_failure_again_and_again_is_one_activity(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register()
    await room.track()
    room.variant.fails = ServiceError("it is updating.")
    await room.pass_minutes(12, 250)
    assert len(room.variant.counts) > 3
    assert len(room.told()) == 1


async def test_one_change_at_a_time_and_none_while_the_endpoint_changes(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register()
    await room.track()
    room.variant.goes_on = asyncio.Event()
    await room.pass_minutes(6, 250)
    assert room.variant.counts == [3]
    assert room.told() == [("InProgress", "Setting desired instance count to 3.")]
    room.variant.goes_on.set()
    await room.pass_minutes(1)
    room.variant.current = None
    await room.pass_minutes(20, 0)
    assert room.variant.counts == [3]


async def test_an_alarm_fires_a_step_policy(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register()
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
    arn = (await room.policies.put(put))["PolicyARN"]
    room.scaler.alarm_fired(arn, 80.0, 70.0, "busy")
    await room.pass_minutes(0)
    await until(lambda: room.variant.counts == [3], "it is scaled")
    assert room.activities.of(None, False)[0]["Cause"] == (
        "monitor alarm busy in state ALARM triggered policy s"
    )
    room.scaler.alarm_fired(arn, 80.0, 70.0, "busy")
    room.scaler.alarm_fired("arn:another", 80.0, 70.0)
    room.now += 60
    room.scaler.alarm_fired(arn, 80.0, 70.0, "busy")
    # The two before changed nothing.
    await until(lambda: room.variant.counts == [3, 4], "it is scaled again")


async def test_a_scheduled_action_sets_bounds_at_its_time(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register(1, 4)
    await room.actions.put(
        call(
            "PutScheduledAction",
            ScheduledActionName="noon",
            Schedule="cron(5 12 * * ? *)",
            EndTime=START + 3600,
            ScalableTargetAction={"MinCapacity": 2},
        )
    )
    await room.pass_minutes(4)
    assert room.variant.counts == []
    await room.pass_minutes(1)
    assert room.variant.counts == [2]
    assert room.told() == [
        ("Successful", "Setting min capacity to 2 and max capacity to 4"),
        ("Successful", "Setting desired instance count to 2."),
    ]
    await room.register(1, 4, SuspendedState={"ScheduledScalingSuspended": True})
    await room.pass_minutes(24 * 60)
    assert len(room.told()) == 2, "its EndTime is over"


async def test_what_was_due_while_nothing_ran_is_not_made_up_for(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register()
    for name, schedule in (("once", "at(2026-01-05T12:30:00)"), ("often", "rate(10 minutes)")):
        action = {"MinCapacity": 2}
        put = call(
            "PutScheduledAction",
            ScheduledActionName=name,
            Schedule=schedule,
            ScalableTargetAction=action,
        )
        await room.actions.put(put)
    room.now += 3600
    again = ScheduledActions(Records(tmp_path / "actions"), room.clock, room.targets)
    again.restore()
    assert list(again.due(room.now + 1)) == []
    due = [one["ScheduledActionName"] for one in again.due(room.now + 601)]
    assert due == ["often"]


async def test_what_goes_with_an_endpoint(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register()
    await room.track()
    room.targets.forget_endpoint("shop-2")
    assert room.targets.find(RESOURCE) is not None
    room.targets.forget_endpoint("shop")
    assert room.targets.find(RESOURCE) is None
    assert room.policies.described() == []


async def test_all_is_there_again_after_a_restart(tmp_path: Path) -> None:
    before = Room(tmp_path)
    await before.register()
    await before.track(ScaleOutCooldown=600)
    await before.pass_minutes(3, 250)
    before.variant.goes_on = asyncio.Event()
    room = Room(tmp_path, count=3)
    room.now = before.now + 120
    room.activities.restore()
    assert room.told() == before.told()
    await room.pass_minutes(5, 360)
    assert room.variant.counts == [], "the cooldown goes on"
    await room.pass_minutes(6, 360)
    assert room.variant.counts == [4]


async def test_a_target_that_cannot_be_looked_at_keeps_no_other_waiting(tmp_path: Path) -> None:
    room = Room(tmp_path)
    await room.register()
    await room.track()
    broken = {**room.targets.get(RESOURCE), "ResourceId": "endpoint/old/variant/all"}
    del broken["SuspendedState"]
    Records(tmp_path / "targets").put("endpoint/old/variant/all", broken)
    again = Room(tmp_path)
    assert next(iter(again.targets.all()))["ResourceId"] != RESOURCE
    await again.pass_minutes(3, 250)
    assert again.variant.counts == [3]


async def test_a_change_that_cannot_be_kept_is_tried_again(tmp_path: Path) -> None:
    """As on a full disk: scaling goes on once there is room."""
    room = Room(tmp_path)
    await room.register()
    await room.track()
    kept = tmp_path / "activities"
    kept.rename(tmp_path / "away")
    await room.pass_minutes(3, 250)
    assert room.variant.counts == []
    (tmp_path / "away").rename(kept)
    await room.pass_minutes(1, 250)
    assert room.variant.counts == [3]
