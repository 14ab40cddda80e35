"""An endpoint that publishes to CloudWatch Logs, which moto's server plays."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import boto3
import pytest

from container.constants import Constants
from tests.support import models
from tests.support.cloudwatch_metrics import metrics_of, read_events
from tests.support.moto_server import moto_server
from tests.support.protocol import infer
from tests.unit.container.assembled.container_on_fake import container_on_fake

REGION = "eu-west-1"
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": REGION}
ENDPOINT = "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS"
GROUP, NAMESPACE = "/endpoint/shop", "Merlin"
PUBLISHING = {
    "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH": "true",
    "SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP": GROUP,
    "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE": NAMESPACE,
    "SERVE_METRIC_DIMENSIONS": "Endpoint=shop",
}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment, with keys for anybody."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.slow
def test_a_container_that_stops_has_published_all(aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was asked since the last publication, of models that have left, too."""
    asked = {"left": 3, "stays": 2}
    with moto_server() as url:
        aws.setenv(ENDPOINT, url)
        patient = Constants(last_metrics_s=60)
        with container_on_fake(tmp_path, None, patient, **PUBLISHING) as endpoint:
            for name, times in asked.items():
                directory = models.sums(endpoint.model_root / name / "model", [1, 2])
                assert endpoint.load(name, directory).status_code == 200
                target = {"X-Amzn-SageMaker-Target-Model": f"{name}.tar.gz"}
                for _ in range(times):
                    assert endpoint.invoke(name, infer([1]), **target).status_code == 200
            assert endpoint.unload("left").status_code == 200
            assert endpoint.invoke("nobody", infer([1])).status_code == 404
            assert "serve_cloudwatch_events_total 0.0" in endpoint.http.get("/metrics").text
        logs: Any = boto3.client("logs", endpoint_url=url)
        found = metrics_of(read_events(logs, GROUP), NAMESPACE)
    for name, times in asked.items():
        target = {"Endpoint": "shop", "target_model": f"{name}.tar.gz"}
        model = {**target, "model_name": name, "code": "200"}
        assert found.of("serve_invocations_total", **model).sum == times
        assert found.of("serve_invocation_seconds", **target, part="total").sample_count == times
    assert found.of("serve_invocations_total", Endpoint="shop", code="404").sum == 1
    assert found.of("serve_loads_total", Endpoint="shop", result="loaded").sum == 2
    # The fake counts the requests of all models.
    stays = {"target_model": "stays.tar.gz", "model_name": "stays", "version": "1"}
    assert found.of("nv_inference_request_success", Endpoint="shop", **stays).sum == 5


@pytest.mark.slow
def test_a_cloudwatch_that_is_not_there_holds_nothing_up(
    aws: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The endpoint serves, and stops in order."""
    aws.setenv(ENDPOINT, "http://127.0.0.1:9")
    with caplog.at_level(logging.WARNING), container_on_fake(tmp_path, **PUBLISHING) as endpoint:
        assert endpoint.ping() == 200
    assert "the last metrics were lost" in caplog.text
