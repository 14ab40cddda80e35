"""AWS's protocols: JSON and Query, as calls of operations."""

from __future__ import annotations

import json
import logging
import uuid
import zlib
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
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
from merlin_simulator.control.validation import check_members, known_members
from merlin_simulator.errors import SimulatorError

_logger = logging.getLogger(__name__)

#: What carries an operation out: its output's members, None for an empty answer.
Operation = Callable[[Call], Awaitable[Mapping[str, Any] | None]]

#: More than any call of these services needs, bytes.
_LONGEST = 4 * 1024 * 1024
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def read_service_model(name: str) -> ServiceModel:
    """botocore's, whose reading takes a tenth of a second for SageMaker."""
    return get_session().get_service_model(name)


class JsonApi:
    """One service. operations: by name; others: takes what none of these is, as it came."""

    def __init__(
        self, model: ServiceModel, operations: Mapping[str, Operation], others: ASGIApp
    ) -> None:
        self._model, self._operations, self._others = model, operations, others
        self._media_type = f"application/x-amz-json-{model.metadata.get('jsonVersion', '1.1')}"
        self._was_query = "awsQueryCompatible" in model.metadata
        self._shapes = {shape.error_code: shape.name for shape in model.error_shapes}

    async def answer(self, scope: Scope, receive: Receive, send: Send, region: str) -> None:
        """Answer one request of this service."""
        request = Request(scope, receive)
        name = operation_of(request.headers)
        operation = self._operations.get(name)
        if operation is None:
            await self._others(scope, receive, send)
            return
        try:
            output = await self.carry_out(name, _read(await read_body(request)), region)
        except ClientDisconnect:
            return
        except ServiceError as error:
            response = self._refusal(error)
        else:
            response = self._respond(200, output)
        await response(scope, receive, send)

    def carries_out(self, name: str) -> bool:
        """Whether an operation has a function."""
        return name in self._operations

    async def carry_out(
        self, name: str, members: Mapping[str, Any], region: str
    ) -> Mapping[str, Any] | None:
        """One call whose operation has a function. Raises ServiceError and nothing else."""
        try:
            shape = self._model.operation_model(name).input_shape
            check_members(shape, members)
            return await self._operations[name](Call(name, known_members(shape, members), region))
        except ServiceError:
            raise
        except SimulatorError as error:  # the disk's fault
            raise ServiceError(str(error), "InternalFailure", 500) from error
        except Exception as error:
            _logger.exception("%s failed by the simulator's fault", name)
            message = f"The simulator failed ({type(error).__name__}: {error}); its log says where."
            raise ServiceError(message, "InternalFailure", 500) from error

    def _refusal(self, error: ServiceError) -> Response:
        """A service that once spoke the query protocol has its codes in a header, too."""
        output = {"__type": self._shapes.get(error.code, error.code), "message": str(error)}
        if not self._was_query:
            return self._respond(error.status, output)
        fault = "Sender" if error.status < 500 else "Receiver"
        headers = {"x-amzn-query-error": f"{query_code(error)};{fault}"}
        return self._respond(error.status, output, headers)

    def _respond(
        self, status: int, output: Mapping[str, Any] | None, more: Mapping[str, str] = _NO_HEADERS
    ) -> Response:
        content = b"" if output is None else json.dumps(output).encode()
        headers = {"x-amzn-RequestId": str(uuid.uuid4()), **more}
        return Response(content, status, headers, media_type=self._media_type)


def query_code(error: ServiceError) -> str:
    """An error's code as the query protocol has it."""
    return {"ValidationException": "ValidationError"}.get(error.code, error.code)


async def read_body(request: Request) -> bytes:
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


def _read(body: bytes) -> Mapping[str, Any]:
    try:
        members = json.loads(body or b"{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise ServiceError("The request's body is no JSON object.", "SerializationException")
    return members


_MEDIA_TYPE = "text/xml"
_ERROR = (
    '<ErrorResponse xmlns="{namespace}"><Error><Type>{fault}</Type><Code>{code}</Code>'
    "<Message>{message}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
)


class QueryApi:
    """One service by both protocols. service: botocore's name of it; see JsonApi for the rest."""

    def __init__(self, service: str, json_api: JsonApi, others: ASGIApp) -> None:
        self._service, self._json_api, self._others = service, json_api, others

    async def answer(self, scope: Scope, receive: Receive, send: Send, region: str) -> None:
        """Answer one request of this service."""
        request = Request(scope, receive)
        if "x-amz-target" in request.headers:
            await self._json_api.answer(scope, receive, send, region)
            return
        try:
            body = await read_body(request)
        except ClientDisconnect:
            return
        except ServiceError as error:
            await self._refusal(error)(scope, receive, send)
            return
        fields = dict(parse_qsl(body.decode("latin-1") or _query(scope), keep_blank_values=True))
        name = fields.get("Action", "")
        if not self._json_api.carries_out(name):
            await self._others(_with_length(scope, len(body)), _again(body), send)
            return
        try:
            response = self._answer(
                name, await self._json_api.carry_out(name, self._parse(name, fields), region)
            )
        except ServiceError as error:
            response = self._refusal(error)
        await response(scope, receive, send)

    def _parse(self, name: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
        from moto.core.parse import QueryParser

        parser = QueryParser(_moto_model(self._service).operation_model(name), timestamp_parser=str)
        try:
            members: Mapping[str, Any] = parser.parse({"values": fields})
        except (ValueError, KeyError, TypeError) as error:
            raise ServiceError(
                f"The request's fields cannot be read: {error}.", "SerializationException"
            ) from error
        return members

    def _answer(self, name: str, output: Mapping[str, Any] | None) -> Response:
        from moto.core.serialize import QuerySerializer, SerializationContext

        model = _moto_model(self._service).operation_model(name)
        context = SerializationContext(str(uuid.uuid4()))
        answer = QuerySerializer(model, context).serialize(output or {})
        return Response(answer["body"], answer["status_code"], media_type=_MEDIA_TYPE)

    def _refusal(self, error: ServiceError) -> Response:
        body = _ERROR.format(
            namespace=_moto_model(self._service).metadata["xmlNamespace"],
            fault="Sender" if error.status < 500 else "Receiver",
            code=query_code(error),
            message=escape(str(error)),
            request_id=uuid.uuid4(),
        )
        return Response(body, error.status, media_type=_MEDIA_TYPE)


def _query(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return query.decode("latin-1")


def _with_length(scope: Scope, length: int) -> Scope:
    """The request of a body that was read: it is unpacked, and comes in one piece."""
    told = (b"content-length", b"content-encoding", b"transfer-encoding")
    headers = [header for header in scope["headers"] if header[0] not in told]
    return {**scope, "headers": [*headers, (b"content-length", b"%d" % length)]}


def _again(body: bytes) -> Receive:
    """A body that was read, for who reads it next."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


@lru_cache
def _moto_model(service: str) -> Any:
    """botocore's, with what moto's serializer needs."""
    from moto.core.utils import get_service_model

    return get_service_model(service)
