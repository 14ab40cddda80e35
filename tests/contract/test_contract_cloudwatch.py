"""A container that publishes to CloudWatch Logs, which moto's server plays."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support import models
from tests.support.cloudwatch_metrics import metrics_of, read_events
from tests.support.container import running
from tests.support.fake_triton import fake_environment
from tests.support.moto_server import moto_server
from tests.support.protocol import infer

REGION = "eu-west-1"
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": REGION}
GROUP, NAMESPACE = "/endpoint/shop", "Merlin"
PUBLISHING = {
    "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH": "true",
    "SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP": GROUP,
    "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE": NAMESPACE,
    "SERVE_METRIC_DIMENSIONS": "Endpoint=shop",
}


@pytest.fixture
def endpoint() -> Iterator[str]:
    """CloudWatch's address."""
    with moto_server() as url:
        yield url


def logs(endpoint: str) -> Any:
    return boto3.client(
        "logs",
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )


def test_a_container_that_stops_has_published_all(endpoint: str, tmp_path: Path) -> None:
    """What was asked since the last publication, of models that have left, too."""
    environment = {
        **fake_environment(tmp_path),
        **KEYS,
        **PUBLISHING,
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": endpoint,
    }
    asked = {"left": 3, "stays": 2}
    with running(tmp_path, **environment) as container:
        for name, times in asked.items():
            directory = models.sums(container.model_root / name / "model", [1, 2])
            assert container.load(name, directory).status_code == 200
            target = {"X-Amzn-SageMaker-Target-Model": f"{name}.tar.gz"}
            for _ in range(times):
                assert container.invoke(name, infer([1]), **target).status_code == 200
        assert container.unload("left").status_code == 200
        assert container.invoke("nobody", infer([1])).status_code == 404
        assert "serve_cloudwatch_events_total 0.0" in container.http.get("/metrics").text
        container.signal(signal.SIGTERM)
        assert container.wait() == 0
    found = metrics_of(read_events(logs(endpoint), GROUP), NAMESPACE)
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


def test_a_cloudwatch_that_is_not_there_holds_nothing_up(tmp_path: Path) -> None:
    """The container serves, and stops in order."""
    nowhere = {"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": "http://127.0.0.1:9"}
    with running(tmp_path, **fake_environment(tmp_path), **KEYS, **PUBLISHING, **nowhere) as it:
        assert it.ping() == 200
        it.signal(signal.SIGTERM)
        assert it.wait() == 0
        assert "the last metrics were lost" in it.log
