"""A runtime request as it arrives, answers in pieces, and errors as AWS writes them."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

from merlin_simulator.errors import (
    ACCOUNT,
    ArchiveUnavailable,
    ContainerFailed,
    EndpointNotFound,
    ImageUnavailable,
    InvalidRequest,
    ModelNotReady,
    NoInstance,
    PlatformFailed,
    TargetModelRefused,
)
from merlin_simulator.instance.requests import (
    ContainerAnswer,
    Invocation,
    StreamedAnswer,
    check_target_model,
)
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog

#: Where the endpoint is said to be: in texts and names only.
REGION = "us-east-1"
#: Service model: Message and OriginalMessage have at most 2048 characters.
MESSAGE_CHARACTERS = 2048

#: SageMaker's own words for a container that does not answer in time (status 0).
_TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container primary. "
    "Review the latency metrics for each container in Amazon CloudWatch, "
    "resolve the issue, and try again."
)


@dataclass(frozen=True)
class WireError:
    """An error as it is answered: HTTP status, x-amzn-errortype, members of the JSON body."""

    status: int
    name: str
    body: Mapping[str, str | int]


@dataclass(frozen=True)
class StreamError:
    """An error inside a stream that has begun: :exception-type, members of the JSON payload."""

    name: str
    body: Mapping[str, str]


@dataclass(frozen=True)
class _ErrorShape:
    status: int
    name: str
    code: str | None = None


_UNEXPECTED = _ErrorShape(500, "InternalFailure")
_MODEL_ERROR = _ErrorShape(424, "ModelError")
_UNKNOWN_OPERATION = _ErrorShape(404, "UnknownOperationException")
_TABLE: Mapping[type, _ErrorShape] = {
    InvalidRequest: _ErrorShape(400, "ValidationError"),
    TargetModelRefused: _ErrorShape(400, "ValidationError", "TARGET_MODEL_HEADER_NOT_SUPPORTED"),
    EndpointNotFound: _ErrorShape(400, "ValidationError"),
    ArchiveUnavailable: _ErrorShape(400, "ValidationError"),
    ModelNotReady: _ErrorShape(429, "ModelNotReadyException"),
    ContainerFailed: _MODEL_ERROR,
    NoInstance: _ErrorShape(503, "ServiceUnavailable"),
    # Callers of the runtime API never see it: an endpoint without its image is not in service.
    ImageUnavailable: _UNEXPECTED,
    PlatformFailed: _UNEXPECTED,
}


def wire_error(error: Exception, endpoint_name: str) -> WireError:
    """The error as AWS writes it; any other exception is an InternalFailure."""
    kind = next((_TABLE[base] for base in type(error).__mro__ if base in _TABLE), None)
    if isinstance(error, ContainerFailed):
        return WireError(_MODEL_ERROR.status, _MODEL_ERROR.name, _model_error(error, endpoint_name))
    if kind is None:
        return _answered(_UNEXPECTED, _unexpected(error))
    return _answered(kind, str(error))


def unknown_operation(method: str, path: str) -> WireError:
    """The answer to a request that is no operation of the runtime API."""
    return _answered(
        _UNKNOWN_OPERATION,
        f"{method} {path} is no operation of the runtime API: "
        "POST to /endpoints/NAME/invocations or /endpoints/NAME/invocations-response-stream.",
    )


def stream_error(error: Exception) -> StreamError:
    """The error event in a stream that fails after its beginning."""
    if not isinstance(error, ContainerFailed):
        return StreamError("InternalStreamFailure", {"Message": _cut(_unexpected(error))})
    code = "ModelInvocationTimeExceeded" if error.status == 0 else "StreamBroken"
    return StreamError("ModelStreamError", {"Message": _cut(_original(error)), "ErrorCode": code})


def _answered(kind: _ErrorShape, message: str) -> WireError:
    code = {} if kind.code is None else {"ErrorCode": kind.code}
    return WireError(kind.status, kind.name, {**code, "Message": _cut(message)})


def _model_error(error: ContainerFailed, endpoint_name: str) -> dict[str, str | int]:
    fault, code = _fault(error.status)
    original = _original(error)
    group = f"/aws/sagemaker/Endpoints/{endpoint_name}"
    before = f'Received {fault} error ({error.status}) from primary with message "'
    after = (
        f'". See https://{REGION}.console.aws.amazon.com/cloudwatch/home?region={REGION}'
        f"#logEventViewer:group={group} in account {ACCOUNT} for more information."
    )
    return {
        "ErrorCode": code,
        "LogStreamArn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}",
        "Message": before + _cut(original, len(before) + len(after)) + after,
        "OriginalMessage": _cut(original),
        "OriginalStatusCode": error.status,
    }


def _fault(status: int) -> tuple[str, str]:
    if 400 <= status < 500:
        return "client", "CLIENT_ERROR_FROM_MODEL"
    return "server", "INTERNAL_FAILURE_FROM_MODEL"


def _original(error: ContainerFailed) -> str:
    timed_out = error.status == 0 and error.doing == "invoke"
    return _TIMED_OUT if timed_out else error.original


def _unexpected(error: Exception) -> str:
    if isinstance(error, PlatformFailed):
        return str(error)
    return f"The simulator failed ({type(error).__name__}: {error}); its log says where."


def _cut(text: str, taken: int = 0) -> str:
    return text[: max(0, MESSAGE_CHARACTERS - taken)]


#: The media type of a stream.
MEDIA_TYPE = "application/vnd.amazon.eventstream"
#: Payload bytes of one PayloadPart. Decoders take 16 MiB and more (botocore: 24 MiB); a larger part
#: of the container's answer becomes several, which callers must expect anyway.
PART_BYTES = 1024 * 1024

_PRELUDE = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_STRING = 7  # the header type for text
_STRING_LENGTH = struct.Struct(">BH")


def payload_parts(data: bytes) -> Iterator[bytes]:
    """One PayloadPart event for each PART_BYTES of data, or what is left; none without data."""
    headers = {
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    }
    for start in range(0, len(data), PART_BYTES):
        yield _message(headers, data[start : start + PART_BYTES])


def exception(name: str, body: Mapping[str, str]) -> bytes:
    """The message that ends a stream which failed: one of the model's exceptions, its members."""
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return _message(headers, json.dumps(dict(body)).encode())


def _message(headers: Mapping[str, str], payload: bytes) -> bytes:
    head = b"".join(_header(name, value) for name, value in headers.items())
    around = _PRELUDE.size + 2 * _CHECKSUM.size
    prelude = _PRELUDE.pack(around + len(head) + len(payload), len(head))
    whole = b"".join((prelude, _CHECKSUM.pack(crc32(prelude)), head, payload))
    return whole + _CHECKSUM.pack(crc32(whole))


def _header(name: str, value: str) -> bytes:
    named, valued = name.encode(), value.encode()
    return bytes([len(named)]) + named + _STRING_LENGTH.pack(_STRING, len(valued)) + valued


#: What a container is told by a caller who names no type (aws/sagemaker-containers#142).
_ANY_TYPE = "*/*"
#: Of a refused value, so much is shown.
_SHOWN_CHARACTERS = 80

_TARGET_MODEL = "x-amzn-sagemaker-target-model"
_PASSED_TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"


class InvocableEndpoint(Protocol):
    """An endpoint to invoke. Both ways raise errors of errors.py, and log them themselves."""

    endpoint_name: str
    log: EventLog

    @property
    def multi_model(self) -> bool:
        """Whether requests name a target model."""
        ...

    @property
    def rules(self) -> Rules:
        """The platform's rules, bounds of requests among them."""
        ...

    @property
    def variant_names(self) -> Collection[str]:
        """Of its production variants."""
        ...

    async def invoke(self, invocation: Invocation) -> ContainerAnswer:
        """The whole answer."""
        ...

    async def invoke_stream(self, invocation: Invocation) -> StreamedAnswer:
        """The answer as it comes."""
        ...


@dataclass(frozen=True)
class Field:
    """One header: its member in the service model, its form, its name towards the container."""

    member: str
    pattern: str
    expected: str
    passed_as: str | None = None


# Pattern, and its form in words.
_ASCII = (r"[\t -~]{0,1024}", "at most 1024 ASCII characters")
_PRINTABLE = (r"[!-~][ -~]{0,63}", "1 to 64 printable ASCII characters")
_TEXT = (r"[ -~]*", "printable ASCII characters")
_NAME = (r"(?=.{1,63}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*", "1 to 63 letters, digits and hyphens")
_SESSION = (r"(?=.{1,256}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*", "1 to 256 letters, digits and hyphens")
_NEW_SESSION = (f"NEW_SESSION|{_SESSION[0]}", f"NEW_SESSION, or {_SESSION[1]}")
_EXPRESSION = (r"[ -~]{1,64}", "1 to 64 ASCII characters")

_BOTH: Mapping[str, Field] = {
    "content-type": Field("ContentType", *_ASCII, "Content-Type"),
    "x-amzn-sagemaker-custom-attributes": Field(
        "CustomAttributes", *_ASCII, "X-Amzn-SageMaker-Custom-Attributes"
    ),
    # boto3's stream call has no TargetModel, but curl can send it.
    # Its length is check_target_model's.
    _TARGET_MODEL: Field("TargetModel", *_TEXT, _PASSED_TARGET_MODEL),
    "x-amzn-sagemaker-target-variant": Field("TargetVariant", *_NAME),
    "x-amzn-sagemaker-target-container-hostname": Field("TargetContainerHostname", *_NAME),
    "x-amzn-sagemaker-inference-id": Field(
        "InferenceId", *_PRINTABLE, "X-Amzn-SageMaker-Inference-Id"
    ),
    "x-amzn-sagemaker-inference-component": Field("InferenceComponentName", *_NAME),
    # A hint for routing that only endpoints with PREFIX_AWARE heed.
    "x-amzn-sagemaker-prefix-aware-id": Field("PrefixAwareId", *_PRINTABLE),
}
#: InvokeEndpoint's headers, by lower-case name.
WHOLE_FIELDS: Mapping[str, Field] = {
    **_BOTH,
    "accept": Field("Accept", *_ASCII, "Accept"),
    "x-amzn-sagemaker-enable-explanations": Field("EnableExplanations", *_EXPRESSION),
    "x-amzn-sagemaker-session-id": Field("SessionId", *_NEW_SESSION, "X-Amzn-SageMaker-Session-Id"),
}
#: InvokeEndpointWithResponseStream's: its Accept has another name, and it begins no session.
STREAM_FIELDS: Mapping[str, Field] = {
    **_BOTH,
    "x-amzn-sagemaker-accept": Field("Accept", *_ASCII, "Accept"),
    "x-amzn-sagemaker-session-id": Field("SessionId", *_SESSION, "X-Amzn-SageMaker-Session-Id"),
}


def accept(
    fields: Mapping[str, Field],
    headers: Iterable[tuple[str, str]],
    endpoint: InvocableEndpoint,
    request_id: str,
) -> Invocation:
    """Check a request's headers (lower-case names, repeated ones too); its body comes later.

    Raises InvalidRequest for the first of them that SageMaker would not take.
    """
    members: dict[str, str] = {}
    passed = {"Accept": _ANY_TYPE}
    for name, value in headers:
        field = fields.get(name)
        if field is not None:
            _check_form(field, value, members)
            members[field.member] = value
            passed |= {} if field.passed_as is None else {field.passed_as: value}
    _check_routing(members, endpoint)
    target_model = _target_model(members.get("TargetModel"), endpoint, request_id)
    if target_model is not None:
        # As it is loaded and told of: without the slash that a caller may begin it with.
        passed[_PASSED_TARGET_MODEL] = target_model
    return Invocation(request_id, target_model, b"", passed, members.get("TargetVariant"))


def named_target_model(headers: Mapping[str, str]) -> str | None:
    """The target model that a request names, right or wrong: for the message of a refusal."""
    named = headers.get(_TARGET_MODEL)
    return None if named is None else named[: Rules.target_model_characters]


def _check_form(field: Field, value: str, members: Mapping[str, str]) -> None:
    if field.member in members:
        raise InvalidRequest(f"{field.member} is given twice: send its header once.")
    if not re.fullmatch(field.pattern, value):
        raise InvalidRequest(
            f"{field.member} is {value[:_SHOWN_CHARACTERS]!r} ({len(value)} characters): "
            f"expected {field.expected}."
        )


def _check_routing(members: Mapping[str, str], endpoint: InvocableEndpoint) -> None:
    """The members that choose among what a multi-model endpoint does not have."""
    name, variants = endpoint.endpoint_name, endpoint.variant_names
    variant = members.get("TargetVariant")
    if variant is not None and variant not in variants:
        there_are = f"it has {', '.join(sorted(variants))}"
        if len(variants) == 1:
            there_are = f"its only one is {min(variants)}"
        raise InvalidRequest(f"Variant {variant} does not exist on endpoint {name}: {there_are}.")
    for member, lacking in _LACKING.items():
        if member in members:
            raise InvalidRequest(f"Endpoint {name} {lacking}: leave {member} out.")


_LACKING: Mapping[str, str] = {
    "TargetContainerHostname": "is not configured for direct invocation of its containers",
    "InferenceComponentName": "has no inference components",
    "EnableExplanations": "has no explainer (ClarifyExplainerConfig)",
}


def _target_model(named: str | None, endpoint: InvocableEndpoint, request_id: str) -> str | None:
    if not endpoint.multi_model:
        if named is None:
            return None
        # The wording is SageMaker's (aws/amazon-sagemaker-examples#1026).
        raise TargetModelRefused(
            f"Endpoint {endpoint.endpoint_name} is not a multi-model endpoint "
            "and does not support target model header."
        )
    if named is None:
        # It begins as SageMaker's (aws/sagemaker-tensorflow-serving-container#166).
        raise InvalidRequest(
            f"Request {request_id} is missing a target model header: "
            f"endpoint {endpoint.endpoint_name} has many models, so name an archive in TargetModel."
        )
    return check_target_model(named, endpoint.rules)
