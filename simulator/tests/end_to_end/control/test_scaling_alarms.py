"""Alarms and scaling policies: those of a tracking policy, those that carry out steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.tests.support.control_plane import ControlPlane, control_plane
from tests.support.container import until

URL = "s3://models/shop/"


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The platform's minute takes a quarter of a second; an endpoint `scaled` that has a target."""
    folder: Path = tmp_path_factory.mktemp("fast")
    with control_plane(folder / "log", "--time-scale", "240") as running:
        running.put_models(folder, "a.tar.gz")
        running.create_endpoint("scaled", URL)
        running.client("application-autoscaling").register_scalable_target(
            **TARGET, MinCapacity=1, MaxCapacity=4
        )
        yield running


TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/scaled/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


def _alarms(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    found = plane.client("cloudwatch").describe_alarms()["MetricAlarms"]
    return {alarm["AlarmName"]: alarm for alarm in found}


def test_a_tracking_policy_has_its_alarms_in_cloudwatch(fast: ControlPlane) -> None:
    scaling = fast.client("application-autoscaling")

    def put(target: float) -> Any:
        return scaling.put_scaling_policy(
            **TARGET,
            PolicyName="tracking",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": target,
                "PredefinedMetricSpecification": {
                    "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
                },
            },
        )

    named = {alarm["AlarmName"] for alarm in put(100.0)["Alarms"]}
    found = _alarms(fast)
    assert set(found) == named
    high = next(alarm for name, alarm in found.items() if "-AlarmHigh-" in name)
    low = next(alarm for name, alarm in found.items() if "-AlarmLow-" in name)
    assert (high["Threshold"], high["EvaluationPeriods"]) == (100.0, 3)
    assert (low["Threshold"], low["EvaluationPeriods"]) == (90.0, 15)
    assert high["MetricName"] == "InvocationsPerInstance"
    put(50.0)
    assert {alarm["Threshold"] for alarm in _alarms(fast).values()} == {50.0, 45.0}
    scaling.delete_scaling_policy(**TARGET, PolicyName="tracking")
    assert _alarms(fast) == {}


def test_an_alarm_carries_out_a_step_policy(fast: ControlPlane) -> None:
    scaling, cloudwatch = fast.client("application-autoscaling"), fast.client("cloudwatch")
    arn = scaling.put_scaling_policy(
        **TARGET,
        PolicyName="steps",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={
            "AdjustmentType": "ChangeInCapacity",
            "StepAdjustments": [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 2}],
            "Cooldown": 100_000,
        },
    )["PolicyARN"]
    cloudwatch.put_metric_alarm(
        AlarmName="queue",
        Namespace="Shop",
        MetricName="Waiting",
        Statistic="Average",
        Period=60,
        EvaluationPeriods=1,
        Threshold=10.0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[arn],
    )

    def scaled() -> bool:
        cloudwatch.put_metric_data(
            Namespace="Shop", MetricData=[{"MetricName": "Waiting", "Value": 20.0}]
        )
        (variant,) = fast.describe("scaled")["ProductionVariants"]
        # In its clock a minute without data is soon over: the state is asked for beside them.
        state = _alarms(fast)["queue"]["StateValue"]
        return bool(variant["CurrentInstanceCount"] == 3 and state == "ALARM")

    until(scaled, "two more instances, and the alarm's state")
    (activity, *_) = scaling.describe_scaling_activities(**TARGET)["ScalingActivities"]
    assert "alarm queue in state ALARM triggered policy steps" in activity["Cause"]
