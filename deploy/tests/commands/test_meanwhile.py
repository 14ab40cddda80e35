"""What changes in AWS while a command runs: no traceback, and the next `up` finishes."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.tests.commands.test_up import alarms, put, targets
from deploy.tests.support.aws_faults import Fault, FaultyAws
from deploy.tests.support.commands import deploy, write_config
from deploy.tests.support.runs import (
    CHANGED,
    CHANGED_IMAGE,
    SCALING,
    End,
    left_of,
    lifecycle,
    live,
    run_here,
)
from simulator.tests.support.control_plane import ControlPlane
from simulator.tests.support.simulator import fake_model
from tests.support.container import until

NUMBERS = itertools.count(1)
REPOSITORY = "meanwhile"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
ECR_IMAGE = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{REPOSITORY}:1"


@pytest.fixture(scope="module")
def ends(
    plane: ControlPlane, aws: FaultyAws, tmp_path_factory: pytest.TempPathFactory
) -> list[End]:
    """Of two `up`s that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    put(plane, fake_model(folder, "shop-a.tar.gz"), "undisturbed")
    return live(plane, aws, lifecycle(folder, "undisturbed")[:2], "undisturbed")


@pytest.fixture
def life(plane: ControlPlane, aws: FaultyAws, tmp_path: Path, archive: Path) -> Iterator[Life]:
    """Of an endpoint of its own, with its archive; it is gone afterwards."""
    name = f"meanwhile-{next(NUMBERS)}"
    put(plane, archive, name)
    first, second = (config for _, config in lifecycle(tmp_path, name)[:2])
    yield Life(plane, name, first, second)
    assert run_here(aws, "down", first) == ""


class Life:
    """An endpoint's name, and its CONFIG.tomls."""

    def __init__(self, plane: ControlPlane, name: str, first: Path, second: Path) -> None:
        self.plane, self.name, self.first, self.second = plane, name, first, second

    def left(self) -> str:
        """What AWS has of it."""
        return left_of(self.plane, self.name, [self.first, self.second])


def test_endpoint_is_deleted_while_it_is_waited_for(
    aws: FaultyAws, ends: list[End], life: Life
) -> None:
    """The command says so; the next one makes it anew."""

    def delete() -> None:
        life.plane.client("sagemaker").delete_endpoint(EndpointName=life.name)
        until(lambda: life.name not in life.plane.endpoint_names(), "it is gone")

    output = run_here(aws, "up", life.first, Fault("DescribeEndpoint", after=1, before_act=delete))
    assert output == f"the endpoint {life.name} was deleted meanwhile; `up` makes it anew"
    assert run_here(aws, "up", life.first) == ""
    assert life.left() == ends[0].left


@pytest.mark.parametrize("at", ["CreateModel", "CreateEndpointConfig", "CreateEndpoint"])
def test_another_up_is_faster(aws: FaultyAws, ends: list[End], life: Life, at: str) -> None:
    """Of the same file, from beginning to end, before a call of this one: both end well."""
    fault = Fault(at, before_act=lambda: ignore(deploy(life.plane, "up", life.first)))
    assert run_here(aws, "up", life.first, fault) == ""
    assert fault.met == 1
    assert life.left() == ends[0].left


def test_another_up_has_another_file(aws: FaultyAws, ends: list[End], life: Life) -> None:
    """It is in the middle of its update when this one wants to update: this one waits, and wins."""
    assert run_here(aws, "up", life.first) == ""

    def begin() -> None:
        sagemaker = life.plane.client("sagemaker")
        (name,) = {it["EndpointConfigName"] for it in configs(life)} & {
            life.plane.describe(life.name)["EndpointConfigName"]
        }
        sagemaker.update_endpoint(EndpointName=life.name, EndpointConfigName=name)

    fault = Fault("UpdateEndpoint", before_act=begin)
    assert run_here(aws, "up", life.second, fault) == ""
    assert fault.met > 1, "it was refused once"
    assert life.left() == ends[1].left


@pytest.mark.parametrize("at", ["RegisterScalableTarget", "ListModels"])
def test_down_is_called_meanwhile(aws: FaultyAws, ends: list[End], life: Life, at: str) -> None:
    """Whatever `up` says then is a sentence; the next one ends where the first would have."""
    fault = Fault(at, before_act=lambda: ignore(deploy(life.plane, "down", life.first)))
    run_here(aws, "up", life.first, fault)
    assert fault.met >= 1
    assert run_here(aws, "up", life.first) == ""
    assert life.left() == ends[0].left


def test_alarms_are_deleted_by_hand(aws: FaultyAws, ends: list[End], life: Life) -> None:
    """Before an update that is to end on them: it is refused or it is done; the next `up` has them
    again."""
    assert run_here(aws, "up", life.first) == ""

    def delete() -> None:
        names = [str(alarm["AlarmName"]) for alarm in alarms(life.plane, life.name)]
        life.plane.client("cloudwatch").delete_alarms(AlarmNames=names)

    run_here(aws, "up", life.second, Fault("UpdateEndpoint", before_act=delete))
    assert run_here(aws, "up", life.second) == ""
    assert life.left() == ends[1].left


@pytest.mark.parametrize("change", ["policy", "bounds", "no policy", "no target"])
def test_scaling_is_changed_by_hand(
    aws: FaultyAws, ends: list[End], life: Life, change: str
) -> None:
    """While a command looks at it, or after: the next one brings what the file says."""
    assert run_here(aws, "up", life.first) == ""
    scaling = life.plane.client("application-autoscaling")
    resource = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{life.name}/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    (policy,) = policies(life)

    def act() -> None:
        if change == "policy":
            members = ("PolicyName", "PolicyType", "TargetTrackingScalingPolicyConfiguration")
            given = {name: policy[name] for name in members}
            given[members[2]] = {**given[members[2]], "TargetValue": 5.0}
            scaling.put_scaling_policy(**resource, **given)
        elif change == "bounds":
            scaling.register_scalable_target(**resource, MinCapacity=2, MaxCapacity=3)
        elif change == "no policy":
            scaling.delete_scaling_policy(**resource, PolicyName=policy["PolicyName"])
        else:
            scaling.deregister_scalable_target(**resource)

    assert run_here(aws, "up", life.first, Fault("DescribeScalingPolicies", act=act)) == ""
    assert run_here(aws, "up", life.first) == ""
    (target,), (answer,) = targets(life.plane, life.name), policies(life)
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 4)
    assert answer["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 300.0


def test_a_tag_moves_in_the_registry(aws: FaultyAws, life: Life) -> None:
    """After it was looked up: what was found is served, and the next `up` takes the other one."""
    ecr, digests = life.plane.client("ecr"), list[str]()

    def move() -> None:
        manifest = {
            "mediaType": MANIFEST,
            "schemaVersion": 2,
            "config": {"digest": f"sha256:{len(digests)}"},
        }
        text = json.dumps(manifest)
        digests.append(f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")
        # moto's own digest is one of a hundred.
        ecr.put_image(
            repositoryName=REPOSITORY, imageManifest=text, imageTag="1", imageDigest=digests[-1]
        )

    ecr.create_repository(repositoryName=REPOSITORY)
    move()
    config = write_config(life.first.parent, life.name, SCALING, image=ECR_IMAGE)
    assert run_here(aws, "up", config, Fault("DescribeImages", act=move)) == ""
    assert image_of(life).endswith(f"{REPOSITORY}@{digests[0]}")
    assert run_here(aws, "up", config) == ""
    assert image_of(life).endswith(f"{REPOSITORY}@{digests[1]}")
    assert len(set(digests)) == 2


def test_an_update_that_fails_leaves_autoscaling_as_it_was(aws: FaultyAws, life: Life) -> None:
    """Another instance type takes it away for the time of the update; the former instances serve
    on, and with it."""
    assert run_here(aws, "up", life.first) == ""
    before = life.plane.describe(life.name)["EndpointConfigName"]
    environment = '\n[container.environment]\nFAKE_START = "dies"'
    broken = write_config(life.second.parent, life.name, CHANGED + environment, image=CHANGED_IMAGE)
    output = run_here(aws, "up", broken)
    assert "DeregisterScalableTarget" in aws.changes
    assert f"did not take {life.name}-" in output
    assert f"serves {before} as before" in output
    assert len(targets(life.plane, life.name)) == len(policies(life)) == 1
    assert run_here(aws, "up", life.first) == ""
    assert life.plane.describe(life.name)["EndpointConfigName"] == before


def ignore(_: object) -> None:
    """What a command says."""


def policies(life: Life) -> list[dict[str, Any]]:
    """Scaling policies of an endpoint."""
    answer = life.plane.client("application-autoscaling").describe_scaling_policies(
        ServiceNamespace="sagemaker", ResourceId=f"endpoint/{life.name}/variant/AllTraffic"
    )
    return list(answer["ScalingPolicies"])


def configs(life: Life) -> list[dict[str, Any]]:
    """Endpoint configurations of an endpoint."""
    answer = life.plane.client("sagemaker").list_endpoint_configs(NameContains=f"{life.name}-")
    return list(answer["EndpointConfigs"])


def image_of(life: Life) -> str:
    """What the endpoint runs."""
    (variant,) = life.plane.describe(life.name)["ProductionVariants"]
    return str(variant["DeployedImages"][0]["SpecifiedImage"])
