"""Metrics into CloudWatch; AWS is played by botocore's own Stubber, tritonserver by the fake."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from container.settings import Settings, read_settings
from container.telemetry.cloudwatch import (
    MetricsPublisher,
    failure_kind,
    parse_metrics,
    scrape,
    to_events,
)
from tests.fakes import tritonserver as fake
from tests.unit.container.conftest import ROOT
from tests.unit.container.tritonserver.test_process import until

PAGE = """
# HELP nv_inference_count Number of inferences
# TYPE nv_inference_count counter
nv_inference_count{model="a",version="1"} 3
# HELP nv_inference_request_duration_us Duration
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{model="a",version="1"} 41
# HELP nv_cpu_utilization CPU
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization NaN
# HELP nv_cpu_memory_total_bytes CPU memory
# TYPE nv_cpu_memory_total_bytes gauge
nv_cpu_memory_total_bytes 1024
"""
NAMES = {"logGroupName": "/endpoint", "logStreamName": "host"}


def settings() -> Settings:
    return read_settings(
        {
            "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH": "true",
            "SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP": "/endpoint",
            "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE": "Triton",
        }
    )


@pytest.fixture
def logs() -> Any:
    """A CloudWatch Logs client without a network."""
    return boto3.client(
        "logs", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


@pytest.fixture
async def metrics_port(tmp_path: Path) -> AsyncIterator[int]:
    """Where the fake's metrics page is; no connection and no thread outlives the test."""
    played = fake.Fake({}, tmp_path, states={"a": ("READY", "")}, requests=3)
    pages: set[asyncio.Future[None]] = set()

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await fake.serve_metrics(played, reader, writer)
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pages.add(asyncio.ensure_future(page(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    # A publisher that was cancelled leaves a thread that still fetches the page.
    await asyncio.get_running_loop().shutdown_default_executor()
    server.close()
    await server.wait_closed()
    await asyncio.gather(*pages)


def publisher(client: Any, port: int, interval_s: float = 60.0) -> MetricsPublisher:
    return MetricsPublisher(
        settings(), port, client=lambda: client, interval_s=interval_s, stream="host"
    )


def test_a_page_becomes_events() -> None:
    """One event for each set of labels, which are its dimensions; NaN is left out."""
    events = [json.loads(event) for event in to_events(parse_metrics(PAGE), "Triton", 7)]
    model, machine = events
    assert model == {
        "_aws": {
            "Timestamp": 7,
            "CloudWatchMetrics": [
                {
                    "Namespace": "Triton",
                    "Dimensions": [["model", "version"]],
                    "Metrics": [
                        {"Name": "nv_inference_count"},
                        {"Name": "nv_inference_request_duration_us"},
                    ],
                }
            ],
        },
        "model": "a",
        "version": "1",
        "nv_inference_count": 3.0,
        "nv_inference_request_duration_us": 41.0,
    }
    assert machine["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[]]
    assert machine["nv_cpu_memory_total_bytes"] == 1024


def test_no_event_has_more_metrics_than_the_format_allows() -> None:
    """100 in one event; the rest goes into the next."""
    page = "".join(f"# TYPE m{n} gauge\nm{n} {n}\n" for n in range(250))
    events = [json.loads(event) for event in to_events(parse_metrics(page), "n", 0)]
    sizes = [len(event["_aws"]["CloudWatchMetrics"][0]["Metrics"]) for event in events]
    assert sizes == [100, 100, 50]


async def test_missing_group_and_stream_are_created(logs: Any, metrics_port: int) -> None:
    """Whether the group was there or not; then the events are sent again."""
    with Stubber(logs) as aws:
        events = {**NAMES, "logEvents": ANY}
        aws.add_client_error("put_log_events", "ResourceNotFoundException", expected_params=events)
        aws.add_client_error("create_log_group", "ResourceAlreadyExistsException")
        aws.add_response("create_log_stream", {}, NAMES)
        aws.add_response("put_log_events", {}, events)
        aws.add_response("put_log_events", {}, events)
        both = publisher(logs, metrics_port)
        await asyncio.to_thread(both.publish)
        await asyncio.to_thread(both.publish)
        aws.assert_no_pending_responses()


async def test_a_failure_is_logged_once_for_each_kind(
    logs: Any, metrics_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing is raised."""
    with Stubber(logs) as aws:
        for code in ("AccessDeniedException", "AccessDeniedException", "ThrottlingException"):
            aws.add_client_error("put_log_events", code)
        failing = publisher(logs, metrics_port)
        for _ in range(3):
            await asyncio.to_thread(failing.publish)
    kinds = [getattr(record, "failure", None) for record in caplog.records]
    assert kinds == ["AccessDeniedException", "ThrottlingException"]


def test_a_tritonserver_that_is_away_is_a_failure_like_others(
    logs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two lives of tritonserver nobody answers."""
    publisher(logs, 1).publish()
    assert "metrics were not published" in caplog.text


async def test_it_publishes_until_it_is_cancelled(logs: Any, metrics_port: int) -> None:
    """Again and again, by its interval."""
    with Stubber(logs) as aws:
        aws.add_response("put_log_events", {})
        aws.add_response("put_log_events", {})
        task = asyncio.create_task(publisher(logs, metrics_port, interval_s=0.01).run())
        await until(lambda: _is_used_up(aws))
        task.cancel()
        await asyncio.wait({task})


def _is_used_up(aws: Stubber) -> bool:
    """Whether everything that was expected has come."""
    try:
        aws.assert_no_pending_responses()
    except AssertionError:
        return False
    return True


async def test_the_page_is_fetched_without_a_proxy(
    metrics_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in the environment is for the world outside, not for loopback."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    page = await asyncio.to_thread(scrape, f"http://127.0.0.1:{metrics_port}/metrics")
    assert 'nv_inference_request_success{model="a",version="1"} 3' in page


def test_failures_are_told_apart_by_code_or_type() -> None:
    """AWS's errors are all ClientErrors."""
    assert failure_kind(OSError()) == "OSError"


def test_boto3_is_not_imported_before_it_is_used() -> None:
    """Who does not publish does not pay for it."""
    code = "import sys, container.telemetry.cloudwatch; sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
