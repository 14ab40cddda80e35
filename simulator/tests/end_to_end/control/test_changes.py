"""Endpoints that change under traffic, fail, lose instances, or end in the middle of something."""

from __future__ import annotations

import contextlib
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from simulator.tests.support.control_plane import ControlPlane, control_plane, make_variant
from simulator.tests.support.endpoint_traffic import traffic
from simulator.tests.support.simulator import fake_model
from tests.support.container import STOP_TIMEOUT_S, until

URL = "s3://models/shop/"
#: The least that CreateEndpointConfig takes is 60 s.
SILENT: dict[str, Any] = {"Environment": {"FAKE_START": "silent"}}
DIES: dict[str, Any] = {"Environment": {"FAKE_START": "dies"}}


@pytest.fixture(scope="module")
def steady(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A target model that takes 20 ms: each caller has a request there nearly all the time."""
    path = fake_model(tmp_path_factory.mktemp("steady"), "steady.tar.gz", invoke_seconds=0.02)
    plane.client("s3").upload_file(str(path), "models", f"shop/{path.name}")
    return path.name


def _containers(plane: ControlPlane, name: str) -> list[psutil.Process]:
    """The processes of an endpoint's containers."""
    found = []
    for one in psutil.Process(plane.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if f"/{name}/" in one.environ().get("SERVE_MODEL_ROOT", ""):
                found.append(one)
    return found


def test_blue_green_under_traffic(plane: ControlPlane, steady: str) -> None:
    """The old instances answer until the new one is in service: no request fails."""
    plane.create_endpoint("green", URL, count=2)
    sagemaker = plane.client("sagemaker")
    sagemaker.create_endpoint_config(
        EndpointConfigName="green-2", ProductionVariants=[make_variant("green", 1)]
    )
    with traffic(plane, "green", target=steady) as sent:
        until(lambda: len(sent.statuses) > 20, "there is traffic")
        sagemaker.update_endpoint(EndpointName="green", EndpointConfigName="green-2")
        assert plane.settled("green") == "InService"
        after = len(sent.statuses)
        until(lambda: len(sent.statuses) > after + 20, "the new one answers")
    assert sent.failures() == 0
    described = plane.describe("green")
    assert described["EndpointConfigName"] == "green-2"
    assert described["ProductionVariants"][0]["CurrentInstanceCount"] == 1


def test_a_failed_update_rolls_back_under_traffic(plane: ControlPlane, steady: str) -> None:
    plane.create_endpoint("rolls", URL)
    sagemaker = plane.client("sagemaker")
    plane.create_model("broken", URL, **DIES)
    sagemaker.create_endpoint_config(
        EndpointConfigName="broken", ProductionVariants=[make_variant("broken")]
    )
    with traffic(plane, "rolls", callers=1, target=steady) as sent:
        sagemaker.update_endpoint(EndpointName="rolls", EndpointConfigName="broken")
        assert plane.settled("rolls") == "InService"
    assert sent.failures() == 0
    described = plane.describe("rolls")
    assert described["EndpointConfigName"] == "rolls"
    assert "no CUDA-capable device is detected" in described["FailureReason"]


def test_scaling_under_traffic(plane: ControlPlane, steady: str) -> None:
    plane.create_endpoint("scales", URL)
    with traffic(plane, "scales", callers=8, target=steady) as sent:
        for count in (3, 1, 2, 1):
            _scale(plane, "scales", count)
    assert sent.failures() == 0
    assert len(sent.statuses) > 50


def test_an_instance_that_leaves_answers_who_waited_for_a_cold_model(tmp_path: Path) -> None:
    """First for the model, then for its answer; for how long is told in test_fleet.py."""
    with control_plane(tmp_path / "log") as plane:
        plane.put_models(tmp_path, "a.tar.gz", mebibytes=64)
        slow = fake_model(tmp_path, "slow.tar.gz", load_seconds=1.0, invoke_seconds=0.5)
        plane.client("s3").upload_file(str(slow), "models", "shop/slow.tar.gz")
        plane.create_endpoint("waits", URL)
        plane.invoke("waits", "a.tar.gz")
        _scale(plane, "waits", 2)
        with ThreadPoolExecutor() as callers:
            answer = callers.submit(plane.invoke, "waits", "slow.tar.gz")
            # The new instance has all its memory free, and is the one that leaves.
            told = "AllTraffic-2 load started slow.tar.gz"
            until(lambda: told in plane.log_path.read_text(), "it is loaded there")
            _scale(plane, "waits", 1)
            assert b"slow.tar.gz" in answer.result()["Body"].read()


def _scale(plane: ControlPlane, name: str, count: int) -> None:
    """To that many instances, which are in service then."""
    desired = {"VariantName": "AllTraffic", "DesiredInstanceCount": count}
    plane.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName=name, DesiredWeightsAndCapacities=[desired]
    )
    assert plane.settled(name) == "InService"


def test_a_container_that_dies_at_its_start_fails_the_endpoint(plane: ControlPlane) -> None:
    """FailureReason has the container's last words, and nothing of the endpoint runs."""
    plane.create_endpoint("dies", URL, wait=False, **DIES)
    assert plane.settled("dies") == "Failed"
    reason = plane.describe("dies")["FailureReason"]
    assert reason.startswith("The primary container for production variant AllTraffic did not pass")
    assert "no CUDA-capable device is detected" in reason
    assert _containers(plane, "dies") == []
    plane.client("sagemaker").delete_endpoint(EndpointName="dies")


def test_an_endpoint_is_deleted_in_the_middle_of_its_creation(plane: ControlPlane) -> None:
    plane.create_endpoint("silent", URL, count=2, wait=False, **SILENT)
    until(lambda: len(_containers(plane, "silent")) == 2, "its containers start")
    plane.client("sagemaker").delete_endpoint(EndpointName="silent")
    until(lambda: "silent" not in plane.endpoint_names(), "it is deleted")
    assert _containers(plane, "silent") == []


def test_instances_that_come_up_count_for_the_quota(plane: ControlPlane) -> None:
    sagemaker, scarce = plane.client("sagemaker"), {"InstanceType": "ml.p4d.24xlarge"}
    plane.create_model("scarce", URL, **SILENT)
    sagemaker.create_endpoint_config(
        EndpointConfigName="scarce", ProductionVariants=[make_variant("scarce", 1, **scarce)]
    )
    sagemaker.create_endpoint(EndpointName="scarce", EndpointConfigName="scarce")
    with pytest.raises(sagemaker.exceptions.ResourceLimitExceeded, match="utilization of 1 Inst"):
        sagemaker.create_endpoint(EndpointName="scarce-2", EndpointConfigName="scarce")
    sagemaker.delete_endpoint(EndpointName="scarce")
    until(lambda: "scarce" not in plane.endpoint_names(), "it is deleted")


def test_an_instance_that_is_killed_comes_back(plane: ControlPlane) -> None:
    plane.create_endpoint("killed", URL)
    (container,) = _containers(plane, "killed")
    container.send_signal(signal.SIGKILL)
    until(lambda: not container.is_running() or container.status() == "zombie", "it is dead")

    def answers() -> bool:
        with contextlib.suppress(Exception):
            return bool(plane.invoke("killed", "a.tar.gz")["Body"].read())
        return False

    until(answers, "another container answers")


def test_a_container_that_never_answers_ping_fails_in_time(tmp_path: Path) -> None:
    with control_plane(tmp_path / "log", "--startup-timeout", "2") as plane:
        url = plane.put_models(tmp_path, "a.tar.gz")
        plane.create_endpoint("silent", url, wait=False, **SILENT)
        assert plane.settled("silent") == "Failed"
        assert "GET /ping is not answered" in plane.describe("silent")["FailureReason"]


def test_endpoints_come_back_after_a_restart(tmp_path: Path) -> None:
    """With what they had: configuration, tags, counts; the model they had may be gone since."""
    state = ("--state", str(tmp_path / "state"))
    with control_plane(tmp_path / "log", *state) as plane:
        url = plane.put_models(tmp_path, "a.tar.gz")
        plane.create_endpoint("kept", url)
        sagemaker = plane.client("sagemaker")
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName="kept",
            DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}],
        )
        assert plane.settled("kept") == "InService"
        arn = plane.describe("kept")["EndpointArn"]
        sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "shop"}])
        sagemaker.delete_model(ModelName="kept")
        before = plane.describe("kept")
    with control_plane(tmp_path / "log", *state) as plane:
        assert plane.settled("kept") == "InService"
        after = plane.describe("kept")
        assert after["CreationTime"] == before["CreationTime"]
        assert after["ProductionVariants"][0]["CurrentInstanceCount"] == 2
        tags = plane.client("sagemaker").list_tags(ResourceArn=arn)["Tags"]
        assert tags == [{"Key": "team", "Value": "shop"}]


def test_nothing_is_left_after_sigterm(tmp_path: Path) -> None:
    """Of endpoints at every moment of their lives, all of them at the same time."""
    with control_plane(tmp_path / "log") as plane:
        url, sagemaker = plane.put_models(tmp_path, "a.tar.gz"), plane.client("sagemaker")
        plane.create_endpoint("creating", url, wait=False, **SILENT)
        lasting = ("updating", "serving", "deleting")
        for name in lasting:
            plane.create_endpoint(name, url, wait=False)
        assert [plane.settled(name) for name in lasting] == ["InService"] * 3
        until(lambda: _containers(plane, "creating"), "its container starts")
        # Its new container is silent, too: the update goes on.
        sagemaker.update_endpoint(EndpointName="updating", EndpointConfigName="creating")
        sagemaker.delete_endpoint(EndpointName="deleting")
        statuses = {
            name: plane.describe(name)["EndpointStatus"] for name in ("creating", "updating")
        }
        assert statuses == {"creating": "Creating", "updating": "Updating"}
        containers = [one for name in ("creating", *lasting) for one in _containers(plane, name)]
        assert len(containers) >= 3
        assert plane.stop() == 0
    assert not [one for one in containers if one.is_running() and one.status() != "zombie"]
    assert "Traceback" not in plane.log_path.read_text()


def test_containers_of_a_killed_simulator_are_ended_by_the_next(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with control_plane(tmp_path / "log", *state) as plane:
        url = plane.put_models(tmp_path, "a.tar.gz")
        plane.create_endpoint("left", url)
        (left,) = _containers(plane, "left")
        plane.process.kill()
        plane.process.wait()
    assert left.is_running()
    with control_plane(tmp_path / "log", *state) as plane:
        until(lambda: not left.is_running() or left.status() == "zombie", "it is ended")
        assert plane.settled("left") == "InService"


def test_a_closed_terminal_ends_all(tmp_path: Path) -> None:
    with control_plane(tmp_path / "log") as plane:
        url = plane.put_models(tmp_path, "a.tar.gz")
        plane.create_endpoint("one", url)
        (container,) = _containers(plane, "one")
        plane.process.send_signal(signal.SIGHUP)
        assert plane.process.wait(STOP_TIMEOUT_S) == 0
    assert not container.is_running() or container.status() == "zombie"
