"""Each error of the simulator as the service model has it."""

from __future__ import annotations

import gzip
import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from merlin_simulator import errors
from merlin_simulator.api.wire import stream_error, unknown_operation, wire_error
from merlin_simulator.errors import (
    ArchiveUnavailable,
    ArchiveUnusable,
    ContainerFailed,
    EndpointNotFound,
    ImageUnavailable,
    InvalidRequest,
    ModelNotReady,
    NoInstance,
    PlatformFailed,
    SimulatorError,
    TargetModelRefused,
)

#: One of each class, and what it is on the wire.
EXPECTED: list[tuple[Exception, int, str]] = [
    (InvalidRequest("no"), 400, "ValidationError"),
    (TargetModelRefused("no"), 400, "ValidationError"),
    (EndpointNotFound("other", "ranker"), 400, "ValidationError"),
    (ArchiveUnavailable("bucket", "a.tar.gz", "It is not there."), 400, "ValidationError"),
    (ArchiveUnusable("bucket", "a.tar.gz", "It is no tar."), 400, "ValidationError"),
    (ModelNotReady("a.tar.gz", 60.0), 429, "ModelNotReadyException"),
    (ContainerFailed("invoke", 400, "bad"), 424, "ModelError"),
    (NoInstance("none"), 503, "ServiceUnavailable"),
    (ImageUnavailable("its registry is down"), 500, "InternalFailure"),
    (PlatformFailed("S3 is down"), 500, "InternalFailure"),
]
_SUBCLASSES = {
    thing
    for thing in vars(errors).values()
    if isinstance(thing, type) and issubclass(thing, SimulatorError) and thing is not SimulatorError
}


def _model() -> dict[str, Any]:
    packed = files("botocore") / "data/sagemaker-runtime/2017-05-13/service-2.json.gz"
    model: dict[str, Any] = json.loads(gzip.decompress(packed.read_bytes()))
    return model


@pytest.mark.parametrize(("error", "status", "name"), EXPECTED, ids=lambda it: type(it).__name__)
def test_each_error_has_its_status_and_name(error: Exception, status: int, name: str) -> None:
    """An error's class alone decides its HTTP status and its name."""
    wire = wire_error(error, "ranker")
    assert (wire.status, wire.name) == (status, name)


def test_no_error_of_the_simulator_is_forgotten() -> None:
    """Every class of errors.py is in the list above, which holds the table."""
    assert {type(error) for error, _, _ in EXPECTED} == _SUBCLASSES


@pytest.mark.parametrize(("error", "status", "name"), EXPECTED, ids=lambda it: type(it).__name__)
def test_each_is_one_of_the_service_models(error: Exception, status: int, name: str) -> None:
    """The status and the members are those of boto3's model (ErrorCode is beyond it, and sent)."""
    shape = _model()["shapes"][name]
    assert shape["error"]["httpStatusCode"] == status
    assert set(wire_error(error, "ranker").body) - {"ErrorCode"} <= set(shape["members"])


def test_a_stranger_is_an_internal_failure() -> None:
    """An exception that errors.py does not know is answered too, and its class is told."""
    wire = wire_error(KeyError("gone"), "ranker")
    assert (wire.status, wire.name) == (500, "InternalFailure")
    assert "KeyError" in str(wire.body["Message"])


def test_only_the_refused_target_model_has_an_error_code_among_validation_errors() -> None:
    """SageMaker names TARGET_MODEL_HEADER_NOT_SUPPORTED, and no code elsewhere."""
    refused = wire_error(TargetModelRefused("no"), "ranker").body
    assert refused == {"ErrorCode": "TARGET_MODEL_HEADER_NOT_SUPPORTED", "Message": "no"}
    assert wire_error(InvalidRequest("no"), "ranker").body == {"Message": "no"}


def test_a_model_error_reads_as_on_sagemaker() -> None:
    """All five members, with the message's place in CloudWatch."""
    wire = wire_error(ContainerFailed("invoke", 400, '{"error": "bad"}'), "ranker")
    assert wire.body == {
        "ErrorCode": "CLIENT_ERROR_FROM_MODEL",
        "LogStreamArn": (
            "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/Endpoints/ranker"
        ),
        "Message": (
            'Received client error (400) from primary with message "{"error": "bad"}". See '
            "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1"
            "#logEventViewer:group=/aws/sagemaker/Endpoints/ranker in account 123456789012 "
            "for more information."
        ),
        "OriginalMessage": '{"error": "bad"}',
        "OriginalStatusCode": 400,
    }


@pytest.mark.parametrize(
    ("status", "fault", "code"),
    [
        (399, "server", "INTERNAL_FAILURE_FROM_MODEL"),
        (400, "client", "CLIENT_ERROR_FROM_MODEL"),
        (499, "client", "CLIENT_ERROR_FROM_MODEL"),
        (500, "server", "INTERNAL_FAILURE_FROM_MODEL"),
        (507, "server", "INTERNAL_FAILURE_FROM_MODEL"),
        (0, "server", "INTERNAL_FAILURE_FROM_MODEL"),
    ],
)
def test_whose_fault_a_model_error_is(status: int, fault: str, code: str) -> None:
    """4xx is the caller's fault; everything else, a time-out too, the model's."""
    body = wire_error(ContainerFailed("invoke", status, "x"), "ranker").body
    assert str(body["Message"]).startswith(f"Received {fault} error ({status}) from primary")
    assert (body["ErrorCode"], body["OriginalStatusCode"]) == (code, status)


def test_a_time_out_is_told_in_sagemakers_words() -> None:
    """An invocation that timed out says so as SageMaker does; a load says what the seam found."""
    invoked = wire_error(ContainerFailed("invoke", 0, "no answer"), "ranker").body
    assert str(invoked["OriginalMessage"]).startswith("Your invocation timed out while waiting for")
    loaded = wire_error(ContainerFailed("load", 0, "no answer"), "ranker").body
    assert loaded["OriginalMessage"] == "no answer"


#: Texts around the limit, too, which hypothesis alone hardly makes.
_TEXTS = st.builds(lambda text, times: text * times, st.text(max_size=60), st.integers(1, 200))


@example("x" * 2048, 400)
@example("x" * 2049, 400)
@example("x" * 5000, 500)
@given(_TEXTS, st.integers(0, 599))
def test_messages_keep_the_models_limit_and_their_end(original: str, status: int) -> None:
    """However long the container talks: at most 2048 characters, with where to look at the end."""
    body = wire_error(ContainerFailed("load", status, original), "ranker").body
    assert len(str(body["Message"])) <= 2048
    assert str(body["Message"]).endswith("for more information.")
    assert body["OriginalMessage"] == original[:2048]
    assert len(str(wire_error(InvalidRequest(original), "ranker").body["Message"])) <= 2048


def test_what_is_no_operation_names_those_there_are() -> None:
    """A request elsewhere learns what it can post to."""
    wire = unknown_operation("GET", "/endpoints/ranker")
    assert (wire.status, wire.name) == (404, "UnknownOperationException")
    assert "/invocations-response-stream" in str(wire.body["Message"])


@pytest.mark.parametrize(
    ("error", "name", "code"),
    [
        (ContainerFailed("invoke", 0, "x"), "ModelStreamError", "ModelInvocationTimeExceeded"),
        (ContainerFailed("invoke", 500, "x"), "ModelStreamError", "StreamBroken"),
        (PlatformFailed("x"), "InternalStreamFailure", None),
        (KeyError("x"), "InternalStreamFailure", None),
    ],
)
def test_a_stream_fails_with_the_models_exceptions(
    error: Exception, name: str, code: str | None
) -> None:
    """The container's failures are ModelStreamError with one of its two codes; ours are not."""
    failed = stream_error(error)
    assert (failed.name, failed.body.get("ErrorCode")) == (name, code)
    assert set(failed.body) <= set(_model()["shapes"][name]["members"])
