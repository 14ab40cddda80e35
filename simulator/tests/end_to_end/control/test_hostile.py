"""Callers who send what no client of AWS sends: refused in a sentence, and nobody else waits."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from simulator.tests.support.control_plane import (
    IMAGE,
    ROLE,
    ControlPlane,
    control_plane,
    make_variant,
)
from tests.support.container import until

SAGEMAKER, CLOUDWATCH = "SageMaker", "GraniteServiceVersion20100801"
#: As S3's callers are known.
SIGNED = "Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"
DEEP = "[" * 100_000


def ask(plane: ControlPlane, service: str, operation: str, members: Any) -> httpx.Response:
    """A call as it is on the wire. members: a text as it stands, or JSON."""
    content = members if isinstance(members, str) else json.dumps(members)
    headers = {"X-Amz-Target": f"{service}.{operation}"}
    return httpx.post(plane.url, content=content, headers=headers, timeout=60)


def computed_s(plane: ControlPlane) -> float:
    """The processor's time that the control plane has had, whatever else the machine does."""
    times = psutil.Process(plane.process.pid).cpu_times()
    return float(times.user + times.system)


def connect(plane: ControlPlane, text: str) -> socket.socket:
    """A connection that has sent this and nothing else."""
    address = urlsplit(plane.url)
    assert address.port is not None
    connection = socket.create_connection((address.hostname, address.port), timeout=60)
    connection.sendall(text.encode())
    return connection


def model(name: str, **container: Any) -> dict[str, Any]:
    definition = {"Image": IMAGE, "Mode": "MultiModel", "ModelDataUrl": "s3://models/shop/"}
    return {
        "ModelName": name,
        "ExecutionRoleArn": ROLE,
        "PrimaryContainer": {**definition, **container},
    }


STATISTICS = {"Namespace": "Shop", "MetricName": "m", "Period": 60, "Statistics": ["Sum"]}
QUERY = {"Id": "e1", "Expression": "FILL(m1, 0)"}
METRIC = {
    "Id": "m1",
    "MetricStat": {"Metric": {"Namespace": "Shop", "MetricName": "m"}, "Period": 60, "Stat": "Sum"},
}


@pytest.mark.parametrize(
    ("service", "operation", "members", "code"),
    [
        (SAGEMAKER, "CreateModel", DEEP, "SerializationException"),
        (SAGEMAKER, "CreateModel", '{"ModelName": NaN}', "SerializationException"),
        (SAGEMAKER, "CreateModel", model("x", ModelDataUrl="s3://No_bucket!/x"), "Val"),
        (
            SAGEMAKER,
            "CreateModel",
            model("x", ModelDataUrl="s3://models/", Mode="SingleModel"),
            "ValidationException",
        ),
        (SAGEMAKER, "ListModels", {"CreationTimeAfter": "never"}, "SerializationException"),
        (SAGEMAKER, "ListModels", {"NextToken": "W1tb" * 1500}, "ValidationException"),
        (CLOUDWATCH, "GetMetricStatistics", {**STATISTICS, "StartTime": 0, "EndTime": 1e18}, ""),
        (CLOUDWATCH, "GetMetricStatistics", {**STATISTICS, "StartTime": 0, "EndTime": 2e11}, ""),
        (
            CLOUDWATCH,
            "PutMetricData",
            {"Namespace": "Shop", "MetricData": [{"MetricName": "m", "Value": 1e300}]},
            "InvalidParameterValueException",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused_in_a_moment(
    plane: ControlPlane, service: str, operation: str, members: Any, code: str
) -> None:
    start = computed_s(plane)
    answer = ask(plane, service, operation, members)
    assert computed_s(plane) - start < 5
    assert answer.status_code == 400, answer.text
    assert answer.json()["message"].endswith("."), answer.text
    assert code in answer.json()["__type"]


@pytest.mark.parametrize("length", [4_300_000, 30_000_000])
@pytest.mark.parametrize("action", ["PutMetricData", "PutDashboard", ""])
@pytest.mark.parametrize("kind", ["form", "gzip", "chunked", "json"])
def test_bodies_longer_than_any_call(
    plane: ControlPlane, kind: str, action: str, length: int
) -> None:
    """Refused at once, whoever would carry the call out; the connection goes on."""
    content: Any = f"Action={action}&Namespace=Shop&DashboardBody={'x' * length}".encode()
    headers = {"Authorization": SIGNED.partition(" ")[2].replace("/s3/", "/monitoring/")}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    if kind == "gzip":
        content, headers["Content-Encoding"] = gzip.compress(content, 1), "gzip"
    elif kind == "chunked":
        content = iter([content[:5], content[5:]])
    elif kind == "json":
        headers["X-Amz-Target"] = f"{CLOUDWATCH}.PutMetricData"
    with httpx.Client(base_url=plane.url, timeout=60) as client:
        answer = client.post("/", content=content, headers=headers)
        assert (answer.status_code, "has more than 4194304 bytes" in answer.text) == (413, True)
        assert client.get("/simulator/health").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        *((method, "/%00", b"") for method in ("GET", "PUT", "DELETE", "POST")),
        ("PUT", "/a%0ab", b""),
        ("PUT", "/%ff", b""),
        ("PUT", "/models/%ff", b"x"),
        ("PUT", "/models/" + "a" * 5000, b"x"),
        ("PUT", "/models?policy", b"%00"),
        ("PUT", "/models?policy", b"[" * 100_000),
        ("PUT", "/models?tagging", b"\xff"),
        ("POST", "/models?delete", b"<a"),
        ("GET", "/models?versions&max-keys=many", b""),
        ("GET", "/models/shop/a.tar.gz?partNumber=first", b""),
        ("PUT", "/models/part?uploadId=a&partNumber=%00", b"x"),
        ("GET", "/models/shop/a.tar.gz?response-content-type=%00", b""),
    ],
)
def test_what_s3_does_not_take(plane: ControlPlane, method: str, path: str, content: bytes) -> None:
    """It is the caller's fault, in a sentence; the bucket is as it was."""
    request = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{SIGNED}\r\n"
    head = f"{request}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    with connect(plane, head) as connection:
        connection.sendall(content)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert 400 <= int(answer.split()[1]) < 500, answer
    assert b"<Message>" in answer
    keys = plane.client("s3").list_objects_v2(Bucket="models")["Contents"]
    assert {"shop/a.tar.gz", "shop/b.tar.gz"} <= {key["Key"] for key in keys}


def test_operations_that_no_service_has(plane: ControlPlane) -> None:
    """As AWS, 400: clients ask a 500 again and again."""
    for service, operation in ((SAGEMAKER, "Nothing"), (CLOUDWATCH, "Nothing"), ("Foo", "Bar")):
        assert 400 <= ask(plane, service, operation, {}).status_code < 500


def test_a_packed_form_that_moto_carries_out(plane: ControlPlane) -> None:
    """It is passed on unpacked, with its own length."""
    headers = {
        "Authorization": SIGNED.partition(" ")[2].replace("/s3/", "/monitoring/"),
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Encoding": "gzip",
    }
    content = gzip.compress(b"Action=ListDashboards&Version=2010-08-01")
    answer = httpx.post(plane.url, content=content, headers=headers, timeout=60)
    assert (answer.status_code, "ListDashboardsResult" in answer.text) == (200, True)


def test_a_time_range_from_the_beginning_of_time(plane: ControlPlane) -> None:
    """There is nothing before what is kept, and nobody waits for nothing."""
    members = {"StartTime": 0, "EndTime": 2e11, "MetricDataQueries": [METRIC, QUERY]}
    start = computed_s(plane)
    assert ask(plane, CLOUDWATCH, "GetMetricData", members).status_code == 200
    assert computed_s(plane) - start < 5


def test_null_is_not_there_and_strangers_are_dropped(plane: ControlPlane) -> None:
    made = {**model("nulls", Environment=None, MultiModelConfig=None), "Tags": None, "My": 1}
    assert ask(plane, SAGEMAKER, "CreateModel", made).status_code == 200
    described = ask(plane, SAGEMAKER, "DescribeModel", {"ModelName": "nulls"}).json()
    assert "My" not in described
    assert "Environment" not in described["PrimaryContainer"]
    listed = ask(plane, SAGEMAKER, "ListModels", {"NameContains": None, "SortBy": None})
    assert listed.status_code == 200


def test_a_slip_of_the_pen_starts_no_million_instances(plane: ControlPlane) -> None:
    ask(plane, SAGEMAKER, "CreateModel", model("many"))
    wanted = {"EndpointConfigName": "many", "ProductionVariants": [make_variant("many", 10**6)]}
    assert ask(plane, SAGEMAKER, "CreateEndpointConfig", wanted).status_code == 200
    names = {"EndpointName": "many", "EndpointConfigName": "many"}
    answer = ask(plane, SAGEMAKER, "CreateEndpoint", names)
    assert answer.json()["__type"] == "ResourceLimitExceeded"


def test_a_request_without_a_path(plane: ControlPlane) -> None:
    asked = f"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n{SIGNED}\r\nConnection: close\r\n\r\n"
    with connect(plane, asked) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_uploads_that_never_end_keep_no_other_caller_waiting(plane: ControlPlane) -> None:
    half = (
        f"PUT /models/half HTTP/1.1\r\nHost: localhost\r\n{SIGNED}\r\nContent-Length: 9\r\n\r\nabc"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(120):
            stack.enter_context(connect(plane, half))
        s3 = plane.client("s3")
        assert "Contents" in s3.list_objects_v2(Bucket="models")
    assert "Traceback" not in plane.log_path.read_text()


def test_nothing_of_a_deleted_endpoint_is_on_the_disk(tmp_path: Path) -> None:
    """A container's log is there as long as its endpoint is: the next of the name has its own."""
    folder = tmp_path / "state" / "work" / "instances"
    with control_plane(tmp_path / "log", "--state", str(tmp_path / "state")) as plane:
        url = plane.put_models(tmp_path, "a.tar.gz")
        plane.create_endpoint("gone", url)
        assert list(folder.glob("gone/*.log"))
        plane.client("sagemaker").delete_endpoint(EndpointName="gone")
        until(lambda: not plane.endpoint_names(), "the endpoint is gone")
        assert list(folder.iterdir()) == []


def test_sigterm_as_soon_as_it_has_told_its_address_leaves_nothing(tmp_path: Path) -> None:
    with control_plane(tmp_path / "log", environment={"TMPDIR": str(tmp_path)}) as plane:
        assert plane.stop() == 0
    assert list(tmp_path.glob("simulator-*")) == []


def test_many_expressions_over_all_there_is_keep_nobody_waiting(plane: ControlPlane) -> None:
    queries = [METRIC, *({**QUERY, "Id": f"e{number}"} for number in range(60))]
    members = {"StartTime": 0, "EndTime": 2e11, "MetricDataQueries": queries}

    def count_answered() -> int:
        reckoned, answered = pool.submit(ask, plane, CLOUDWATCH, "GetMetricData", members), 0
        while not reckoned.done():
            assert ask(plane, SAGEMAKER, "ListEndpoints", {}).status_code == 200
            answered += 1
        assert reckoned.result().status_code == 200
        return answered

    with concurrent.futures.ThreadPoolExecutor() as pool:
        # On a busy machine this caller may be the slow one.
        until(lambda: count_answered() > 3, "others are answered while it is reckoned")
