"""Scaling as an unmodified boto3 asks for it, carried out by a control plane whose time is fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from simulator.tests.support.control_plane import ControlPlane, control_plane, make_variant
from simulator.tests.support.endpoint_traffic import traffic
from tests.support.container import until

URL = "s3://models/shop/"
#: The platform's minute takes a quarter of a second.
SCALE = 240.0
#: An action is due at a time, and carried out a little later: half a minute of this machine's.
_LATEST_S = 30 * SCALE
PREDEFINED = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With a.tar.gz below URL, which takes 20 ms: callers have a request there all the time."""
    folder: Path = tmp_path_factory.mktemp("fast")
    with control_plane(folder / "log", "--time-scale", str(SCALE)) as running:
        running.put_models(folder, "a.tar.gz", invoke_seconds=0.02)
        yield running


def scaled(name: str) -> dict[str, str]:
    """What names an endpoint's only variant to the service."""
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{name}/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }


def activities(plane: ControlPlane, name: str) -> list[dict[str, Any]]:
    """Oldest first."""
    client = plane.client("application-autoscaling")
    found = client.describe_scaling_activities(**scaled(name))["ScalingActivities"]
    return list(reversed(found))


def count(plane: ControlPlane, name: str) -> int:
    """Instances in service."""
    (variant,) = plane.describe(name)["ProductionVariants"]
    return int(variant["CurrentInstanceCount"])


def _is_done(activity: Mapping[str, Any]) -> bool:
    return bool(activity["StatusCode"] == "Successful")


def now(plane: ControlPlane) -> float:
    """The platform's time."""
    clock = httpx.get(f"{plane.url}/simulator/clock", trust_env=False, timeout=60).json()
    assert clock["scale"] == SCALE
    return float(clock["now"])


def test_instances_follow_the_traffic_and_no_request_fails(fast: ControlPlane) -> None:
    """1 → 3, the most that is allowed, → 1 while requests go on all the time."""
    fast.create_endpoint("follows", URL)
    scaling = fast.client("application-autoscaling")
    scaling.register_scalable_target(**scaled("follows"), MinCapacity=1, MaxCapacity=3)
    policy = scaling.put_scaling_policy(
        **scaled("follows"),
        PolicyName="invocations",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 5.0,
            "PredefinedMetricSpecification": PREDEFINED,
            "ScaleInCooldown": 120,
        },
    )
    with traffic(fast, "follows", callers=4) as sent:
        until(lambda: count(fast, "follows") == 3, "there are three")
        sent.pause_s = 3.0
        until(lambda: count(fast, "follows") == 1, "there is one again")
    assert sent.failures() == 0
    assert len(sent.statuses) > 50
    until(lambda: all(_is_done(one) for one in activities(fast, "follows")), "all of it is told")
    found = activities(fast, "follows")
    high, low = (alarm["AlarmName"] for alarm in policy["Alarms"])
    assert high in found[0]["Cause"]
    assert low in found[-1]["Cause"]
    wanted = {one["Description"] for one in found}
    assert wanted <= {f"Setting desired instance count to {n}." for n in (1, 2, 3)}


def test_out_of_its_bounds_a_variant_is_scaled_at_once(fast: ControlPlane) -> None:
    fast.create_endpoint("bounds", URL)
    scaling = fast.client("application-autoscaling")
    scaling.register_scalable_target(**scaled("bounds"), MinCapacity=2, MaxCapacity=3)
    until(lambda: count(fast, "bounds") == 2, "there are two")
    until(lambda: all(_is_done(one) for one in activities(fast, "bounds")), "it is told")
    (activity,) = activities(fast, "bounds")
    assert activity["Cause"] == "minimum capacity was set to 2"
    # An update to what the configuration says is brought back into the bounds.
    fast.client("sagemaker").update_endpoint(EndpointName="bounds", EndpointConfigName="bounds")
    until(lambda: len(activities(fast, "bounds")) == 2, "it is scaled again")
    until(lambda: count(fast, "bounds") == 2, "there are two again")


def test_a_scheduled_action_at_the_platforms_time(fast: ControlPlane) -> None:
    fast.create_endpoint("plans", URL)
    scaling = fast.client("application-autoscaling")
    scaling.register_scalable_target(**scaled("plans"), MinCapacity=1, MaxCapacity=3)
    due: list[float] = []

    def is_carried_out() -> bool:
        # On a busy machine it may be too late for the time that was given.
        if not due or now(fast) > due[-1] + _LATEST_S:
            due.append(now(fast) + 5 * 60)
            when = datetime.fromtimestamp(due[-1], timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
            scaling.put_scheduled_action(
                **scaled("plans"),
                ScheduledActionName="morning",
                Schedule=f"at({when})",
                ScalableTargetAction={"MinCapacity": 2, "MaxCapacity": 2},
            )
        return count(fast, "plans") == 2

    until(is_carried_out, "the action was carried out")
    action, _ = activities(fast, "plans")
    assert action["Cause"] == "scheduled action name morning was triggered"
    assert action["Description"] == "Setting min capacity to 2 and max capacity to 2"
    began = action["StartTime"].timestamp()
    assert any(0 <= began - int(time) < _LATEST_S for time in due)


def test_what_is_registered_goes_with_its_endpoint(fast: ControlPlane) -> None:
    fast.create_endpoint("gone", URL)
    scaling = fast.client("application-autoscaling")
    scaling.register_scalable_target(**scaled("gone"), MinCapacity=1, MaxCapacity=3)
    fast.client("sagemaker").delete_endpoint(EndpointName="gone")
    until(lambda: "gone" not in fast.endpoint_names(), "it is deleted")
    targets = scaling.describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=[scaled("gone")["ResourceId"]]
    )
    assert targets["ScalableTargets"] == []
    with pytest.raises(scaling.exceptions.ObjectNotFoundException, match="No scalable target"):
        scaling.deregister_scalable_target(**scaled("gone"))
    with pytest.raises(ClientError, match="Could not find endpoint") as caught:
        scaling.register_scalable_target(**scaled("gone"), MinCapacity=1, MaxCapacity=3)
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_a_quota_blocks_scaling_as_it_does_at_the_real_one(tmp_path: Path) -> None:
    """AWS, "Identify blocked scaling activities from instance quotas"; all is kept, too."""
    options = ("--time-scale", "240", "--quota", "ml.c5.xlarge=1", "--state", str(tmp_path / "s"))
    with control_plane(tmp_path / "log", *options) as plane:
        plane.create_endpoint("blocked", plane.put_models(tmp_path, "a.tar.gz"))
        scaling = plane.client("application-autoscaling")
        scaling.register_scalable_target(**scaled("blocked"), MinCapacity=2, MaxCapacity=3)
        until(
            lambda: [it["StatusCode"] for it in activities(plane, "blocked")] == ["Failed"],
            "it was tried",
        )
        (activity,) = activities(plane, "blocked")
        assert (
            "Reason: The account-level service limit 'ml.c5.xlarge for"
            in (activity["StatusMessage"])
        )
        assert count(plane, "blocked") == 1
    with control_plane(tmp_path / "log", *options[:2], *options[4:]) as plane:
        assert plane.settled("blocked") == "InService"
        until(lambda: count(plane, "blocked") == 2, "what is registered is carried out again")
        assert plane.stop() == 0


def test_a_scaled_variant_keeps_its_instance_type(fast: ControlPlane) -> None:
    """UpdateEndpoint refuses another one, and takes another model; deregistered, both."""
    fast.create_endpoint("typed", URL)
    fast.create_model("typed-2", URL)
    sagemaker, scaling = fast.client("sagemaker"), fast.client("application-autoscaling")
    for name, variant in (
        ("typed-same", make_variant("typed-2")),
        ("typed-other", make_variant("typed-2", InstanceType="ml.c5.large")),
        ("typed-gone", make_variant("typed-2", VariantName="Another")),
    ):
        sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    scaling.register_scalable_target(**scaled("typed"), MinCapacity=1, MaxCapacity=2)
    for name in ("typed-other", "typed-gone"):
        with pytest.raises(ClientError, match="is a scalable target") as refused:
            sagemaker.update_endpoint(EndpointName="typed", EndpointConfigName=name)
        assert refused.value.response["Error"]["Code"] == "ValidationException"
        assert fast.describe("typed")["EndpointStatus"] == "InService"
    sagemaker.update_endpoint(EndpointName="typed", EndpointConfigName="typed-same")
    assert fast.settled("typed") == "InService"
    scaling.deregister_scalable_target(**scaled("typed"))
    sagemaker.update_endpoint(EndpointName="typed", EndpointConfigName="typed-other")
    assert fast.settled("typed") == "InService"
    assert fast.describe("typed")["EndpointConfigName"] == "typed-other"
