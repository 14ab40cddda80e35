"""AWS's protocols: JSON and Query, as calls of operations."""

from __future__ import annotations

import json
import logging
import uuid
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore.model import ServiceModel
from botocore.session import get_session
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from merlin_simulator.control.caller import Call, operation_of
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.validation import read_members
from merlin_simulator.errors import SimulatorError

_logger = logging.getLogger(__name__)

#: What carries an operation out: its output's members, None for an empty answer.
Operation = Callable[[Call], Awaitable[Mapping[str, Any] | None]]

#: More than any call of these services needs, bytes.
_LONGEST = 4 * 1024 * 1024


def read_service_model(name: str) -> ServiceModel:
    """botocore's, whose reading takes a tenth of a second for SageMaker."""
    return get_session().get_service_model(name)


class Api:
    """One service. operations: by name; others: takes what none of these is, as it came."""

    def __init__(self, service: str, operations: Mapping[str, Operation], others: ASGIApp) -> None:
        self._operations, self._others = operations, others
        self._model = read_service_model(service)
        self._json, self._query = _Json(self._model), _Query(service)

    async def answer(self, scope: Scope, receive: Receive, send: Send, region: str) -> None:
        """Answer one request of this service."""
        request = Request(scope, receive)
        is_json, name = "x-amz-target" in request.headers, operation_of(request.headers)
        protocol = self._json if is_json else self._query
        if is_json and name not in self._operations:
            await self._others(scope, receive, send)
            return
        try:
            body = await _read_body(request)
            if is_json:
                members = _parse_json(body)
            else:
                query: bytes = scope["query_string"]
                fields = dict(parse_qsl((body or query).decode("latin-1"), keep_blank_values=True))
                name = fields.get("Action", "")
                if name not in self._operations:
                    await self._others(_with_length(scope, len(body)), _replay(body), send)
                    return
                members = self._query.parse(name, fields)
            response = protocol.respond(name, await self._carry_out(name, members, region))
        except ClientDisconnect:
            return
        except ServiceError as error:
            response = protocol.refuse(error)
        await response(scope, receive, send)

    async def _carry_out(
        self, name: str, members: Mapping[str, Any], region: str
    ) -> Mapping[str, Any] | None:
        """Raises ServiceError and nothing else."""
        try:
            shape = self._model.operation_model(name).input_shape
            return await self._operations[name](Call(name, read_members(shape, members), region))
        except ServiceError:
            raise
        except SimulatorError as error:  # the disk's fault
            raise ServiceError(str(error), "InternalFailure", 500) from error
        except Exception as error:
            _logger.exception("%s failed by the simulator's fault", name)
            message = f"The simulator failed ({type(error).__name__}: {error}); its log says where."
            raise ServiceError(message, "InternalFailure", 500) from error


class _Json:
    """AWS's JSON protocol. A service that once spoke Query has its codes in a header, too."""

    def __init__(self, model: ServiceModel) -> None:
        self._media_type = f"application/x-amz-json-{model.metadata.get('jsonVersion', '1.1')}"
        self._was_query = "awsQueryCompatible" in model.metadata
        self._shapes = {shape.error_code: shape.name for shape in model.error_shapes}

    def respond(self, _: str, output: Mapping[str, Any] | None) -> Response:
        return self._respond(200, output, {})

    def refuse(self, error: ServiceError) -> Response:
        output = {"__type": self._shapes.get(error.code, error.code), "message": str(error)}
        query_error = f"{_query_code(error)};{_fault(error)}"
        headers = {"x-amzn-query-error": query_error} if self._was_query else {}
        return self._respond(error.status, output, headers)

    def _respond(
        self, status: int, output: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Response:
        content = b"" if output is None else json.dumps(output).encode()
        headers = {"x-amzn-RequestId": str(uuid.uuid4()), **headers}
        return Response(content, status, headers, media_type=self._media_type)


_MEDIA_TYPE = "text/xml"
_ERROR = (
    '<ErrorResponse xmlns="{namespace}"><Error><Type>{fault}</Type><Code>{code}</Code>'
    "<Message>{message}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
)


class _Query:
    """AWS's Query protocol, which older clients of CloudWatch speak: forms, and XML."""

    def __init__(self, service: str) -> None:
        self._service = service

    def parse(self, name: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
        from moto.core.parse import QueryParser

        parser = QueryParser(self._model.operation_model(name), timestamp_parser=str)
        try:
            members: Mapping[str, Any] = parser.parse({"values": fields})
        except (ValueError, KeyError, TypeError) as error:
            raise ServiceError(
                f"The request's fields cannot be read: {error}.", "SerializationException"
            ) from error
        return members

    def respond(self, name: str, output: Mapping[str, Any] | None) -> Response:
        from moto.core.serialize import QuerySerializer, SerializationContext

        context = SerializationContext(str(uuid.uuid4()))
        serializer = QuerySerializer(self._model.operation_model(name), context)
        answer = serializer.serialize(output or {})
        return Response(answer["body"], answer["status_code"], media_type=_MEDIA_TYPE)

    def refuse(self, error: ServiceError) -> Response:
        body = _ERROR.format(
            namespace=self._model.metadata["xmlNamespace"],
            fault=_fault(error),
            code=_query_code(error),
            message=escape(str(error)),
            request_id=uuid.uuid4(),
        )
        return Response(body, error.status, media_type=_MEDIA_TYPE)

    @property
    def _model(self) -> Any:
        """botocore's, with what moto's serializer needs; moto keeps it."""
        from moto.core.utils import get_service_model

        return get_service_model(self._service)


def _fault(error: ServiceError) -> str:
    return "Sender" if error.status < 500 else "Receiver"


def _query_code(error: ServiceError) -> str:
    """An error's code as the Query protocol has it."""
    return {"ValidationException": "ValidationError"}.get(error.code, error.code)


async def _read_body(request: Request) -> bytes:
    """A request's body, unpacked where it is packed.

    Raises ServiceError as soon as it is longer than any call needs, and ClientDisconnect.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST:
            raise _too_long()
    if request.headers.get("content-encoding") != "gzip":
        return bytes(body)
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        unpacked = unpacking.decompress(bytes(body), _LONGEST)
    except zlib.error:
        return b"no gzip"
    if unpacking.unconsumed_tail:
        raise _too_long()
    return unpacked


def _too_long() -> ServiceError:
    message = f"The request's body has more than {_LONGEST} bytes: send less of it at once."
    return ServiceError(message, "RequestEntityTooLargeException", 413)


def _refuse_constant(text: str) -> None:
    """Python's reader takes NaN and Infinity, which are no JSON."""
    raise ValueError(f"{text} is no JSON")


def _parse_json(body: bytes) -> Mapping[str, Any]:
    try:
        members = json.loads(body or b"{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise ServiceError("The request's body is no JSON object.", "SerializationException")
    return members


def _with_length(scope: Scope, length: int) -> Scope:
    """The request of a body that was read: it is unpacked, and comes in one piece."""
    replaced = (b"content-length", b"content-encoding", b"transfer-encoding")
    headers = [header for header in scope["headers"] if header[0] not in replaced]
    return {**scope, "headers": [*headers, (b"content-length", b"%d" % length)]}


def _replay(body: bytes) -> Receive:
    """A body that was read, for who reads it next."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
