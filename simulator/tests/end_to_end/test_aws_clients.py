"""The clients that AWS gives, as they come: boto3, the AWS command line, the SageMaker SDK."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from merlin_simulator.errors import (
    ArchiveUnavailable,
    ContainerFailed,
    InvalidRequest,
    ModelNotReady,
    NoInstance,
    PlatformFailed,
)
from merlin_simulator.instance.requests import ContainerAnswer
from simulator.tests.end_to_end.conftest import (
    AWS,
    AWS_PYTHON,
    CALL_TIMEOUT_S,
    ROOT,
    make_aws_environment,
    run_client,
)
from simulator.tests.end_to_end.runtime_server import FakeEndpoint, Served, serving

CALL = {"EndpointName": "ranker", "TargetModel": "a.tar.gz", "Body": b"{}"}
BIG = 3 * 1024 * 1024 + 1


def _client(served: Served, **config: Any) -> Any:
    session = boto3.session.Session(
        aws_access_key_id="nobody", aws_secret_access_key="nothing", region_name="us-east-1"
    )
    direct = Config(proxies={}, **config)
    return session.client("sagemaker-runtime", endpoint_url=served.url, config=direct)


@pytest.fixture
def client(served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """boto3's client for the multi-model endpoint, with boto3's own defaults."""
    for variable in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    made = _client(served)
    yield made
    made.close()


# -- boto3


def test_boto3_invokes_a_target_model(served: Served, client: Any) -> None:
    """Body, type, variant and custom attributes come back in boto3's members."""
    headers = {"content-type": "text/csv", "x-amzn-sagemaker-custom-attributes": "trace=1"}
    served.endpoint.answer = ContainerAnswer(200, b"1,2", headers)
    answer = client.invoke_endpoint(**CALL, ContentType="text/csv", CustomAttributes="c")
    assert answer["Body"].read() == b"1,2"
    members = ("ContentType", "InvokedProductionVariant", "CustomAttributes")
    assert [answer[member] for member in members] == ["text/csv", "AllTraffic", "trace=1"]
    (asked,) = served.endpoint.asked
    assert (asked.target_model, asked.body) == ("a.tar.gz", b"{}")
    assert asked.headers["X-Amzn-SageMaker-Custom-Attributes"] == "c"
    assert answer["ResponseMetadata"]["RequestId"] == asked.request_id


def test_boto3_gets_a_session_that_the_container_began(served: Served, client: Any) -> None:
    """NewSessionId and ClosedSessionId are members of boto3's answer."""
    new = "abc; Expires=2030-01-01T00:00:00Z"
    served.endpoint.answer = ContainerAnswer(200, b"", {"x-amzn-sagemaker-new-session-id": new})
    answer = client.invoke_endpoint(**CALL, SessionId="NEW_SESSION")
    assert answer["NewSessionId"] == new
    served.endpoint.answer = ContainerAnswer(
        200, b"", {"x-amzn-sagemaker-closed-session-id": "abc"}
    )
    assert client.invoke_endpoint(**CALL, SessionId="abc")["ClosedSessionId"] == "abc"


#: What the endpoint raises, boto3's class for it, the HTTP status, and how often boto3 asks.
#: [seen] boto3 1.44 repeats 500 and 503, twice, and not ModelNotReadyException: it is "standard".
ERRORS = [
    (InvalidRequest("no"), "ValidationError", 400, 1),
    (ArchiveUnavailable("bucket", "a", "It is not there."), "ValidationError", 400, 1),
    (ContainerFailed("invoke", 400, "bad"), "ModelError", 424, 1),
    (ContainerFailed("load", 507, "full"), "ModelError", 424, 1),
    (ModelNotReady("a.tar.gz", 60), "ModelNotReadyException", 429, 1),
    (NoInstance("none"), "ServiceUnavailable", 503, 3),
    (PlatformFailed("S3 is down"), "InternalFailure", 500, 3),
    (LookupError("lost"), "InternalFailure", 500, 3),
]


@pytest.mark.parametrize(("error", "name", "status", "asked"), ERRORS)
def test_boto3_raises_its_own_class_for_each_error(
    served: Served, client: Any, error: Exception, name: str, status: int, asked: int
) -> None:
    """client.exceptions has them all; the request id is there; how often it asks is boto3's."""
    served.endpoint.answer = error
    with pytest.raises(getattr(client.exceptions, name)) as raised:
        client.invoke_endpoint(**CALL)
    response = raised.value.response
    assert response["Error"]["Code"] == name
    assert response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert len(served.endpoint.asked) == asked
    assert response["ResponseMetadata"]["RequestId"] == served.endpoint.asked[-1].request_id


@pytest.mark.parametrize(
    ("mode", "error", "asked"),
    [
        ("legacy", ModelNotReady("a.tar.gz", 60), 2),
        ("standard", ModelNotReady("a.tar.gz", 60), 1),
        ("adaptive", ModelNotReady("a.tar.gz", 60), 1),
        ("legacy", ContainerFailed("invoke", 500, "bad"), 1),
    ],
)
def test_legacy_retries_repeat_what_is_not_ready(
    served: Served, mode: str, error: Exception, asked: int
) -> None:
    """The old default repeats every 429, the others do not; a ModelError is never repeated."""
    served.endpoint.answer = error
    client = _client(served, retries={"mode": mode, "total_max_attempts": 2})
    with pytest.raises(ClientError):
        client.invoke_endpoint(**CALL)
    client.close()
    assert len(served.endpoint.asked) == asked


def test_boto3_reads_a_model_errors_members(served: Served, client: Any) -> None:
    """OriginalStatusCode is a number, the message is the container's, the log has an ARN."""
    served.endpoint.answer = ContainerFailed("invoke", 400, '{"error": "no input x"}')
    with pytest.raises(client.exceptions.ModelError) as raised:
        client.invoke_endpoint(**CALL)
    response = raised.value.response
    assert response["OriginalStatusCode"] == 400
    assert response["OriginalMessage"] == '{"error": "no input x"}'
    assert response["LogStreamArn"].endswith(":log-group:/aws/sagemaker/Endpoints/ranker")
    assert 'from primary with message "{"error": "no input x"}"' in response["Message"]


def test_boto3_hears_that_a_body_is_too_large(served: Served, client: Any) -> None:
    """Its 25 MB and a byte are sent whole before it listens, and it still gets the answer."""
    with pytest.raises(client.exceptions.ValidationError, match="oversize body"):
        client.invoke_endpoint(**{**CALL, "Body": bytes(25 * 1024 * 1024 + 1)})


# -- boto3's streams; the call has no TargetModel, so the endpoint is a single-model one


def _streamed(served: Served, **parts: Any) -> tuple[dict[str, Any], list[bytes]]:
    client = _client(served)
    answer = client.invoke_endpoint_with_response_stream(EndpointName="ranker", Body=b"{}", **parts)
    body = answer["Body"]
    try:
        return answer, [event["PayloadPart"]["Bytes"] for event in body]
    finally:
        body.close()
        client.close()


def test_boto3_reads_a_stream(single: Served) -> None:
    """Its parts, the container's type, the variant."""
    single.endpoint.part_headers["x-amzn-sagemaker-custom-attributes"] = "trace=1"
    answer, parts = _streamed(single, Accept="text/event-stream")
    assert parts == [b"one", b"two"]
    members = ("ContentType", "InvokedProductionVariant", "CustomAttributes")
    assert [answer[member] for member in members] == ["text/plain", "AllTraffic", "trace=1"]
    assert single.endpoint.asked[0].headers["Accept"] == "text/event-stream"
    assert single.endpoint.closed.is_set()


def test_boto3_reads_large_and_empty_parts(single: Served) -> None:
    """A part of megabytes comes as several, an empty one as none, and no byte is lost."""
    single.endpoint.parts = [b"", bytes(range(256)) * (BIG // 256), b"", b"x"]
    _, parts = _streamed(single)
    assert b"".join(parts) == b"".join(part for part in single.endpoint.parts if part)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ContainerFailed("invoke", 0, "x"), "ModelStreamError"),
        (ContainerFailed("invoke", 500, "the container went away"), "ModelStreamError"),
        (PlatformFailed("disk full"), "InternalStreamFailure"),
    ],
)
def test_boto3_raises_what_ends_a_stream_early(single: Served, error: Exception, code: str) -> None:
    """The parts before it arrive; then EventStreamError has the modelled exception's name."""
    single.endpoint.parts = [b"one", error]
    client = _client(single)
    body = client.invoke_endpoint_with_response_stream(EndpointName="ranker", Body=b"")["Body"]
    events = iter(body)
    assert next(events) == {"PayloadPart": {"Bytes": b"one"}}
    with pytest.raises(EventStreamError) as raised:
        next(events)
    assert raised.value.response["Error"]["Code"] == code
    body.close()
    client.close()


def test_boto3_gets_a_streams_error_from_before_it_began(single: Served) -> None:
    """As an ordinary error, with its class."""
    single.endpoint.answer = ContainerFailed("invoke", 400, "bad")
    client = _client(single)
    with pytest.raises(client.exceptions.ModelError):
        client.invoke_endpoint_with_response_stream(EndpointName="ranker", Body=b"")
    client.close()


# -- the AWS command line


def _invoke(served: Served) -> tuple[str | Path, ...]:
    command = (AWS, "sagemaker-runtime", "invoke-endpoint", "--endpoint-url", served.url)
    return (*command, "--endpoint-name", "ranker", "--target-model", "a.tar.gz")


def test_the_command_line_invokes_a_target_model(
    served: Served, aws_environment: dict[str, str], tmp_path: Path
) -> None:
    """A body file goes in, an output file comes out, the members are printed."""
    sent, received = tmp_path / "request.json", tmp_path / "answer.json"
    sent.write_bytes(b'{"inputs": []}')
    body = ("--body", f"fileb://{sent}", "--content-type", "application/json")
    run = run_client(aws_environment, *_invoke(served), *body, received)
    assert received.read_bytes() == b'{"ok": true}'
    assert json.loads(run.stdout) == {
        "ContentType": "application/json",
        "InvokedProductionVariant": "AllTraffic",
    }
    assert served.endpoint.asked[0].body == b'{"inputs": []}'
    assert served.endpoint.asked[0].headers["Content-Type"] == "application/json"


def test_the_command_line_tells_a_model_error(
    served: Served, aws_environment: dict[str, str], tmp_path: Path
) -> None:
    """Its name, its operation and the container's message on standard error, and 255."""
    served.endpoint.answer = ContainerFailed("invoke", 400, "no input x")
    run = run_client(aws_environment, *_invoke(served), "--body", "{}", tmp_path / "no", code=255)
    assert "An error occurred (ModelError) when calling the InvokeEndpoint operation" in run.stderr
    assert 'Received client error (400) from primary with message "no input x"' in run.stderr


# -- the SageMaker SDK

_PREDICTOR = """
import json, sys
import boto3, numpy
from sagemaker.deserializers import BytesDeserializer, JSONDeserializer, NumpyDeserializer
from sagemaker.predictor import Predictor
from sagemaker.serializers import JSONSerializer, NumpySerializer
from sagemaker.session import Session

def ask(serializer, deserializer, data, **call):
    predictor = Predictor("ranker", session, serializer, deserializer)
    try:
        return predictor.predict(data, **call)
    except runtime.exceptions.ClientError as error:
        return [type(error).__name__, error.response]

for line in sys.stdin:
    url, call = json.loads(line)
    boto_session = boto3.Session(region_name="us-east-1")
    runtime = boto_session.client("sagemaker-runtime", endpoint_url=url)
    session = Session(boto_session=boto_session, sagemaker_runtime_client=runtime)
    print("answer:", json.dumps(eval(call), default=str), flush=True)
"""


class _Sdk:
    """A process of the SDK's own environment, whose import takes seconds; the SDK may print."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def predict(self, served: Served, call: str) -> Any:
        """What `call` (Python, with ask()) gives with sessions of its own, through JSON."""
        told, said = self._process.stdin, self._process.stdout
        assert told is not None
        assert said is not None
        print(json.dumps([served.url, call]), file=told, flush=True)
        answer = next(line for line in said if line.startswith("answer: "))
        return json.loads(answer.removeprefix("answer: "))


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Sdk]:
    with subprocess.Popen(
        [str(AWS_PYTHON), "-c", _PREDICTOR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=make_aws_environment(tmp_path_factory.mktemp("sdk")),
    ) as process:
        yield _Sdk(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(CALL_TIMEOUT_S) == 0


def test_the_sdk_predicts_with_a_target_model(served: Served, sdk: _Sdk) -> None:
    """Predictor, JSON both ways, variant and inference id named: an answer as a Python object."""
    given = sdk.predict(
        served,
        'ask(JSONSerializer(), JSONDeserializer(), {"a": [1]}, target_model="a.tar.gz",'
        ' target_variant="AllTraffic", inference_id="7", custom_attributes="trace=1")',
    )
    assert given == {"ok": True}
    (asked,) = served.endpoint.asked
    assert (asked.target_model, json.loads(asked.body)) == ("a.tar.gz", {"a": [1]})
    assert asked.headers["Content-Type"] == asked.headers["Accept"] == "application/json"
    assert asked.headers["X-Amzn-SageMaker-Inference-Id"] == "7"
    assert asked.headers["X-Amzn-SageMaker-Custom-Attributes"] == "trace=1"


def test_the_sdk_sends_numpy_and_reads_it_back(served: Served, sdk: _Sdk) -> None:
    """NumpySerializer's bytes go through as they are, in both directions."""
    served.endpoint.answer = ContainerAnswer(200, b"", {})
    sent = "numpy.arange(3)"
    sdk.predict(
        served,
        f'ask(NumpySerializer(), BytesDeserializer(), {sent}, target_model="a").hex()',
    )
    (asked,) = served.endpoint.asked
    assert asked.body.startswith(b"\x93NUMPY")
    assert asked.headers["Content-Type"] == "application/x-npy"
    served.endpoint.answer = ContainerAnswer(200, asked.body, {"content-type": "application/x-npy"})
    back = f'ask(NumpySerializer(), NumpyDeserializer(), {sent}, target_model="a").tolist()'
    assert sdk.predict(served, back) == [0, 1, 2]


def test_the_sdk_raises_boto3s_errors(served: Served, sdk: _Sdk) -> None:
    """A Predictor without a target model, and a container that fails: boto3's classes both."""
    served.endpoint.answer = ContainerFailed("invoke", 500, "it broke")
    asked = "ask(JSONSerializer(), JSONDeserializer(), {}"
    call = f"[{asked}), {asked}, target_model='a')]"
    missing, failed = sdk.predict(served, call)
    assert missing[0] == "ValidationError"
    assert "is missing a target model header" in missing[1]["Message"]
    assert failed[0] == "ModelError"
    assert failed[1]["OriginalMessage"] == "it broke"


def test_the_sdk_predicts_and_streams_on_a_single_model(sdk: _Sdk) -> None:
    """Without a target model, on an endpoint that has one model; predict_stream gives the parts."""
    streamed = 'Predictor("ranker", session, JSONSerializer()).predict_stream({})'
    call = (
        f"[ask(JSONSerializer(), JSONDeserializer(), []), [part.decode() for part in {streamed}]]"
    )
    with serving(FakeEndpoint(multi_model=False)) as single:
        assert sdk.predict(single, call) == [{"ok": True}, ["one", "two"]]


def test_the_callers_environment_is_not_this_one(aws_environment: dict[str, str]) -> None:
    """What is tested is what a user installs: .venv-aws has none of this environment's packages."""
    run = run_client(aws_environment, AWS_PYTHON, "-c", "import sys; print(sys.prefix)")
    assert Path(run.stdout.strip()) == ROOT / ".venv-aws"
    assert Path(sys.prefix) != ROOT / ".venv-aws"
