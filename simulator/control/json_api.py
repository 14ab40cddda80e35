"""AWS's JSON protocol: an operation in X-Amz-Target, its members in the body.

One application for each service that is carried out here: members are checked by botocore's service
model, then the operation's function is called. Whatever operation has no function goes to others.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from botocore.model import ServiceModel
from botocore.session import get_session
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from simulator.control.caller import Call, operation_of
from simulator.control.errors import ServiceError, Unserializable
from simulator.control.validation import check_members
from simulator.errors import SimulatorError

_logger = logging.getLogger(__name__)

#: What carries an operation out: its output's members, None for an empty answer.
Operation = Callable[[Call], Awaitable[Mapping[str, Any] | None]]

_MEDIA_TYPE = "application/x-amz-json-1.1"
#: More than any call of these services needs, bytes.
_LONGEST = 4 * 1024 * 1024


def read_service_model(name: str) -> ServiceModel:
    """botocore's, whose reading takes a tenth of a second for SageMaker."""
    return get_session().get_service_model(name)


class JsonApi:
    """One service. operations: by name; others: takes what none of these is, as it came."""

    def __init__(
        self, model: ServiceModel, operations: Mapping[str, Operation], others: ASGIApp
    ) -> None:
        self._model, self._operations, self._others = model, operations, others

    async def answer(self, scope: Scope, receive: Receive, send: Send, region: str) -> None:
        """Answer one request of this service."""
        request = Request(scope, receive)
        name = operation_of(request.headers)
        operation = self._operations.get(name)
        if operation is None:
            await self._others(scope, receive, send)
            return
        try:
            body = await _body(request)
        except ClientDisconnect:
            return
        response = await self._carried_out(name, operation, body, region)
        await response(scope, receive, send)

    async def _carried_out(
        self, name: str, operation: Operation, body: bytes, region: str
    ) -> Response:
        try:
            members = _read(body)
            check_members(self._model.operation_model(name).input_shape, members)
            output = await operation(Call(name, members, region))
        except ServiceError as error:
            return _respond(error.status, {"__type": error.code, "message": str(error)})
        except SimulatorError as error:  # the disk's fault
            return _respond(500, {"__type": "InternalFailure", "message": str(error)})
        except Exception as error:
            _logger.exception("%s failed by the simulator's fault", name)
            words = f"The simulator failed ({type(error).__name__}: {error}); its log says where."
            return _respond(500, {"__type": "InternalFailure", "message": words})
        return _respond(200, output)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST:
            break  # it is cut, and no JSON then
    return bytes(body)


def _read(body: bytes) -> Mapping[str, Any]:
    try:
        members = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise Unserializable("The request's body is no JSON object.")
    return members


def _respond(status: int, output: Mapping[str, Any] | None) -> Response:
    content = b"" if output is None else json.dumps(output).encode()
    headers = {"x-amzn-RequestId": str(uuid.uuid4())}
    return Response(content, status, headers, media_type=_MEDIA_TYPE)
