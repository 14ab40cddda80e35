"""S3, IAM, STS, ECR and logs behind the control plane's port, for unmodified clients."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulator.tests.support.control_plane import ControlPlane, control_plane

MIB = 2**20
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, Signature=0"
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane without any endpoint, and the bucket "bucket"."""
    with control_plane(tmp_path_factory.mktemp("alone") / "log") as running:
        running.client("s3").create_bucket(Bucket="bucket")
        yield running


def _digest(pieces: Any) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _peak_mib(plane: ControlPlane) -> int:
    """The most memory that its process ever had."""
    status = Path(f"/proc/{plane.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def _ask(
    plane: ControlPlane, method: str, path: str, host: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, bytes]:
    """A request with a Host header of one's own."""
    connection = http.client.HTTPConnection(plane.url.removeprefix("http://"), timeout=60)
    connection.request(method, path, body, {**headers, "Host": host})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_a_large_object_is_never_in_memory(alone: ControlPlane, tmp_path: Path) -> None:
    """150 MiB in parts there, as a stream back, by ranges back, and copied: 400 MiB at most.

    A process that holds nothing has 180 MiB, and three parts at once have 24 each, some times.
    """
    large, s3 = tmp_path / "large", alone.client("s3")
    piece = os.urandom(MIB)
    with large.open("wb") as file:
        for number in range(150):
            file.write(number.to_bytes(8, "big") + piece[8:])
    s3.upload_file(str(large), "bucket", "large")
    whole = _digest([large.read_bytes()])
    assert _digest(s3.get_object(Bucket="bucket", Key="large")["Body"].iter_chunks(MIB)) == whole
    s3.copy({"Bucket": "bucket", "Key": "large"}, "bucket", "copied")
    s3.copy_object(CopySource="bucket/large", Bucket="bucket", Key="at-once")
    s3.download_file("bucket", "copied", str(large))
    assert _digest([large.read_bytes()]) == whole
    assert _digest(s3.get_object(Bucket="bucket", Key="at-once")["Body"].iter_chunks(MIB)) == whole
    assert _peak_mib(alone) < 400


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=5-9", 5, 9), ("bytes=-3", MIB * 3 - 3, MIB * 3 - 1), ("bytes=1-", 1, MIB * 3 - 1)],
)
def test_ranges(alone: ControlPlane, asked: str, first: int, last: int) -> None:
    body, s3 = os.urandom(3 * MIB), alone.client("s3")
    s3.put_object(Bucket="bucket", Key="ranged", Body=body)
    answer = s3.get_object(Bucket="bucket", Key="ranged", Range=asked)
    assert answer["ContentRange"] == f"bytes {first}-{last}/{len(body)}"
    assert answer["Body"].read() == body[first : last + 1]
    with pytest.raises(ClientError, match="InvalidRange"):
        s3.get_object(Bucket="bucket", Key="ranged", Range=f"bytes={4 * MIB}-")


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_in_trailers(alone: ControlPlane, algorithm: str) -> None:
    """boto3 sends aws-chunked bodies with a trailer, and checks what comes back by it."""
    s3 = alone.client("s3")
    s3.put_object(Bucket="bucket", Key="summed", Body=b"abc" * 100, ChecksumAlgorithm=algorithm)
    answer = s3.get_object(Bucket="bucket", Key="summed", ChecksumMode="ENABLED")
    assert answer["Body"].read() == b"abc" * 100
    assert answer[f"Checksum{algorithm}"]


def test_presigned_urls(alone: ControlPlane) -> None:
    """By a client that is not AWS's, which says of any bytes that they are a form."""
    s3, key = alone.client("s3", signature_version="s3v4"), {"Bucket": "bucket", "Key": "pre"}
    url = s3.generate_presigned_url("put_object", Params=key)
    request = urllib.request.Request(url, data=b"a=1&b=2", method="PUT")
    assert urllib.request.urlopen(request, timeout=60).status == 200
    url = s3.generate_presigned_url("get_object", Params=key)
    assert urllib.request.urlopen(url, timeout=60).read() == b"a=1&b=2"


@pytest.mark.parametrize("host", ["virtual.localhost:1", "virtual.s3.us-east-1.amazonaws.com"])
def test_a_bucket_in_the_hosts_name(alone: ControlPlane, host: str) -> None:
    s3 = alone.client("s3")
    s3.create_bucket(Bucket="virtual")
    assert _ask(alone, "PUT", "/a%20b/%C3%BC", host, SIGNED, b"1") == (200, b"")
    assert s3.get_object(Bucket="virtual", Key="a b/ü")["Body"].read() == b"1"
    assert _ask(alone, "GET", "/a%20b/%C3%BC", host, SIGNED, b"") == (200, b"1")


def test_a_client_that_waits_before_it_sends(alone: ControlPlane) -> None:
    """Expect: 100-continue is answered, and the body is taken then."""
    host, port = alone.url.removeprefix("http://").split(":")
    head = "PUT /bucket/expected HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    head += f"Expect: 100-continue\r\nAuthorization: {SIGNED['Authorization']}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"hello")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    body = alone.client("s3").get_object(Bucket="bucket", Key="expected")["Body"].read()
    assert body == b"hello"


def test_a_caller_is_a_role_of_the_account(alone: ControlPlane) -> None:
    """As in a notebook: the identity's ARN leads to a role's."""
    identity = alone.client("sts").get_caller_identity()
    assert identity["Account"] == "123456789012"
    assert identity["Arn"].startswith("arn:aws:sts::123456789012:assumed-role/")


def test_roles_take_the_policies_that_aws_has(alone: ControlPlane) -> None:
    iam = alone.client("iam")
    iam.create_role(RoleName="taken", AssumeRolePolicyDocument=json.dumps({"Statement": []}))
    policy = "arn:aws:iam::aws:policy/AmazonSageMakerFullAccess"
    iam.attach_role_policy(RoleName="taken", PolicyArn=policy)
    attached = iam.list_attached_role_policies(RoleName="taken")["AttachedPolicies"]
    assert [one["PolicyArn"] for one in attached] == [policy]
    iam.detach_role_policy(RoleName="taken", PolicyArn=policy)
    iam.delete_role(RoleName="taken")


def test_a_registry_that_docker_can_log_in_to(alone: ControlPlane) -> None:
    ecr = alone.client("ecr")
    made = ecr.create_repository(repositoryName="merlin")["repository"]
    assert made["repositoryUri"] == "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin"
    (data,) = ecr.get_authorization_token()["authorizationData"]
    assert data["authorizationToken"]


@pytest.mark.parametrize(
    ("service", "call", "members"),
    [
        ("sagemaker", "list_algorithms", {}),
        ("ecr", "list_pull_time_update_exclusions", {}),
        ("logs", "list_anomalies", {}),
        ("iam", "list_mfa_device_tags", {"SerialNumber": "arn:aws:iam::123456789012:mfa/x"}),
    ],
)
def test_a_call_that_nobody_carries_out(
    alone: ControlPlane, service: str, call: str, members: dict[str, str]
) -> None:
    """A service's own error, in JSON and in XML, and no page of HTML; the log has no traceback."""
    with pytest.raises(ClientError) as raised:
        getattr(alone.client(service), call)(**members)
    error = raised.value.response["Error"]
    assert error["Code"] == "UnknownOperationException"
    assert error["Message"].endswith("is not carried out by this simulator, nor by moto.")
    assert "Traceback" not in alone.log_path.read_text()


#: Of bytes that no client sends: the status and what the answer says.
STRANGE = [
    (b"GET /bucket/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: garbage\r\n\r\n", b"400"),
    (b"HEAD /nowhere/x HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
    (b"POST /moto-api/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", b"403"),
    (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: Foo.Bar\r\nContent-Length: 0\r\n\r\n",
        b"403",
    ),
    (b"PUT /bucket/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: nine\r\n\r\n", b"400"),
    (b"GET /bucket/x HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", b"4"),
    (b"\x16\x03\x01\x02\x00garbage\r\n\r\n", b"400"),
]


@pytest.mark.parametrize(("sent", "status"), STRANGE)
def test_strange_requests_are_answered(alone: ControlPlane, sent: bytes, status: bytes) -> None:
    host, port = alone.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(sent)
        assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)
    assert "Traceback" not in alone.log_path.read_text()


def test_of_conditional_writes_at_once_one_is_carried_out(alone: ControlPlane) -> None:
    """As S3 does it: the others are told that the object is another one by now."""
    s3 = alone.client("s3", max_pool_connections=8)

    def write(number: int, turn: int, condition: dict[str, str]) -> str:
        # An object with the same bytes would be the same one, by its ETag.
        body = f"{turn} {number}".encode()
        try:
            s3.put_object(Bucket="bucket", Key="table", Body=body, **condition)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "written"

    with ThreadPoolExecutor(8) as pool:
        condition = {"IfNoneMatch": "*"}
        for turn in range(15):
            said = list(pool.map(partial(write, turn=turn, condition=condition), range(8)))
            assert sorted(said) == ["PreconditionFailed"] * 7 + ["written"]
            found = s3.get_object(Bucket="bucket", Key="table")
            assert found["Body"].read() == f"{turn} {said.index('written')}".encode()
            condition = {"IfMatch": found["ETag"]}
    s3.delete_object(Bucket="bucket", Key="table")
    assert write(0, 0, {"IfMatch": '"0"'}) == "NoSuchKey"


def test_uploads_that_are_gone_are_said_so(alone: ControlPlane) -> None:
    """Whatever of an upload is asked for after it was aborted."""
    s3 = alone.client("s3")
    named = {"Bucket": "bucket", "Key": "parts"}
    upload = {**named, "UploadId": s3.create_multipart_upload(**named)["UploadId"]}
    tag = s3.upload_part(**upload, PartNumber=1, Body=b"x")["ETag"]
    s3.abort_multipart_upload(**upload)
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    for call, more in (
        (s3.upload_part, {"PartNumber": 1, "Body": b"x"}),
        (s3.complete_multipart_upload, {"MultipartUpload": parts}),
        (s3.abort_multipart_upload, {}),
    ):
        with pytest.raises(ClientError, match=r"\(NoSuchUpload\)"):
            call(**upload, **more)
