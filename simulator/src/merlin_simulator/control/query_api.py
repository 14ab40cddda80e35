"""AWS's query protocol: members as a form's fields, answers as XML. moto's parser and serializer.

Clients of CloudWatch from before 2026 speak it; newer ones speak JSON, which goes to JsonApi. What
is carried out is the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from merlin_simulator.control.errors import BodyTooLong, ServiceError, Unserializable
from merlin_simulator.control.json_api import JsonApi, query_code, read_body

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
        except BodyTooLong as error:
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
            raise Unserializable(f"The request's fields cannot be read: {error}.") from error
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
