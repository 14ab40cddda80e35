"""One stream of CloudWatch Logs; AWS is played by botocore's own Stubber."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.stub import ANY, Stubber

from container.telemetry.event_queue import Event
from container.telemetry.log_stream import (
    LogStream,
    is_passing,
    is_refusal,
    make_boto3_client,
    name_failure,
)
from tests.unit.container.conftest import ROOT

NAMES = {"logGroupName": "/endpoint", "logStreamName": "host"}
EVENTS = [Event(1, "a"), Event(2, "b"), Event(3, "c"), Event(4, "d")]


@pytest.fixture
def logs() -> Any:
    """A CloudWatch Logs client without a network."""
    return boto3.client(
        "logs", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


@pytest.fixture
def aws(logs: Any) -> Iterator[Stubber]:
    with Stubber(logs) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def stream(logs: Any) -> LogStream:
    return LogStream(logs, "/endpoint", "host")


def client_error(code: str, status: int = 400) -> ClientError:
    metadata: Any = {"HTTPStatusCode": status}
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": metadata}, "PutLogEvents")


def test_missing_group_and_stream_are_created(logs: Any, aws: Stubber) -> None:
    """Whether the group was there or not; then the events are sent again."""
    sent = {
        **NAMES,
        "logEvents": [{"timestamp": event.at_ms, "message": event.text} for event in EVENTS],
    }
    aws.add_client_error("put_log_events", "ResourceNotFoundException", expected_params=sent)
    aws.add_client_error("create_log_group", "ResourceAlreadyExistsException")
    aws.add_response("create_log_stream", {}, NAMES)
    aws.add_response("put_log_events", {}, sent)
    aws.add_response("put_log_events", {}, {**NAMES, "logEvents": ANY})
    log_stream = stream(logs)
    assert log_stream.put(EVENTS) == 0
    assert log_stream.put(EVENTS) == 0


@pytest.mark.parametrize(
    ("info", "refused"),
    [
        ({}, 0),
        ({"tooOldLogEventEndIndex": 1}, 1),
        ({"tooNewLogEventStartIndex": 3}, 1),
        ({"expiredLogEventEndIndex": 1, "tooNewLogEventStartIndex": 2}, 3),
    ],
)
def test_what_is_refused_for_its_age_is_told(
    logs: Any, aws: Stubber, info: dict[str, int], refused: int
) -> None:
    """CloudWatch says it of an answer that is a success else."""
    aws.add_response("put_log_events", {"rejectedLogEventsInfo": info})
    assert stream(logs).put(EVENTS) == refused


def test_failures_are_told_apart_by_code_or_type() -> None:
    """AWS's errors are all ClientErrors."""
    assert name_failure(OSError()) == "OSError"
    assert name_failure(client_error("AccessDeniedException")) == "AccessDeniedException"


@pytest.mark.parametrize(
    ("error", "passing", "refusal"),
    [
        (client_error("ThrottlingException"), True, False),
        (client_error("ServiceUnavailableException", 503), True, False),
        (client_error("Whatever", 500), True, False),
        (OSError(), True, False),
        (NoCredentialsError(), True, False),
        (client_error("AccessDeniedException"), False, False),
        (client_error("InvalidParameterException"), False, True),
    ],
)
def test_which_failures_pass(error: Exception, passing: bool, refusal: bool) -> None:
    """The others wait for the next publication; events that are refused wait for nothing."""
    assert (is_passing(error), is_refusal(error)) == (passing, refusal)


def test_events_are_sent_as_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the header that the format's specification wants."""
    for name, value in (
        ("AWS_REGION", "eu-west-1"),
        ("AWS_DEFAULT_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ):
        monkeypatch.setenv(name, value)
    client = make_boto3_client()
    seen: list[Any] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        seen.append(request.headers["x-amzn-logs-format"])
        response = AWSResponse(request.url, 200, {}, None)
        vars(response).update(_content=b"{}")
        return response

    client.meta.events.register("before-send.logs.PutLogEvents", answer)
    assert stream(client).put(EVENTS) == 0
    assert seen == [b"json/emf"]


@pytest.mark.parametrize("module", ["cloudwatch", "log_stream"])
def test_boto3_is_not_imported_before_it_is_used(module: str) -> None:
    """Who does not publish does not pay for it."""
    code = f"import sys, container.telemetry.{module}; sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
