"""Errors of InvokeEndpoint in sentences."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from merlin_deploy.errors import CallRefused, DeployError, MissingRight, NoAnswer, Unreachable
from merlin_deploy.invoke import Target, refusal_of_invocation

ASKED = Target("shop", "shop-a/0123.tar.gz")
LOG = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/Endpoints/shop"


def of(code: str, words: str = "", **members: Any) -> DeployError:
    """What becomes of an answer with this code."""
    response = {"Error": {"Code": code, "Message": words}, **members}
    return refusal_of_invocation(ClientError(response, "InvokeEndpoint"), ASKED, "us-east-1")


def of_model(status: int, original: str) -> str:
    """What becomes of a container's status."""
    members = {"OriginalStatusCode": status, "OriginalMessage": original, "LogStreamArn": LOG}
    return str(of("ModelError", "Received an error from primary", **members))


def test_containers_own_sentence_is_told() -> None:
    """With its status, and who can do something."""
    said = of_model(400, '{"error": "the field `inputs`: found nothing."}')
    assert said == (
        "shop-a/0123.tar.gz answers 400: the field `inputs`: found nothing; correct the request"
    )
    assert "/aws/sagemaker/Endpoints/shop has more" in of_model(500, "no contract's words")
    assert "larger instances.type" in of_model(507, '{"error": "no memory"}')
    assert "ask again" in of_model(503, '{"error": "it restarts"}')
    assert "does not answer in time: Your invocation timed out" in of_model(
        0, "Your invocation timed out while waiting"
    )


@pytest.mark.parametrize(
    ("code", "words", "told"),
    [
        ("ModelNotReadyException", "loading", "is not ready: .* ask again"),
        (
            "ValidationError",
            "Failed to download model data (bucket: b)",
            "does not get the archive",
        ),
        ("ValidationError", "Endpoint shop of account 123456789012 not found.", "no endpoint shop"),
        ("ValidationError", "is missing a target model header", "not of the kind"),
        ("ThrottlingException", "Rate exceeded", "no more requests at this rate"),
        ("ServiceUnavailable", "busy", "no instance takes the request"),
        ("ModelStreamError", "broken", "broke off"),
        ("ValidationError", "another one", "another one"),
    ],
)
def test_errors_say_what_to_do(code: str, words: str, told: str) -> None:
    """AWS's words stand in each; the code is kept."""
    error = of(code, words)
    assert isinstance(error, CallRefused)
    assert error.code == code
    assert words.rstrip(".") in str(error)
    with pytest.raises(CallRefused, match=told):
        raise error


def test_what_every_call_may_meet() -> None:
    """Rights and networks are told as everywhere; silence is told as what it may be."""
    assert isinstance(of("AccessDeniedException", "not authorized"), MissingRight)
    url = "https://runtime.sagemaker.us-east-1.amazonaws.com/"
    away = refusal_of_invocation(EndpointConnectionError(endpoint_url=url), ASKED, "us-east-1")
    assert isinstance(away, Unreachable)
    silent = refusal_of_invocation(ReadTimeoutError(endpoint_url=url), ASKED, "us-east-1")
    assert "a load that has begun goes on" in str(silent)


@pytest.mark.parametrize("code", ["InternalFailure", "ServerException"])
def test_a_failure_of_aws_may_be_asked_again(code: str) -> None:
    """Nobody's fault here: it is told as what passes."""
    with pytest.raises(NoAnswer, match=r"does not manage it now .*: oh; .*ask again"):
        raise of(code, "oh")


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (399, "has more"),
        (400, "correct the request"),
        (499, "correct the request"),
        (500, "has more"),
        (503, "ask again"),
        (507, "larger instances.type"),
    ],
)
def test_who_can_do_something(status: int, cure: str) -> None:
    """By the container's status: who asks, or who looks after the endpoint."""
    said = of_model(status, '{"error": "no."}')
    assert f"answers {status}: no; " in said
    assert cure in said.partition("no; ")[2]


@pytest.mark.parametrize(
    "sentence",
    [
        "/opt/ml/models/3fb1/model/m/1: expected model.py in it, found nothing",
        "/opt/ml/models/my shop/m/config.pbtxt: the field `platform` is 'python'; expected another",
        "the model shop-a failed to load: there is no backend pyton here",
        "the step 1_fil of the model shop a failed to load: it needs xgboost",
        "the called model b of the model a failed to load: no",
        "the model 'a' is not loaded: tritonserver died or stood still twice",
    ],
)
def test_an_archive_that_does_not_load_is_no_fault_of_the_request(sentence: str) -> None:
    said = of_model(400, json.dumps({"error": sentence}))
    assert said.endswith(
        "; correct the archive and `put` it again, or take an image that has what it needs"
    )
    assert "correct the request" not in said


@pytest.mark.parametrize(
    "sentence",
    ["the model m failed at this request: no", "the field `/a: b`: found 3", "no model /x: y"],
)
def test_a_request_that_is_refused_is_no_fault_of_the_archive(sentence: str) -> None:
    assert of_model(400, json.dumps({"error": sentence})).endswith("; correct the request")


def test_without_words_of_the_container_it_is_the_platforms() -> None:
    """Without a log's name the log is told of all the same; words come in one line."""
    members = {"OriginalStatusCode": 500, "OriginalMessage": None}
    said = str(of("ModelError", "Received\n an error.", **members))
    assert said == "shop-a/0123.tar.gz answers 500: Received an error; its log has more"
    alone = Target("shop", None)
    error = ClientError({"Error": {"Code": "ModelError", "Message": "no"}}, "InvokeEndpoint")
    assert str(refusal_of_invocation(error, alone, "us-east-1")).startswith("shop answers None")


def test_no_key_is_told() -> None:
    """AWS's words may have the request in them."""
    words = "x AKIAIOSFODNN7EXAMPLE Signature=5d67"
    assert "5d67" not in str(of("ValidationError", words))
    assert "AKIA" not in str(of("ThrottlingException", words))
