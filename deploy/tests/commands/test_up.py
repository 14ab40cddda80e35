"""`up`, `rollback` and `down` on the control plane."""

from __future__ import annotations

from pathlib import Path

from deploy.tests.support.commands import deploy, write_config
from simulator.tests.support.control_plane import ControlPlane

SCALING = """
[autoscaling]
max = 4
invocations_per_instance = 300
"""


def test_a_second_up_changes_nothing(plane: ControlPlane, tmp_path: Path, archive: Path) -> None:
    """The first call makes all of it; the next one finds it as it is to be.

    Somebody's own alarm stays, though its name begins as those of the endpoint do.
    """
    put(plane, archive, "twice")
    config = write_config(tmp_path, "twice", SCALING)
    first = deploy(plane, "up", config)
    assert "is in service in us-east-1" in first
    assert plane.describe("twice")["EndpointStatus"] == "InService"
    names = [alarm["AlarmName"] for alarm in alarms(plane, "twice")]
    assert "twice/model-cache-hit" in names
    plane.client("cloudwatch").put_metric_alarm(
        AlarmName="twice/mine",
        Namespace="Mine",
        MetricName="Mine",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold",
    )
    dry = deploy(plane, "up", config, "--dry-run")
    assert "aws " not in dry
    second = deploy(plane, "up", config)
    assert "created" not in second
    assert "written" not in second
    deploy(plane, "down", config)
    assert [alarm["AlarmName"] for alarm in alarms(plane, "twice")] == ["twice/mine"]


def test_rollback_goes_back_and_keeps_autoscaling(
    plane: ControlPlane, tmp_path: Path, archive: Path
) -> None:
    """Also where another instance type makes SageMaker ask for the target to go meanwhile."""
    put(plane, archive, "back")
    deploy(plane, "up", write_config(tmp_path, "back", SCALING))
    before = plane.describe("back")["EndpointConfigName"]
    other = write_config(tmp_path, "back", SCALING + '[instances]\ntype = "ml.c5.large"')
    deploy(plane, "up", other)
    assert plane.describe("back")["EndpointConfigName"] != before
    deploy(plane, "rollback", other)
    assert plane.describe("back")["EndpointConfigName"] == before
    (target,) = targets(plane, "back")
    assert target["MaxCapacity"] == 4
    deploy(plane, "down", other)


def test_down_leaves_nothing_that_up_made(
    plane: ControlPlane, tmp_path: Path, archive: Path
) -> None:
    """Neither the endpoint nor what led to it; a second call finds nothing to do."""
    put(plane, archive, "gone")
    config = write_config(tmp_path, "gone", SCALING)
    deploy(plane, "up", config)
    output = deploy(plane, "down", config)
    assert "what stays" in output
    sagemaker = plane.client("sagemaker")
    assert "gone" not in plane.endpoint_names()
    assert not sagemaker.list_models(NameContains="gone-")["Models"]
    assert not sagemaker.list_endpoint_configs(NameContains="gone-")["EndpointConfigs"]
    assert not alarms(plane, "gone")
    assert not targets(plane, "gone")
    assert "removed" not in deploy(plane, "down", config)


def test_a_quota_is_told_and_finished_below_it(
    plane: ControlPlane, tmp_path: Path, archive: Path
) -> None:
    """AWS's own words, and what to do; the next `up` needs no more than the rest."""
    put(plane, archive, "large")
    large = '[instances]\ntype = "ml.p4d.24xlarge"\ncount = '
    output = deploy(plane, "up", write_config(tmp_path, "large", f"{large}2"), code=1)
    assert (
        "error: sagemaker:CreateEndpoint: a quota of the account is reached in us-east-1" in output
    )
    assert "'ml.p4d.24xlarge for endpoint usage' is 1 Instances" in output
    assert "large" not in plane.endpoint_names()
    config = write_config(tmp_path, "large", f"{large}1")
    finished = deploy(plane, "up", config)
    assert "written" not in finished
    assert "is in service" in finished
    deploy(plane, "down", config)


def put(plane: ControlPlane, archive: Path, name: str) -> None:
    """An archive where the configuration of an endpoint of this name looks for it."""
    key = f"{name}/archives/shop-a/0123.tar.gz"
    plane.client("s3").upload_file(str(archive), "models", key)


def alarms(plane: ControlPlane, name: str) -> list[dict[str, object]]:
    """Of an endpoint."""
    answer = plane.client("cloudwatch").describe_alarms(AlarmNamePrefix=f"{name}/")
    return list(answer["MetricAlarms"])


def targets(plane: ControlPlane, name: str) -> list[dict[str, int]]:
    """Scalable targets of an endpoint."""
    answer = plane.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=[f"endpoint/{name}/variant/AllTraffic"]
    )
    return list(answer["ScalableTargets"])
