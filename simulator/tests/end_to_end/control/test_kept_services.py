"""What S3, IAM, ECR and logs hold survives the end of `serve`, and SIGKILL, with --state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.tests.support.control_plane import ControlPlane, control_plane
from tests.support.container import CALL_TIMEOUT_S, ROOT, STOP_TIMEOUT_S

LARGE = os.urandom(6 * 2**20)
VERSIONED = {"Status": "Enabled"}


def _fill(plane: ControlPlane) -> None:
    s3, iam = plane.client("s3"), plane.client("iam")
    s3.create_bucket(Bucket="kept")
    s3.create_bucket(Bucket="other")
    s3.put_bucket_versioning(Bucket="other", VersioningConfiguration=VERSIONED)
    s3.put_bucket_tagging(Bucket="kept", Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
    s3.delete_bucket_tagging(Bucket="kept")
    s3.put_object(Bucket="kept", Key="a b/ü.txt", Body=b"old", Metadata={"m": "1"})
    s3.put_object(
        Bucket="kept",
        Key="a b/ü.txt",
        Body=b"new",
        Metadata={"m": "2"},
        Tagging="t=1",
        ACL="public-read",
    )
    s3.put_object(Bucket="kept", Key="x" * 1000, Body=b"long name")
    for key in ("gone", "gone-too", "gone-in-versions"):
        s3.put_object(Bucket="kept", Key=key, Body=b"x")
    s3.delete_object(Bucket="kept", Key="gone")
    s3.delete_objects(Bucket="kept", Delete={"Objects": [{"Key": "gone-too"}]})
    s3.delete_object(Bucket="kept", Key="gone-in-versions")
    s3.put_object(Bucket="other", Key="marked", Body=b"x")
    s3.delete_object(Bucket="other", Key="marked")
    _upload(s3)
    for name in ("sagemaker", "deleted"):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": []}))
    statement = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName="sagemaker", PolicyName="p", PolicyDocument=policy)
    iam.delete_role(RoleName="deleted")
    plane.client("ecr").create_repository(repositoryName="merlin")
    plane.client("logs").create_log_group(logGroupName="mine")


def _upload(s3: Any) -> None:
    """An object of two parts."""
    upload = {"Bucket": "kept", "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(Bucket="kept", Key="parts")["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in ((1, LARGE), (2, b"end"))
    ]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def _held(plane: ControlPlane) -> dict[str, Any]:
    """What the services answer about it, less times and random ids."""
    s3, iam = plane.client("s3"), plane.client("iam")
    objects = {}
    for bucket in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
        for one in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
            named = {"Bucket": bucket, "Key": one["Key"]}
            answer = s3.get_object(**named)
            objects[bucket, one["Key"]] = (
                answer["Body"].read(),
                answer["ETag"],
                answer["Metadata"],
                answer["LastModified"],
                s3.get_object_tagging(**named)["TagSet"],
            )
    return {
        "objects": objects,
        "grants": s3.get_object_acl(Bucket="kept", Key="a b/ü.txt")["Grants"],
        "versioned": s3.get_bucket_versioning(Bucket="other").get("Status"),
        "roles": [role["RoleName"] for role in iam.list_roles()["Roles"]],
        "policies": iam.list_role_policies(RoleName="sagemaker")["PolicyNames"],
        "repositories": [
            one["repositoryUri"]
            for one in plane.client("ecr").describe_repositories()["repositories"]
        ],
        "groups": [
            one["logGroupName"] for one in plane.client("logs").describe_log_groups()["logGroups"]
        ],
    }


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The state of a simulator that was filled and killed, and what it held."""
    folder = tmp_path_factory.mktemp("kept")
    with control_plane(folder / "log", "--state", str(folder / "state")) as plane:
        _fill(plane)
        before = _held(plane)
        plane.process.kill()
        plane.process.wait(STOP_TIMEOUT_S)
    return folder / "state", before


def test_all_of_it_is_there_again(killed: tuple[Path, dict[str, Any]]) -> None:
    """And no bytes of objects that are gone, nor calls about a role that is."""
    state, before = killed
    with control_plane(state.parent / "log", "--state", str(state)) as plane:
        assert _held(plane) == before
    assert set(before["objects"]) == {
        ("kept", "a b/ü.txt"),
        ("kept", "x" * 1000),
        ("kept", "parts"),
    }
    assert before["objects"]["kept", "parts"][0] == LARGE + b"end"
    assert before["roles"] == ["sagemaker"]
    sizes = sorted(path.stat().st_size for path in (state / "s3/bytes").iterdir())
    assert sizes == [3, 9, len(LARGE) + 3]
    assert "deleted" not in (state / "calls.jsonl").read_text()


def _refused(state: Path) -> str:
    """What a start with this state says; it fails."""
    command = [sys.executable, "-m", "simulator", "serve", "--port", "0", "--state", str(state)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=CALL_TIMEOUT_S
    )
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    (line,) = ended.stderr.splitlines()
    return line


def test_one_simulator_at_a_time(killed: tuple[Path, dict[str, Any]]) -> None:
    """The second is refused, and the first, which is the third on this state, holds all of it."""
    state, before = killed
    with control_plane(state.parent / "log", "--state", str(state)) as first:
        assert f"{state} is in use by another simulator" in _refused(state)
        assert _held(first) == before


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "calls.jsonl").write_text('{"no": "call"}\n')
    line = _refused(tmp_path)
    assert f"line 1 of {tmp_path / 'calls.jsonl'} holds no call of this simulator" in line
    assert line.endswith("remove it, or name another --state.")


def test_a_state_of_an_older_simulator_is_named(tmp_path: Path) -> None:
    """Its buckets would not be there; its calls have other members."""
    (tmp_path / "buckets").mkdir()
    (tmp_path / "calls.jsonl").write_text('{"service": "iam", "target": "", "body": ""}\n')
    assert f"{tmp_path / 'buckets'} is of an older simulator" in _refused(tmp_path)


def test_a_call_that_cannot_be_made_again(tmp_path: Path) -> None:
    """What S3 had is there whole, or the start says which line is in its way."""
    call = {"service": "s3", "region": "us-east-1", "headers": {}, "body": "", "method": "DELETE"}
    (tmp_path / "calls.jsonl").write_text(json.dumps({**call, "path": "/no-bucket"}) + "\n")
    sentence = _refused(tmp_path)
    assert "cannot be carried out again (DELETE /no-bucket?: status 404): remove its" in sentence


def test_without_a_state_nothing_is_left(tmp_path: Path) -> None:
    """Nor is anything outside the temporary folder."""
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    environment = {"HOME": str(home), "TMPDIR": str(scratch)}
    with control_plane(tmp_path / "log", environment=environment) as plane:
        _fill(plane)
        assert list(scratch.iterdir())
    assert [*home.iterdir(), *scratch.iterdir()] == []
