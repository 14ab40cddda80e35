"""The calls' answers and errors, in the service's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.control.errors import ServiceError
from simulator.tests.unit.control.autoscaling.played_variant import (
    RESOURCE,
    SCALED,
    SteppedAutoscaling,
    call,
)

WHERE = (
    f"service namespace: sagemaker, resource ID: {RESOURCE}, "
    "scalable dimension: sagemaker:variant:DesiredInstanceCount"
)
BOUNDS = {"MinCapacity": 1, "MaxCapacity": 4}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"MaxCapacity": 4}, "Minimum capacity must be specified"),
        ({"MinCapacity": 1}, "Maximum capacity must be specified"),
        ({"MinCapacity": 5, "MaxCapacity": 4}, "Maximum capacity cannot be less than minimum"),
        ({"MinCapacity": -1, "MaxCapacity": 4}, "Minimum capacity cannot be less than 0"),
        ({"ResourceId": "endpoint/x/variant/all"}, "Could not find endpoint"),
        ({"ResourceId": "endpoint/shop/variant/x"}, 'Could not find variant "x" of endpoint'),
        ({"ResourceId": "endpoint/shop/variant/burst"}, "variant with ml.t2.medium instance type"),
        ({"ResourceId": "shop"}, "Unsupported service namespace, resource type or"),
        ({"ServiceNamespace": "ecs"}, "Unsupported service namespace, resource type or"),
        (
            {
                "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
                "ResourceId": "inference-component/x",
            },
            "DesiredCopyCount is not scaled here",
        ),
    ],
)
async def test_a_target_that_is_refused(
    tmp_path: Path, members: dict[str, Any], words: str
) -> None:
    bounds = {} if "MinCapacity" in members or "MaxCapacity" in members else BOUNDS
    register = SteppedAutoscaling(tmp_path).targets.register
    with pytest.raises(ServiceError, match=words) as caught:
        await register(call("RegisterScalableTarget", **bounds, **members))
    assert caught.value.code == "ValidationException"


async def test_a_target_is_registered_again_with_what_is_given(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register(1, 4, Tags={"team": "shop"})
    arn = scaling.targets.get(RESOURCE)["ScalableTargetARN"]
    halted = {"ScheduledScalingSuspended": True}
    answer = await scaling.targets.register(
        call("RegisterScalableTarget", MaxCapacity=6, SuspendedState=halted)
    )
    assert answer == {"ScalableTargetARN": arn}
    (target,) = (await scaling.targets.describe(call("Describe", ResourceIds=[RESOURCE])))[
        "ScalableTargets"
    ]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 6)
    assert list(target["SuspendedState"].values()) == [False, False, True]
    assert "Tags" not in target
    with pytest.raises(ServiceError, match="already exists"):
        await scaling.targets.register(call("RegisterScalableTarget", Tags={"a": "b"}))


async def test_tags(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register(Tags={"team": "shop"})
    arn = {"ResourceARN": scaling.targets.get(RESOURCE)["ScalableTargetARN"]}
    await scaling.targets.tag(call("TagResource", **arn, Tags={"a": "1", "b": "2"}))
    await scaling.targets.untag(call("UntagResource", **arn, TagKeys=["team", "a", "none"]))
    assert await scaling.targets.list_tags(call("List", **arn)) == {"Tags": {"b": "2"}}
    many = {str(number): "" for number in range(50)}
    with pytest.raises(ServiceError) as caught:
        await scaling.targets.tag(call("TagResource", **arn, Tags=many))
    assert caught.value.code == "TooManyTagsException"
    with pytest.raises(ServiceError) as caught:
        await scaling.targets.list_tags(call("List", ResourceARN="arn:none"))
    assert caught.value.code == "ResourceNotFoundException"


async def test_what_is_not_there(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.targets.describe(call("Describe", ResourceIds=[RESOURCE]))
    absent = [
        (scaling.targets.deregister, {}, f"No scalable target registered for {WHERE}"),
        (scaling.policies.put, {"PolicyName": "p"}, f"No scalable target registered for {WHERE}"),
        (scaling.actions.put, {"ScheduledActionName": "a"}, "No scalable target registered for"),
        (
            scaling.policies.delete,
            {"PolicyName": "p"},
            f"No scaling policy found for {WHERE}, policy name: p",
        ),
        (scaling.actions.delete, {"ScheduledActionName": "a"}, "No scheduled action found for"),
    ]
    for operation, members, words in absent:
        with pytest.raises(ServiceError, match=words) as caught:
            await operation(call("It", **members))
        assert caught.value.code == "ObjectNotFoundException"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "StepScalingPolicyConfiguration must be specified"),
        ({"PolicyType": "PredictiveScaling"}, "PolicyType is PredictiveScaling"),
        (
            {
                "PolicyType": "TargetTrackingScaling",
                "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 0},
            },
            "TargetValue is 0",
        ),
    ],
)
async def test_a_policy_that_is_refused(
    tmp_path: Path, members: dict[str, Any], words: str
) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    with pytest.raises(ServiceError, match=words):
        await scaling.policies.put(call("PutScalingPolicy", PolicyName="p", **members))


async def test_a_policy_keeps_its_name_and_alarms_while_it_changes(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    first, second = await scaling.track(100), await scaling.track(200)
    assert first == second
    fixed = await scaling.track(200, DisableScaleIn=True)
    assert fixed["Alarms"] == first["Alarms"][:1]
    (policy,) = (await scaling.policies.describe(call("Describe")))["ScalingPolicies"]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 200
    assert "PolicyId" not in policy
    spec = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
    config = {"TargetValue": 1, "PredefinedMetricSpecification": spec}
    with pytest.raises(ServiceError, match="Only one TargetTrackingScaling policy"):
        await scaling.policies.put(
            call(
                "PutScalingPolicy",
                PolicyName="q",
                PolicyType="TargetTrackingScaling",
                TargetTrackingScalingPolicyConfiguration=config,
            )
        )


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"Schedule": "rate(1 day)"}, "At least one of minimum capacity and maximum capacity"),
        ({"ScalableTargetAction": {"MinCapacity": 1}}, "Schedule must be specified"),
        (
            {"Schedule": "noon", "ScalableTargetAction": {"MinCapacity": 1}},
            "Invalid schedule expression 'noon'",
        ),
        (
            {"Schedule": "at(2020-01-01T00:00:00)", "ScalableTargetAction": {"MinCapacity": 1}},
            "is in the past",
        ),
        (
            {
                "Schedule": "rate(1 day)",
                "StartTime": 200,
                "EndTime": 100,
                "ScalableTargetAction": {"MinCapacity": 1},
            },
            "EndTime must be after StartTime",
        ),
    ],
)
async def test_an_action_that_is_refused(
    tmp_path: Path, members: dict[str, Any], words: str
) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    with pytest.raises(ServiceError, match=words):
        await scaling.actions.put(call("PutScheduledAction", ScheduledActionName="a", **members))


async def test_pages_filters_and_other_services(tmp_path: Path) -> None:
    scaling = SteppedAutoscaling(tmp_path)
    await scaling.register()
    action = {"Schedule": "rate(1 day)", "ScalableTargetAction": {"MinCapacity": 1}}
    for name in "abc":
        await scaling.actions.put(call("Put", ScheduledActionName=name, **action))

    async def names(**members: Any) -> tuple[list[str], str | None]:
        answer = await scaling.actions.describe(call("Describe", **members))
        listed = [one["ScheduledActionName"] for one in answer["ScheduledActions"]]
        return listed, answer.get("NextToken")

    first, token = await names(MaxResults=2)
    assert first == ["a", "b"]
    assert await names(MaxResults=2, NextToken=token) == (["c"], None)
    assert await names(ScheduledActionNames=["b"]) == (["b"], None)
    assert await names(ServiceNamespace="ecs", ScalableDimension=None) == ([], None)
    assert await names(ResourceId="endpoint/x/variant/y") == ([], None)
    with pytest.raises(ServiceError) as caught:
        await names(NextToken="none")
    assert caught.value.code == "InvalidNextTokenException"
    with pytest.raises(ServiceError, match="must also specify a resource ID"):
        await scaling.actions.describe(call("Describe", **{**SCALED, "ResourceId": None}))
