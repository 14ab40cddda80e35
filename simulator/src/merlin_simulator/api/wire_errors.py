"""What each error looks like on the wire of the SageMaker runtime API. No I/O.

The shapes are those of the service model that boto3 carries (sagemaker-runtime, 2017-05-13). The
table is the only place with HTTP numbers; the class nearest to an error's own decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
class _Kind:
    status: int
    name: str
    code: str | None = None


_UNEXPECTED = _Kind(500, "InternalFailure")
_MODEL_ERROR = _Kind(424, "ModelError")
_UNKNOWN_OPERATION = _Kind(404, "UnknownOperationException")
_TABLE: Mapping[type, _Kind] = {
    InvalidRequest: _Kind(400, "ValidationError"),
    TargetModelRefused: _Kind(400, "ValidationError", "TARGET_MODEL_HEADER_NOT_SUPPORTED"),
    EndpointNotFound: _Kind(400, "ValidationError"),
    ArchiveUnavailable: _Kind(400, "ValidationError"),
    ModelNotReady: _Kind(429, "ModelNotReadyException"),
    ContainerFailed: _MODEL_ERROR,
    NoInstance: _Kind(503, "ServiceUnavailable"),
    # Callers of the runtime API never see it: an endpoint without its image is not in service.
    ImageUnavailable: _UNEXPECTED,
    PlatformFailed: _UNEXPECTED,
}


def wire_error(error: Exception, endpoint_name: str) -> WireError:
    """What the caller of this endpoint gets for the error; any exception is an InternalFailure."""
    kind = next((_TABLE[base] for base in type(error).__mro__ if base in _TABLE), None)
    if isinstance(error, ContainerFailed):
        return WireError(_MODEL_ERROR.status, _MODEL_ERROR.name, _model_error(error, endpoint_name))
    if kind is None:
        return _answered(_UNEXPECTED, _unexpected(error))
    return _answered(kind, str(error))


def unknown_operation(method: str, path: str) -> WireError:
    """What a request gets that is none of the runtime API's operations."""
    return _answered(
        _UNKNOWN_OPERATION,
        f"{method} {path} is no operation of the runtime API: "
        "POST to /endpoints/NAME/invocations or /endpoints/NAME/invocations-response-stream.",
    )


def stream_error(error: Exception) -> StreamError:
    """What a caller finds in the stream when it fails after it has begun."""
    if not isinstance(error, ContainerFailed):
        return StreamError("InternalStreamFailure", {"Message": _cut(_unexpected(error))})
    code = "ModelInvocationTimeExceeded" if error.status == 0 else "StreamBroken"
    return StreamError("ModelStreamError", {"Message": _cut(_original(error)), "ErrorCode": code})


def _answered(kind: _Kind, message: str) -> WireError:
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
