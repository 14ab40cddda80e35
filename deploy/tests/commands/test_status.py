"""`status` on the control plane."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from deploy.tests.support.commands import (
    RUN_TIMEOUT_S,
    deploy,
    environment,
    put_archive,
    write_config,
)
from deploy.tests.support.odd_aws import RawBody
from merlin_deploy.account import Account
from merlin_deploy.config.reading import read_config
from merlin_deploy.status.collect import gather
from merlin_deploy.status.report import ConfigurationPart, Missing
from simulator.tests.support.control_plane import ControlPlane
from tests.support.container import ROOT

SCALING = """
[autoscaling]
max = 4
invocations_per_instance = 300
[costs]
instance_hour = 0.2
"""
TARGET = "shop-a/0123.tar.gz"


@pytest.fixture(scope="module")
def looked_at(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CONFIG.toml of an endpoint that was asked three times, once for what is not there."""
    folder = tmp_path_factory.mktemp("looked-at")
    put_archive(plane, folder, "looked-at")
    config = write_config(folder, "looked-at", SCALING)
    deploy(plane, "up", config)
    for target in (TARGET, TARGET):
        plane.invoke("looked-at", target)
    client = plane.client("sagemaker-runtime")
    with pytest.raises(client.exceptions.ClientError):
        client.invoke_endpoint(EndpointName="looked-at", TargetModel="no.tar.gz", Body=b"{}")
    return config


def test_without_an_endpoint(plane: ControlPlane, tmp_path: Path) -> None:
    """It says so, and what makes one."""
    output = deploy(plane, "status", write_config(tmp_path, "nowhere"), code=1)
    assert output.startswith("error: there is no endpoint nowhere in us-east-1; `up CONFIG.toml`")


def test_document_of_an_endpoint(plane: ControlPlane, looked_at: Path) -> None:
    """Every part is there, with what was done."""
    document = json.loads(deploy(plane, "status", looked_at, "--json"))
    assert document["endpoint"]["status"] == "InService"
    assert document["configuration"]["is_wanted"]
    instances = document["instances"]
    assert [instances[name] for name in ("now", "wanted", "minimum", "maximum")] == [1, 1, 1, 4]
    traffic = document["traffic"]
    assert (traffic["invocations"], traffic["errors_4xx"], traffic["errors_5xx"]) == (3, 1, 0)
    assert traffic["cache_hit_ratio"] == 0.5
    assert traffic["loading_wait_ms"] > 0
    assert 0 < traffic["latency_p50_ms"] <= traffic["latency_p99_ms"]
    assert len(document["alarms"]) == 4
    assert document["archives"]["aliases"] == [
        {"name": "shop-a", "target": TARGET, "is_there": True}
    ]
    assert document["history"]["before"] is None
    now, *_, alarms = document["costs"]
    assert (now["quantity"], now["money_per_day"]) == (24.0, 4.8)
    assert alarms["quantity"] > len(document["alarms"]), "autoscaling's own count, too"


def test_what_up_would_change(plane: ControlPlane, looked_at: Path, tmp_path: Path) -> None:
    """Another file than the one that was deployed: exactly what differs."""
    sections = SCALING.replace("max = 4", "max = 5") + "[instances]\ntype = 'ml.c5.large'\n"
    changed = write_config(tmp_path, "looked-at", sections)
    text = deploy(plane, "status", changed)
    assert "`up` would change 2 things" in text
    assert "InstanceType: ml.c5.xlarge → ml.c5.large" in text
    assert "autoscaling MaxCapacity: 4 → 5" in text
    assert "as CONFIG.toml wants it" in deploy(plane, "status", looked_at)


def test_rights_that_are_missing(
    plane: ControlPlane, looked_at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says so in its part, and the rest is there; what was not compared is noted."""
    for name, value in environment(plane).items():
        monkeypatch.setenv(name, value)
    account = Account("us-east-1", print)
    denied = ("cloudwatch.DescribeAlarms", "s3.ListObjectsV2", "cloudwatch.GetMetricData")
    for call in denied:
        service = call.partition(".")[0]
        account.client(service).meta.events.register(f"before-send.{call}", deny)
    report = gather(account, read_config(looked_at), minutes=5)
    for part in (report.alarms, report.archives, report.traffic):
        assert isinstance(part, Missing)
        assert "is not allowed in us-east-1" in part.missing
    assert isinstance(report.configuration, ConfigurationPart)
    assert any(note.startswith("alarms: not compared") for note in report.configuration.notes)
    assert report.instances.now == 1
    assert {cost.what for cost in report.costs if cost.quantity is None} >= {"alarms"}


def test_watching_ends_by_ctrl_c(plane: ControlPlane, looked_at: Path) -> None:
    """With exit code 0, and nothing said of it; a document is one line."""
    watching = subprocess.Popen(
        [sys.executable, "-m", "deploy", "status", str(looked_at), "--watch", "--json"],
        cwd=ROOT,
        env=environment(plane),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["endpoint"]["name"] == "looked-at"
        watching.send_signal(signal.SIGINT)
        _, output = watching.communicate(timeout=RUN_TIMEOUT_S)
    assert (watching.returncode, output) == (0, b"")


def deny(request: Any, **_: Any) -> AWSResponse:
    """What AWS answers who may not: in S3's words, JSON's or those of the query protocol."""
    headers = {"x-amzn-errortype": "AccessDeniedException"}
    body = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    if "json" in str(request.headers.get("Content-Type")):
        body = b'{"__type": "AccessDeniedException", "message": "no"}'
    elif b"Action" in (request.body or b""):
        body = b"<ErrorResponse>" + body + b"</ErrorResponse>"
    return AWSResponse(request.url, 403, headers, RawBody(body))
