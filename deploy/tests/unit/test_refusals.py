"""AWS's errors in sentences: whose fault each is, what was asked, what to do."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    IncompleteReadError,
    NoRegionError,
    ParamValidationError,
    ReadTimeoutError,
)
from urllib3.exceptions import ProtocolError

from merlin_deploy.errors import (
    AlreadyThere,
    CallRefused,
    DeployError,
    InProgress,
    MissingRight,
    NoAnswer,
    NotThere,
    QuotaReached,
    Unreachable,
)
from merlin_deploy.refusals import is_missing, one_line, refusal_of

URL = "https://api.sagemaker.us-east-1.amazonaws.com/"


def answer(code: str, message: str) -> ClientError:
    """An error of AWS's."""
    return ClientError({"Error": {"Code": code, "Message": message}}, "CreateModel")


@pytest.mark.parametrize(
    ("code", "message", "kind", "cure"),
    [
        ("AccessDeniedException", "no.", MissingRight, "policy CONFIG.toml"),
        ("UnauthorizedOperation", "no", MissingRight, "policy CONFIG.toml"),
        # Of HEAD, which has no words; a proxy's page is no right that lacks.
        ("403", "Forbidden", MissingRight, "policy CONFIG.toml"),
        ("403", "<html>log in</html>", CallRefused, "AWS refuses it (403)"),
        ("ResourceLimitExceeded", "1 of 1", QuotaReached, "Service Quotas"),
        ("LimitExceededException", "1 of 1", QuotaReached, "Service Quotas"),
        # About calls, not about what they make.
        ("RequestLimitExceeded", "slow down", NoAnswer, "ask again"),
        ("ThrottlingException", "slow down", NoAnswer, "ask again"),
        ("InternalFailure", "oh", NoAnswer, "ask again"),
        ("503", "Service Unavailable", NoAnswer, "ask again"),
        ("5034", "no status", CallRefused, "5034"),
        ("ExpiredToken", "old", Unreachable, "aws sso login"),
        ("SignatureDoesNotMatch", "x", Unreachable, "AWS_SECRET_ACCESS_KEY"),
        ("AuthFailure", "Signature not yet current", Unreachable, "clock"),
        ("AuthFailure", "no", MissingRight, "policy CONFIG.toml"),
        ("ValidationException", "Cannot create already existing model", AlreadyThere, "existing"),
        ("ValidationException", "Cannot update in-progress endpoint", InProgress, "in-progress"),
        ("ConcurrentUpdateException", "busy", InProgress, "busy"),
        ("ValidationException", 'Could not find model "a"', NotThere, "find"),
        ("ValidationException", "Member must be", CallRefused, "AWS refuses it (Valid"),
        ("NoSuchKey", "no", NotThere, "NoSuchKey"),
    ],
)
def test_whose_fault_an_answer_is(
    code: str, message: str, kind: type[DeployError], cure: str
) -> None:
    """By its code, and by its words where a code says nothing."""
    refusal = refusal_of(answer(code, message), "sagemaker:CreateModel", "us-east-1")
    assert type(refusal) is kind
    assert cure in str(refusal)
    assert "sagemaker:CreateModel" in str(refusal)


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (EndpointConnectionError(endpoint_url=URL), NoAnswer, "no answer from the region us-"),
        (ReadTimeoutError(endpoint_url=URL), NoAnswer, "no answer from the region us-east-1"),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), NoAnswer, "the answer broke off"),
        (ProtocolError("cut"), NoAnswer, "the answer broke off (cut)"),
        (NoRegionError(), Unreachable, "no region is given"),
        (ParamValidationError(report="a\nb"), CallRefused, "a b"),
        (OSError("no file"), Unreachable, "no file; look at AWS_ENDPOINT_URL"),
        (ValueError("no JSON"), Unreachable, "no JSON; look at AWS_ENDPOINT_URL"),
    ],
)
def test_what_stands_between(error: Exception, kind: type[DeployError], sentence: str) -> None:
    """What may pass by itself is told from what does not."""
    refusal = refusal_of(error, "s3:GetObject", "us-east-1")
    assert type(refusal) is kind
    assert sentence in str(refusal)


@pytest.mark.parametrize(
    ("code", "message", "missing"),
    [
        ("404", "", True),
        ("NoSuchBucket", "", True),
        ("ResourceNotFound", "", True),
        ("ValidationException", "Could not find endpoint", True),
        ("ValidationException", "Cannot find it", True),
        ("AccessDenied", "Could not find endpoint", False),
        ("ValidationException", "no", False),
        ("403", "", False),
    ],
)
def test_what_is_not_there(code: str, message: str, missing: bool) -> None:
    """SageMaker has no code of its own for that."""
    assert is_missing(answer(code, message)) is missing


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("two\n  lines.", "two lines"),
        ("key AKIAIOSFODNN7EXAMPLE is", "key … is"),
        ("AKIA is a prefix", "AKIA is a prefix"),
        ("x-amz-security-token:Fwo//wEa+/= next", "x-amz-security-token:… next"),
        ("Credential=AKIAIOSFODNN7EXAMPLE/2026, Signature=5d672d", "Credential=…, Signature=…"),
        ("?X-Amz-Signature=5d67&X-Amz-Date=1", "?X-Amz-Signature=…&X-Amz-Date=1"),
        ("no. The Canonical String for this request should have been 'POST", "no"),
        (f"image sha256:{'0' * 64}", f"image sha256:{'0' * 64}"),
        (
            "User: arn:aws:sts::1:assumed-role/a is not",
            "User: arn:aws:sts::1:assumed-role/a is not",
        ),
    ],
)
def test_words_without_what_nobody_is_to_see(message: str, shown: str) -> None:
    """Everything else stays."""
    assert one_line(message) == shown
