"""The runtime API's own checks and manners, asked with plain HTTP and with what is none."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.types import Message

from merlin_simulator.api.runtime_api import make_runtime_routes
from merlin_simulator.errors import ContainerFailed
from merlin_simulator.instance.requests import ContainerAnswer
from merlin_simulator.rules import Rules
from simulator.tests.end_to_end.runtime_server import WAIT_S, FakeEndpoint, Served, serving

PATH = "/endpoints/ranker/invocations"
STREAM_PATH = "/endpoints/ranker/invocations-response-stream"
TARGET = {"X-Amzn-SageMaker-Target-Model": "a.tar.gz"}
SMALL = Rules(payload_bytes=1000)


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """One API for what is only asked."""
    with serving(FakeEndpoint()) as running:
        yield running


def _post(
    served: Served,
    body: bytes | Iterator[bytes] = b"",
    headers: Mapping[Any, Any] = TARGET,
    path: str = PATH,
) -> httpx.Response:
    """A request that reads no proxy from this machine's environment."""
    return httpx.post(
        served.url + path, content=body, headers=headers, trust_env=False, timeout=WAIT_S
    )


def _refused(response: httpx.Response, name: str = "ValidationError") -> str:
    """The Message of a well-formed error of that name."""
    body = response.json()
    assert response.headers["x-amzn-errortype"] == name, response.text
    assert response.headers["content-type"] == "application/json"
    UUID(response.headers["x-amzn-requestid"])
    return str(body["Message"])


def _raw(served: Served, request: bytes) -> bytes:
    """Send bytes, and read the first answer's bytes up to the end of its body or connection."""
    with served.connect() as connection:
        connection.sendall(request)
        return _read_response(connection)


def _read_response(connection: socket.socket) -> bytes:
    received = b""
    while not _whole(received):
        more = connection.recv(65536)
        if not more:
            break
        received += more
    return received


def _whole(received: bytes) -> bool:
    head, separator, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return bool(separator) and length is not None and len(body) >= int(length[1])


def _written(*headers: bytes, path: str = PATH, body: bytes = b"") -> bytes:
    lines = [f"POST {path} HTTP/1.1".encode(), b"Host: x", *headers, b"", b""]
    return b"\r\n".join(lines) + body


# -- what reaches the endpoint, and what comes back


def test_an_answer_comes_back_with_its_type_and_the_variant(served: Served) -> None:
    """Body and type are the container's; variant and request id are the platform's."""
    response = _post(served, b"{}")
    assert (response.status_code, response.content) == (200, b'{"ok": true}')
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-amzn-invoked-production-variant"] == "AllTraffic"
    assert response.headers["x-amzn-requestid"] == served.endpoint.asked[0].request_id


def test_the_container_gets_the_apis_headers_and_no_others(served: Served) -> None:
    """Everything that SageMaker strips is stripped, by the names that containers know."""
    headers = {
        **TARGET,
        "content-type": "text/csv",
        "x-amzn-sagemaker-custom-attributes": "trace=1, accept_eula=true",
        "X-Amzn-SageMaker-Inference-Id": "event 7",
        "X-Amzn-SageMaker-Session-Id": "NEW_SESSION",
        "X-Amzn-SageMaker-Target-Variant": "AllTraffic",
        "X-Amzn-SageMaker-Prefix-Aware-Id": "app",
        "Authorization": "AWS4-HMAC-SHA256 nonsense",
        "X-Forwarded-For": "10.0.0.1",
        "Content-Encoding": "gzip",
        "Cookie": "a=b",
    }
    _post(served, b"1,2", headers)
    (invocation,) = served.endpoint.asked
    assert dict(invocation.headers) == {
        "Accept": "*/*",
        "Content-Type": "text/csv",
        "X-Amzn-SageMaker-Custom-Attributes": "trace=1, accept_eula=true",
        "X-Amzn-SageMaker-Inference-Id": "event 7",
        "X-Amzn-SageMaker-Session-Id": "NEW_SESSION",
        "X-Amzn-SageMaker-Target-Model": "a.tar.gz",
    }
    assert (invocation.target_model, invocation.body) == ("a.tar.gz", b"1,2")


def test_who_names_no_types_gets_what_the_container_gives(served: Served) -> None:
    """Without Accept the container is asked for anything; no Content-Type is made up."""
    _raw(served, _written(b"X-Amzn-SageMaker-Target-Model: a.tar.gz", b"Content-Length: 0"))
    assert dict(served.endpoint.asked[0].headers) == {
        "Accept": "*/*",
        "X-Amzn-SageMaker-Target-Model": "a.tar.gz",
    }


def test_only_the_apis_headers_come_back(served: Served) -> None:
    """Sessions and custom attributes do; what else a container answers does not."""
    answered = {
        "content-type": "text/csv",
        "x-amzn-sagemaker-custom-attributes": "done",
        "x-amzn-sagemaker-new-session-id": "abc; Expires=2030-01-01T00:00:00Z",
        "x-amzn-sagemaker-closed-session-id": "abd",
        "server": "triton",
        "set-cookie": "a=b",
    }
    served.endpoint.answer = ContainerAnswer(202, b"1", answered)
    response = _post(served)
    assert response.status_code == 200
    kept = {name: value for name, value in response.headers.items() if name in answered}
    assert kept == {name: answered[name] for name in list(answered)[:4]}


def test_a_containers_odd_headers_do_not_break_the_answer(served: Served) -> None:
    """Characters that no header may hold are replaced, and the body still comes."""
    served.endpoint.answer = ContainerAnswer(
        200, b"1", {"content-type": "text/ж", "x-amzn-sagemaker-custom-attributes": "a\x01b\x7f"}
    )
    response = _post(served)
    assert (response.status_code, response.content) == (200, b"1")
    assert response.headers["content-type"] == "text/?"
    assert response.headers["x-amzn-sagemaker-custom-attributes"] == "a?b?"


def test_a_single_model_endpoint_needs_no_target(single: Served) -> None:
    """Its invocations have no target model."""
    assert _post(single, b"1", {}).status_code == 200
    assert single.endpoint.asked[0].target_model is None


# -- what is refused


def test_another_endpoints_name_is_not_found(shared: Served) -> None:
    """SageMaker's words for it, with both names."""
    response = _post(shared, path="/endpoints/other/invocations")
    message = _refused(response)
    assert message.startswith("Endpoint other of account 123456789012 not found")
    assert "ranker" in message


def test_a_multi_model_endpoint_needs_a_target(shared: Served) -> None:
    """The missing header is named."""
    message = _refused(_post(shared, headers={}))
    assert re.match(r"Request [0-9a-f-]{36} is missing a target model header", message)


def test_a_single_model_endpoint_refuses_a_target(single: Served) -> None:
    """With the error code that SDKs look at."""
    response = _post(single)
    assert "is not a multi-model endpoint" in _refused(response)
    assert response.json()["ErrorCode"] == "TARGET_MODEL_HEADER_NOT_SUPPORTED"


@pytest.mark.parametrize(
    "target",
    [
        b"../x",
        b"a/../../x",
        b"/../x",
        b"..",
        b"",
        b"a" * 1025,
        b"a\tb",
        "é.tar.gz".encode(),
        b"a\\b",
        b"a//b",
    ],
)
def test_a_bad_target_model_is_a_validation_error(shared: Served, target: bytes) -> None:
    """What would leave the prefix, and what the API does not take, is refused as it comes."""
    request = _written(b"X-Amzn-SageMaker-Target-Model: " + target, b"Content-Length: 0")
    answer = _raw(shared, request)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"x-amzn-errortype: ValidationError" in answer
    assert b"TargetModel" in answer


def test_a_target_model_of_1024_characters_is_taken(served: Served) -> None:
    """The limit itself is good."""
    target = {"X-Amzn-SageMaker-Target-Model": "a" * 1024}
    assert _post(served, headers=target).status_code == 200


@pytest.mark.parametrize(
    ("header", "value", "member"),
    [
        ("X-Amzn-SageMaker-Target-Variant", "Blue", "Variant Blue"),
        ("X-Amzn-SageMaker-Target-Variant", "", "TargetVariant"),
        ("X-Amzn-SageMaker-Target-Container-Hostname", "second", "TargetContainerHostname"),
        ("X-Amzn-SageMaker-Inference-Component", "part", "InferenceComponentName"),
        ("X-Amzn-SageMaker-Enable-Explanations", "`true`", "EnableExplanations"),
        ("X-Amzn-SageMaker-Session-Id", "a_b", "SessionId"),
        ("X-Amzn-SageMaker-Session-Id", "a" * 257, "SessionId"),
        ("X-Amzn-SageMaker-Inference-Id", "", "InferenceId"),
        ("X-Amzn-SageMaker-Inference-Id", "a" * 65, "InferenceId"),
        ("X-Amzn-SageMaker-Custom-Attributes", "a" * 1025, "CustomAttributes"),
        ("X-Amzn-SageMaker-Custom-Attributes", "é", "CustomAttributes"),
        ("Content-Type", "a" * 1025, "ContentType"),
        ("Accept", "a" * 1025, "Accept"),
        ("Accept", "a" * 200_000, "Accept"),
    ],
)
def test_a_member_that_the_api_does_not_take_is_named(
    shared: Served, header: str, value: str, member: str
) -> None:
    """Over-long, malformed or of another kind of endpoint: refused, and the member named."""
    headers = {name.encode(): text.encode() for name, text in {**TARGET, header: value}.items()}
    response = _post(shared, headers=headers)
    message = _refused(response)
    assert member in message
    assert len(message) < 400


def test_a_repeated_header_is_refused(shared: Served) -> None:
    """Of two target models none is right."""
    twice = [b"X-Amzn-SageMaker-Target-Model: a", b"X-Amzn-SageMaker-Target-Model: b"]
    assert b"TargetModel is given twice" in _raw(shared, _written(*twice, b"Content-Length: 0"))


def test_a_stream_begins_no_session_and_has_its_own_accept(served: Served) -> None:
    """X-Amzn-SageMaker-Accept is what counts, and NEW_SESSION is refused."""
    new = {"X-Amzn-SageMaker-Session-Id": "NEW_SESSION"}
    assert "SessionId" in _refused(_post(served, headers={**TARGET, **new}, path=STREAM_PATH))
    accepts = {"Accept": "text/html", "X-Amzn-SageMaker-Accept": "a/b"}
    _post(served, headers={**TARGET, **accepts}, path=STREAM_PATH)
    assert served.endpoint.asked[0].headers["Accept"] == "a/b"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", PATH),
        ("PUT", PATH),
        ("DELETE", PATH),
        ("OPTIONS", PATH),
        ("POST", "/endpoints"),
        ("POST", "/endpoints/"),
        ("POST", "/endpoints/ranker"),
        ("POST", PATH + "/"),
        ("POST", "/endpoints/ranker/async-invocations"),
        ("POST", "/endpoints/a%2Fb/invocations"),
    ],
)
def test_what_is_no_operation_is_unknown(shared: Served, method: str, path: str) -> None:
    """404 UnknownOperationException for every other method and path below /endpoints."""
    response = httpx.request(method, shared.url + path, trust_env=False, timeout=WAIT_S)
    assert response.status_code == 404
    _refused(response, "UnknownOperationException")


def test_head_is_answered_without_a_body(shared: Served) -> None:
    """As HTTP wants it, on the operations' paths too."""
    response = httpx.head(shared.url + PATH, trust_env=False, timeout=WAIT_S)
    assert (response.status_code, response.content) == (404, b"")
    assert response.headers["x-amzn-errortype"] == "UnknownOperationException"


def test_a_refused_request_is_told(served: Served) -> None:
    """One event, without an instance, with what the caller got; the endpoint was not asked."""
    response = _post(served, headers={"X-Amzn-SageMaker-Target-Model": "../x"})
    (event,) = served.refusals()
    told = dict(event.fields)
    assert event.instance is None
    assert 0 <= float(str(told.pop("seconds"))) < WAIT_S
    assert told == {
        "target_model": "../x",
        "status": 400,
        "cold": False,
        "error": "ValidationError",
        "message": response.json()["Message"],
        "request_id": response.headers["x-amzn-requestid"],
    }
    assert served.endpoint.asked == []


def test_an_error_of_the_endpoint_is_left_to_it_to_tell(served: Served) -> None:
    """What the endpoint raised, it told; nothing is told twice."""
    served.endpoint.answer = ContainerFailed("invoke", 500, "bad")
    _refused(_post(served), "ModelError")
    assert served.refusals() == []


def test_a_failure_of_our_own_is_answered_and_logged(served: Served) -> None:
    """Any exception is an InternalFailure on the wire, and the log has where it came from."""
    served.endpoint.answer = LookupError("lost")
    response = _post(served)
    assert response.status_code == 500
    assert "LookupError: lost" in _refused(response, "InternalFailure")
    (record,) = served.logged
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


# -- the body


def test_a_body_of_25_mb_is_taken_and_one_byte_more_is_not(served: Served) -> None:
    """The limit is 25 MiB, the last byte of it included."""
    limit = 25 * 1024 * 1024
    assert _post(served, bytes(limit)).status_code == 200
    assert len(served.endpoint.asked[0].body) == limit
    refused = _post(served, bytes(limit + 1))
    assert refused.status_code == 400
    assert f"has oversize body: at most {limit} bytes" in _refused(refused)
    assert len(served.endpoint.asked) == 1


def test_chunked_bodies_are_counted_as_they_come() -> None:
    """Without a Content-Length the same limit holds, to the byte."""
    with serving(FakeEndpoint(), SMALL) as small:
        good = _post(small, iter([b"a" * 999, b"b"]))
        assert good.status_code == 200
        bad = _post(small, iter([b"a" * 999, b"bc"]))
        assert "oversize" in _refused(bad)
        assert [len(asked.body) for asked in small.endpoint.asked] == [1000]


def test_an_endless_body_is_refused_while_it_comes() -> None:
    """The answer does not wait for a body's end, and what still comes is not kept."""
    with serving(FakeEndpoint(), SMALL) as small, small.connect() as connection:
        connection.sendall(
            _written(b"X-Amzn-SageMaker-Target-Model: a", b"Transfer-Encoding: chunked")
        )
        connection.sendall(b"800\r\n" + b"a" * 0x800 + b"\r\n")
        assert b"oversize" in _read_response(connection)
        for _ in range(100):  # nothing ends it but the caller
            connection.sendall(b"10000\r\n" + b"a" * 0x10000 + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        connection.sendall(_written(b"X-Amzn-SageMaker-Target-Model: a", b"Content-Length: 0"))
        assert b"200 OK" in _read_response(connection)


def test_an_announced_size_is_refused_before_it_is_sent() -> None:
    """Content-Length is enough: no byte of the body is needed, nor is it asked for by a 100."""
    with serving(FakeEndpoint(), SMALL) as small:
        head = _written(
            b"X-Amzn-SageMaker-Target-Model: a", b"Content-Length: 1001", b"Expect: 100-continue"
        )
        answer = _raw(small, head)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"oversize" in answer


def test_an_empty_body_is_the_containers_matter(served: Served) -> None:
    """The API passes it on; whether it means something is for the model to say."""
    assert _post(served).status_code == 200
    assert served.endpoint.asked[0].body == b""


def test_a_body_that_does_not_arrive_is_a_validation_error() -> None:
    """A caller who stops sending gets an answer when an invocation's time is over."""
    with serving(FakeEndpoint(), Rules(invoke_timeout_s=0.2)) as hasty:
        request = _written(b"X-Amzn-SageMaker-Target-Model: a", b"Content-Length: 9", body=b"abc")
        answer = _raw(hasty, request)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"did not arrive within 0.2 s" in answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        _written(
            b"X-Amzn-SageMaker-Target-Model: a", b"Transfer-Encoding: chunked", body=b"zz\r\n"
        ),
        _written(b"X-Amzn-SageMaker-Target-Model: a\x01b", b"Content-Length: 0"),
        _written(b"X-Amzn-SageMaker-Target-Model: a\x00b", b"Content-Length: 0"),
        _written(b"Content-Length: minus"),
        _written(b"Content-Length: 1", b"Content-Length: 2"),
        _written(b"Content-Length: 99999999999999999999999999"),
        b"no HTTP at all\r\n\r\n",
        b"POST /endpoints/\xff/invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["chunk", "control", "nul", "length", "lengths", "huge", "noise", "path"],
)
def test_what_is_no_http_is_a_400_and_nothing_is_invoked(
    served: Served, request_bytes: bytes
) -> None:
    """It ends at the HTTP parser, whose 400 has no AWS error; the next request is served."""
    assert _raw(served, request_bytes).startswith(b"HTTP/1.1 400 ")
    assert served.endpoint.asked == []
    assert [record.exc_info for record in served.logged if record.exc_info] == []
    target = _written(b"X-Amzn-SageMaker-Target-Model: a", b"Content-Length: 0")
    assert b"200 OK" in _raw(served, target)


def test_without_a_length_there_is_no_body(served: Served) -> None:
    """HTTP: neither Content-Length nor chunks is an empty body, and no waiting for more."""
    assert b"200 OK" in _raw(served, _written(b"X-Amzn-SageMaker-Target-Model: a"))
    assert served.endpoint.asked[0].body == b""


# -- callers who go away


def test_a_caller_who_leaves_while_sending_invokes_nothing(served: Served) -> None:
    """Half a body is no invocation, and no error of ours either."""
    with served.connect() as connection:
        connection.sendall(
            _written(b"X-Amzn-SageMaker-Target-Model: a", b"Content-Length: 100", body=b"half")
        )
    assert b"200 OK" in _raw(served, _written(b"X-Amzn-SageMaker-Target-Model: a"))
    assert [asked.body for asked in served.endpoint.asked] == [b""]
    assert served.logged == []


def test_a_caller_who_leaves_while_waiting_does_not_stop_the_invocation(served: Served) -> None:
    """As on SageMaker, the container's work goes on to its end."""
    served.endpoint.held = True
    with served.connect() as connection:
        connection.sendall(_written(b"X-Amzn-SageMaker-Target-Model: a"))
        assert served.endpoint.began.wait(WAIT_S)
    served.endpoint.let_go.set()
    assert served.endpoint.finished.wait(WAIT_S)


def test_a_caller_who_leaves_a_stream_closes_it(served: Served) -> None:
    """The container is not left generating for nobody."""
    served.endpoint.held = True
    with served.connect() as connection:
        connection.sendall(_written(b"X-Amzn-SageMaker-Target-Model: a", path=STREAM_PATH))
        assert served.endpoint.began.wait(WAIT_S)
        assert not served.endpoint.closed.is_set()
    assert served.endpoint.closed.wait(WAIT_S)
    assert served.logged == []


async def test_a_caller_who_leaves_without_reading_closes_the_stream() -> None:
    """Also when it is the sending that waits, for a slow reader, and not the container."""
    endpoint, full = FakeEndpoint(multi_model=False), asyncio.Event()
    app = Starlette(routes=[*make_runtime_routes(endpoint)])

    async def receive() -> Message:
        if endpoint.asked:
            await full.wait()
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message.get("body"):
            full.set()
            await asyncio.Event().wait()

    scope = {"type": "http", "method": "POST", "path": STREAM_PATH, "headers": []}
    await asyncio.wait_for(app(scope, receive, send), WAIT_S)
    assert endpoint.closed.is_set()


def test_a_streams_parts_arrive_before_its_end(served: Served) -> None:
    """Each part is sent when it comes, not when all are there."""
    served.endpoint.held = True
    with served.connect() as connection:
        connection.sendall(_written(b"X-Amzn-SageMaker-Target-Model: a", path=STREAM_PATH))
        received = b""
        while b"two" not in received:
            received += connection.recv(65536)
        assert not served.endpoint.closed.is_set()


# -- anything

_VALUES = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=80
).map(lambda text: text.encode("latin-1").strip())
_HEADERS = st.sampled_from(
    [
        "Accept",
        "Authorization",
        "Content-Encoding",
        "Content-Type",
        "Expect",
        "Range",
        "Upgrade",
        "X-Amz-Date",
        "X-Amzn-SageMaker-Accept",
        "X-Amzn-SageMaker-Custom-Attributes",
        "X-Amzn-SageMaker-Enable-Explanations",
        "X-Amzn-SageMaker-Inference-Component",
        "X-Amzn-SageMaker-Inference-Id",
        "X-Amzn-SageMaker-Prefix-Aware-Id",
        "X-Amzn-SageMaker-Session-Id",
        "X-Amzn-SageMaker-Target-Container-Hostname",
        "X-Amzn-SageMaker-Target-Model",
        "X-Amzn-SageMaker-Target-Variant",
    ]
)
_PATHS = st.one_of(
    st.just(PATH),
    st.just(STREAM_PATH),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="?#")).map(
        lambda text: f"/endpoints/{text}"
    ),
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["POST", "POST", "POST", "GET", "HEAD", "PATCH"]),
    _PATHS,
    st.lists(st.tuples(_HEADERS, _VALUES), max_size=6),
    st.binary(max_size=50),
    st.booleans(),
)
def test_any_request_is_answered_by_the_fake_or_by_a_well_formed_error(
    shared: Served,
    method: str,
    path: str,
    headers: list[tuple[str, bytes]],
    body: bytes,
    targeted: bool,
) -> None:
    """Whatever headers and path: the fake's answer or an AWS error, never a failure of ours."""
    lines = [f"{name}: ".encode() + value for name, value in headers]
    lines += [b"X-Amzn-SageMaker-Target-Model: a"] * targeted
    lines += [b"Content-Length: %d" % len(body), b"Connection: close"]
    request = _written(*lines, path=path, body=body).replace(b"POST", method.encode(), 1)
    before = len(shared.logged)
    with shared.connect() as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert shared.logged[before:] == []
    _assert_well_formed(answer.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"", 1), method)


def _assert_well_formed(answer: bytes, method: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    UUID(headers[b"x-amzn-requestid"].decode())
    if status == 200:
        assert body == b'{"ok": true}' or b"PayloadPart" in body
    else:
        name = headers[b"x-amzn-errortype"]
        assert (status, name) in {(400, b"validationerror"), (404, b"unknownoperationexception")}
        assert method == "HEAD" or set(json.loads(body)) <= {"Message", "ErrorCode"}
