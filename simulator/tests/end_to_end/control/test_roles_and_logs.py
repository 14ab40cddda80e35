"""What a model's role must be, and where containers' output is read: IAM and CloudWatch Logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulator.tests.support.control_plane import IMAGE, ROLE, ControlPlane, control_plane
from tests.support.container import until

URL = "s3://models/shop/"
GROUP = "/aws/sagemaker/Endpoints/"


def _trust(service: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _create_model(plane: ControlPlane, name: str, role: str) -> None:
    plane.client("sagemaker").create_model(
        ModelName=name,
        ExecutionRoleArn=role,
        PrimaryContainer={"Image": IMAGE, "Mode": "MultiModel", "ModelDataUrl": URL},
    )


@pytest.fixture(scope="module")
def roles(plane: ControlPlane) -> Iterator[dict[str, str]]:
    """Roles' ARNs by the service that may assume each; there are none after the module."""
    iam = plane.client("iam")
    made = {
        service: iam.create_role(RoleName=service, AssumeRolePolicyDocument=_trust(service))
        for service in ("sagemaker.amazonaws.com", "lambda.amazonaws.com")
    }
    yield {service: answer["Role"]["Arn"] for service, answer in made.items()}
    for service in made:
        iam.delete_role(RoleName=service)


def test_without_roles_every_arn_is_taken(plane: ControlPlane) -> None:
    assert plane.client("iam").list_roles()["Roles"] == []
    _create_model(plane, "any-role", ROLE)


def test_a_role_that_trusts_sagemaker_is_taken(plane: ControlPlane, roles: dict[str, str]) -> None:
    _create_model(plane, "right-role", roles["sagemaker.amazonaws.com"])


@pytest.mark.parametrize("wrong", ["unknown", "lambda.amazonaws.com"])
def test_a_role_that_sagemaker_cannot_assume_is_refused(
    plane: ControlPlane, roles: dict[str, str], wrong: str
) -> None:
    """One that is not there, and one that trusts another service: AWS's code and words."""
    arn = roles.get(wrong, ROLE)
    with pytest.raises(ClientError) as raised:
        _create_model(plane, "wrong-role", arn)
    assert raised.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": f"Could not assume role {arn}. Please ensure that the role exists and allows "
        "principal 'sagemaker.amazonaws.com' to assume the role.",
    }


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Its containers are what SCRIPT in their model's environment says; $1 is the port."""
    folder = tmp_path_factory.mktemp("scripted")
    command = "sh -c 'eval \"$SCRIPT\"' container {port}"
    with control_plane(folder / "log", container=command) as plane:
        plane.put_models(folder, "a.tar.gz")
        yield plane


def _create(plane: ControlPlane, name: str, script: str, count: int = 1) -> None:
    """An endpoint whose containers are this script, which is not waited for."""
    plane.create_endpoint(name, URL, count, wait=False, Environment={"SCRIPT": script})


def _messages(logs: Any, endpoint: str) -> list[str]:
    try:
        answer = logs.filter_log_events(logGroupName=GROUP + endpoint)
    except logs.exceptions.ResourceNotFoundException:
        return []
    return [event["message"] for event in answer["events"]]


def test_a_containers_output_is_in_its_stream(scripted: ControlPlane) -> None:
    """Each instance has a stream of its own in its endpoint's group; a failed one's is there, too.

    The container's script takes no signal's word for it: it writes, and ends.
    """
    _create(scripted, "talks", "echo port $1; echo it cannot go on >&2; exit 3", count=2)
    assert scripted.settled("talks") == "Failed"
    logs = scripted.client("logs")
    streams = logs.describe_log_streams(logGroupName=f"{GROUP}talks")["logStreams"]
    names = [stream["logStreamName"] for stream in streams]
    assert names == ["AllTraffic/AllTraffic-1", "AllTraffic/AllTraffic-2"]
    events = logs.get_log_events(
        logGroupName=f"{GROUP}talks", logStreamName=names[0], startFromHead=True
    )["events"]
    assert events[0]["message"].startswith("port ")
    assert events[1]["message"] == "it cannot go on"
    port, written = events[0]["message"], _messages(logs, "talks")
    sagemaker = scripted.client("sagemaker")
    sagemaker.delete_endpoint(EndpointName="talks")
    until(lambda: "talks" not in scripted.endpoint_names(), "it is deleted")
    sagemaker.create_endpoint(EndpointName="talks", EndpointConfigName="talks")
    assert scripted.settled("talks") == "Failed"
    both = _messages(logs, "talks")
    assert len(both) > len(written)
    assert both.count(port) == written.count(port)


def test_output_is_shown_while_it_comes(scripted: ControlPlane) -> None:
    """What a container writes before it is in service is there before it is."""
    _create(scripted, "slow", "echo it starts; exec sleep 600")
    logs = scripted.client("logs")
    until(lambda: _messages(logs, "slow") == ["it starts"], "the output is shown")
    assert scripted.describe("slow")["EndpointStatus"] == "Creating"


def test_of_much_output_the_end_is_kept(scripted: ControlPlane) -> None:
    """A container that writes 12 MB: its last words are there, and no more than 8 MB."""
    line = "line=$(printf %010000d 0)"
    many = f"{line}; i=0; while [ $i -lt 1200 ]; do echo $line; i=$((i+1)); done"
    _create(scripted, "much", f"{many}; echo the end; sleep 600")
    logs = scripted.client("logs")
    until(lambda: "the end" in _messages(logs, "much")[-1:], "the end is shown")
    shown = _messages(logs, "much")
    assert len(shown) < 900
    assert sum(map(len, shown)) >= 4_000_000
