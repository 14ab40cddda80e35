"""AWS's JSON protocol: an operation in X-Amz-Target, its members in the body.

One application for each service that is carried out here: members are checked by botocore's service
model, then the operation's function is called. Whatever operation has no function goes to others.
"""

from __future__ import annotations

import json
import logging
import uuid
import zlib
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from botocore.model import ServiceModel
from botocore.session import get_session
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from merlin_simulator.control.caller import Call, operation_of
from merlin_simulator.control.errors import (
    BodyTooLong,
    ServiceError,
    SimulatorFailed,
    Unserializable,
)
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
            raise SimulatorFailed(str(error)) from error
        except Exception as error:
            _logger.exception("%s failed by the simulator's fault", name)
            words = f"The simulator failed ({type(error).__name__}: {error}); its log says where."
            raise SimulatorFailed(words) from error

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

    Raises BodyTooLong as soon as it is longer than any call needs, and ClientDisconnect.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST:
            raise BodyTooLong(_LONGEST)
    if request.headers.get("content-encoding") != "gzip":
        return bytes(body)
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        unpacked = unpacking.decompress(bytes(body), _LONGEST)
    except zlib.error:
        return b"no gzip"
    if unpacking.unconsumed_tail:
        raise BodyTooLong(_LONGEST)
    return unpacked


def _refuse_constant(text: str) -> None:
    """Python's reader takes NaN and Infinity, which are no JSON."""
    raise ValueError(f"{text} is no JSON")


def _read(body: bytes) -> Mapping[str, Any]:
    try:
        members = json.loads(body or b"{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise Unserializable("The request's body is no JSON object.")
    return members
