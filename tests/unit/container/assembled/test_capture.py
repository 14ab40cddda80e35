"""SERVE_CAPTURE in a container: what lies there in the end, what is counted, who notices."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import boto3
import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import until
from tests.support.metrics_page import sample, scrape
from tests.support.moto_server import moto_server
from tests.support.protocol import binary, infer, sized, values
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

TARGET = {"X-Amzn-SageMaker-Target-Model": "tenant/shop.tar.gz"}


def records(root: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Each record of the files there, with its folder."""
    return [
        (path.parent.relative_to(root), json.loads(line))
        for path in sorted(root.rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def load(endpoint: ContainerOnFake, name: str = "m") -> None:
    archive = models.write_archive(endpoint.model_root / name / "model", {name: models.identity})
    assert endpoint.load(name, archive).status_code == 200


def test_what_is_captured(tmp_path: Path) -> None:
    """What was answered with 200, in its folder, columns hidden; callers see nothing of it."""
    captured = tmp_path / "captured"
    body, size = binary([7.25, 7.25])
    settings = {
        "SERVE_CAPTURE": str(captured),
        "SERVE_METRIC_DIMENSIONS": "Endpoint=shop,VariantName=a",
    }
    with container_on_fake(tmp_path / "plain", **settings) as endpoint:
        load(endpoint)
        assert values(endpoint.invoke("m", infer([7.25]), **TARGET)) == [7.25]
        answer = endpoint.invoke("m", body, Content_Type=sized(size), **TARGET)
        assert answer.status_code == 200
        assert endpoint.invoke("m", b"no JSON", **TARGET).status_code == 400
        assert endpoint.invoke("n", infer([1])).status_code == 404
        written = "serve_capture_records_total"
        until(lambda: sample(scrape(endpoint), written, result="written") == 2, "both are there")
    found = records(captured)
    assert {folder.parts[:4] for folder, _ in found} == {("shop", "a", "tenant", "shop.tar.gz")}
    in_json, in_binary = (record["captureData"] for _, record in found)
    assert json.loads(in_json["endpointInput"]["data"]) == infer([7.25])
    assert json.loads(in_json["endpointOutput"]["data"])["outputs"][0]["data"] == [7.25]
    assert b64decode(in_binary["endpointInput"]["data"]) == body
    assert b64decode(in_binary["endpointOutput"]["data"]) == answer.content

    hidden = tmp_path / "hidden"
    settings = {"SERVE_CAPTURE": str(hidden), "SERVE_CAPTURE_OMIT": "IN,OUT"}
    with container_on_fake(tmp_path / "omitting", **settings, SERVE_METRICS="off") as endpoint:
        load(endpoint)
        assert values(endpoint.invoke("m", infer([7.25]))) == [7.25]
        answer = endpoint.invoke("m", body, Content_Type=sized(size))
        assert answer.status_code == 200
    found = records(hidden)
    assert {folder.parts[:3] for folder, _ in found} == {("endpoint", "AllTraffic", "m")}
    assert len(found) == 2
    for _, record in found:
        for part in record["captureData"].values():
            data = part["data"].encode()
            data = b64decode(data) if part["encoding"] == "BASE64" else data
            assert b"7.25" not in data
            assert body[size:][:4] not in data


@pytest.mark.slow
def test_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All is in it when the container ends; where there is none, callers do not notice."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto_server() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket="there")
        # What is there may be slow on a busy machine; what is not is waited for as long.
        for bucket, limit_s in (("there", 60), ("nowhere", 8)):
            folder, target = tmp_path / bucket, f"s3://{bucket}/a/b"
            constants = Constants(last_captures_s=limit_s)
            with (
                caplog.at_level(logging.WARNING),
                container_on_fake(folder, None, constants, SERVE_CAPTURE=target) as endpoint,
            ):
                load(endpoint)
                for number in (1, 2):
                    assert values(endpoint.invoke("m", infer([number]))) == [number]
        (key,) = (it["Key"] for it in client.list_objects_v2(Bucket="there")["Contents"])
        body = client.get_object(Bucket="there", Key=key)["Body"].read()
    assert re.fullmatch(r"a/b/endpoint/AllTraffic/m/20\d\d(/\d\d){3}/[\w-]+\.jsonl", key)
    lines = [json.loads(line) for line in body.splitlines()]
    inputs = [json.loads(it["captureData"]["endpointInput"]["data"]) for it in lines]
    assert inputs == [infer([1]), infer([2])]
    refused, lost = (it for it in caplog.records if it.name.startswith("container.telemetry"))
    assert refused.getMessage() == "captures were not uploaded"
    assert vars(refused)["failure"] == "NoSuchBucket"
    assert lost.getMessage() == "the last captures were not written and uploaded in time"
    assert not [*(tmp_path / "there").rglob("*.jsonl")]


def test_none_of_a_hundred(tmp_path: Path) -> None:
    """0 percent is off: nothing is made."""
    captured = tmp_path / "captured"
    settings = {"SERVE_CAPTURE": str(captured), "SERVE_CAPTURE_PERCENT": "0"}
    with container_on_fake(tmp_path / "c", **settings) as endpoint:
        load(endpoint)
        assert values(endpoint.invoke("m", infer([1]))) == [1]
    assert not captured.exists()


def test_streams_are_not_captured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so; nothing is made."""
    captured = tmp_path / "captured"
    streams = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate_stream"}
    with container_on_fake(tmp_path / "c", SERVE_CAPTURE=str(captured), **streams):
        assert "SERVE_CAPTURE has no effect: answers that stream are not captured" in caplog.text
    assert not captured.exists()
