"""A request's Content-Type, found out of its bytes; answers as text; errors in sentences."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from merlin_deploy.errors import (
    CallRefused,
    DeployError,
    MissingRight,
    NoAnswer,
    Refused,
    Unreachable,
)
from merlin_deploy.invoke import (
    BINARY_TYPE,
    JSON_TYPE,
    Target,
    find_header_size,
    make_body,
    percentile,
    refusal_of_invocation,
    write_answer,
    write_times,
)

ASKED = Target("shop", "shop-a/0123.tar.gz")
LOG = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/Endpoints/shop"


def of(code: str, message: str = "", **members: Any) -> DeployError:
    """What becomes of an answer with this code."""
    response = {"Error": {"Code": code, "Message": message}, **members}
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
    ("code", "message", "told"),
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
def test_errors_say_what_to_do(code: str, message: str, told: str) -> None:
    """AWS's words stand in each; the code is kept."""
    error = of(code, message)
    assert isinstance(error, CallRefused)
    assert error.code == code
    assert message.rstrip(".") in str(error)
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
        (429, "raise SERVE_RATE_LIMIT"),
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
    message = "x AKIAIOSFODNN7EXAMPLE Signature=5d67"
    assert "5d67" not in str(of("ValidationError", message))
    assert "AKIA" not in str(of("ThrottlingException", message))


DATA = b"\x20\x00}\xff"


def head(size: int = len(DATA), name: str = "a") -> bytes:
    """Of a body with one binary tensor."""
    parameters = {"binary_data_size": size}
    tensor = {"name": name, "datatype": "INT32", "shape": [1], "parameters": parameters}
    return json.dumps({"inputs": [tensor]}, ensure_ascii=False).encode()


@pytest.mark.parametrize("content", [b'{"inputs": []}', b'\n {"text": "a"}\n\n'])
def test_json_is_json(content: bytes) -> None:
    """Also with blanks around it; it is sent as it is."""
    body = make_body(content, "it", None, None)
    assert (body.content, body.content_type) == (content, JSON_TYPE)


@pytest.mark.parametrize("name", ["a", "größe }\\"])
@pytest.mark.parametrize("blanks", [b"", b"  \n"])
def test_tensors_begin_where_their_sizes_say(name: str, blanks: bytes) -> None:
    """A tensor's first byte may be a blank, the JSON may have blanks behind it, in any letters."""
    first = head(name=name) + blanks
    body = make_body(first + DATA, "it", None, None)
    assert body.content_type == f"{BINARY_TYPE};json-header-size={len(first)}"


def test_what_was_asked_for_is_taken() -> None:
    """A type is not looked into, unless it is the binary one without a size; a size is a size."""
    assert make_body(b"x", "it", "text/csv", None).content_type == "text/csv"
    sized = f"{BINARY_TYPE};json-header-size=3"
    assert make_body(b"xyz", "it", sized, None).content_type == sized
    assert find_header_size(make_body(head() + DATA, "it", BINARY_TYPE, None).content_type) == len(
        head()
    )
    assert find_header_size(make_body(b"{}123", "it", None, 2).content_type) == 2


@pytest.mark.parametrize(
    ("content", "size", "message"),
    [
        (b"", None, "begins with no JSON object"),
        (b"user,item", None, "begins with no JSON object"),
        (b"[1]", None, "begins with no JSON object"),
        (b"[" * 100_000, None, "begins with no JSON object"),
        (head() + DATA[:-1], None, "found 3 bytes behind the JSON, expected 4"),
        (head() + b"\x01" + DATA, None, "found 5 bytes behind the JSON, expected 4"),
        (b'{"inputs": [1, {"parameters": 1}]}x', None, "found 1 bytes behind the JSON, expected 0"),
        (b"{}", 3, "found 2 bytes, expected --header-size to be one of them"),
    ],
)
def test_what_nobody_could_read(content: bytes, size: int | None, message: str) -> None:
    """It is refused before it is sent, with the file's name."""
    with pytest.raises(Refused, match=f"^request.bin.*{re.escape(message)}"):
        make_body(content, "request.bin", None, size)


@pytest.mark.parametrize(
    ("content_type", "size"),
    [
        (f"{BINARY_TYPE};json-header-size=12", 12),
        (f'{BINARY_TYPE}; JSON-Header-Size = "12"', 12),
        (f"{BINARY_TYPE};json-header-size=x", None),
        (JSON_TYPE, None),
        ("", None),
    ],
)
def test_size_of_an_answers_json(content_type: str, size: int | None) -> None:
    """As its Content-Type has it."""
    assert find_header_size(content_type) == size


HEAD = b'{"outputs":[{"name":"click","datatype":"FP32","shape":[5,1]}]}'


def test_json_is_printed_as_it_is_or_indented() -> None:
    """--pretty changes no value; what is no JSON is as it was."""
    assert write_answer(b'{"a":1.50}', "application/json", pretty=False) == '{"a":1.50}'
    assert write_answer(b'{"a":[1]}', "application/json", pretty=True).splitlines()[1] == '  "a": ['
    assert write_answer(b"data: 1", "text/event-stream", pretty=True) == "data: 1"


def test_tensors_are_told_by_name_type_and_shape() -> None:
    """Their numbers go to a file."""
    kind = f"{BINARY_TYPE};json-header-size={len(HEAD)}"
    first, second = write_answer(HEAD + bytes(20), kind, pretty=False).splitlines()
    assert first == "click  FP32 [5, 1]"
    assert second.startswith("20 bytes of tensors")


def test_what_is_no_text_is_told_by_its_size() -> None:
    """Bytes would spoil the terminal; an answer of no known form is no error."""
    told = write_answer(b"\xff\x00", "image/png", pretty=True)
    assert told == "2 bytes of image/png; --output FILE keeps them"
    strange = write_answer(b"[]", f"{BINARY_TYPE};json-header-size=2", pretty=False)
    assert "no outputs" in strange


def test_percentiles_are_answers_times() -> None:
    """Nearest rank: each is one that was measured."""
    seconds = [number / 1000 for number in range(1, 101)]
    assert percentile(seconds, 0.5) == 0.05
    assert percentile(seconds, 0.99) == 0.099
    assert percentile([0.1], 0.99) == 0.1
    assert write_times([0.1]) == "100 ms"
    assert write_times([2.0, 0.1, 0.1]) == "3 answers: p50 100 ms, p99 2 s; the first 2 s"
