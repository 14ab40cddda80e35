"""The SageMaker runtime API: what boto3, the AWS CLI and the SageMaker SDK speak, over HTTP.

An operation checks the request, hands it to the endpoint, and writes the answer or the error.
Signatures are neither needed nor looked at.

When the caller goes away: while the body arrives, there is no invocation yet, and none is made.
After that an invocation goes on to its end, as on SageMaker; a stream is closed, and with it the
connection to the container. A reader of a stream that takes nothing for rules.stream_stall_s is
taken for one that went away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from merlin_simulator.api.wire import (
    MEDIA_TYPE,
    STREAM_FIELDS,
    WHOLE_FIELDS,
    Field,
    InvocableEndpoint,
    WireError,
    accept,
    exception,
    named_target_model,
    payload_parts,
    stream_error,
    unknown_operation,
    wire_error,
)
from merlin_simulator.errors import EndpointNotFound, InvalidRequest, SimulatorError
from merlin_simulator.instance.requests import ContainerAnswer, Invocation, Parts, StreamedAnswer
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog

_logger = logging.getLogger(__name__)

_OCTETS = "application/octet-stream"
_CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
#: What of a container's answer reaches the caller beside the body and its type.
_WHOLE_ANSWERED = (
    _CUSTOM_ATTRIBUTES,
    "X-Amzn-SageMaker-New-Session-Id",
    "X-Amzn-SageMaker-Closed-Session-Id",
)
_STREAM_ANSWERED = (_CUSTOM_ATTRIBUTES,)


class EndpointDirectory(Protocol):
    """Every endpoint that can be invoked. log hears of requests for one that is not there."""

    log: EventLog

    def find(self, endpoint_name: str) -> InvocableEndpoint:
        """Raises EndpointNotFound."""
        ...


def make_runtime_routes(directory: EndpointDirectory) -> list[Route]:
    """Everything under /endpoints/; refused requests are told to the endpoint's log."""
    whole = _Operation(directory, WHOLE_FIELDS, _whole)
    stream = _Operation(directory, STREAM_FIELDS, _stream)
    return [
        Route("/endpoints/{name}/invocations", whole, methods=["POST"]),
        Route("/endpoints/{name}/invocations-response-stream", stream, methods=["POST"]),
        Route("/endpoints{rest:path}", UnknownOperation()),
    ]


class UnknownOperation:
    """Answers any request as AWS does one that is no operation; good as an app's last route."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """404 UnknownOperationException, whatever the method."""
        wire = unknown_operation(scope["method"], scope["path"])
        await _error_response(wire, _new_request_id())(scope, receive, send)


def _new_request_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True)
class _RuntimeCall:
    request: Request
    request_id: str = field(default_factory=_new_request_id)
    start: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class _Operation:
    """One operation as an ASGI application."""

    directory: EndpointDirectory
    fields: Mapping[str, Field]
    answer: Callable[[InvocableEndpoint, Invocation], Awaitable[ASGIApp]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            respond = await self._answered(_RuntimeCall(Request(scope, receive)))
        except ClientDisconnect:
            return  # before the body was whole: there is no invocation, and nobody to tell
        await respond(scope, receive, send)

    async def _answered(self, call: _RuntimeCall) -> ASGIApp:
        named = call.request.path_params["name"]
        try:
            endpoint = self.directory.find(named)
        except EndpointNotFound as error:
            return _refused(call, error, named, self.directory.log)
        try:
            invocation = await self._checked(call, endpoint)
        except SimulatorError as error:
            return _refused(call, error, named, endpoint.log)
        try:
            return await self.answer(endpoint, invocation)
        except Exception as error:
            _log_unexpected(error)
            return _error_response(wire_error(error, named), call.request_id)

    async def _checked(self, call: _RuntimeCall, endpoint: InvocableEndpoint) -> Invocation:
        headers = call.request.headers.items()
        invocation = accept(self.fields, headers, endpoint, call.request_id)
        return replace(invocation, body=await _body(call, endpoint.rules))


def _refused(
    call: _RuntimeCall, error: SimulatorError, endpoint_name: str, log: EventLog
) -> ASGIApp:
    wire = wire_error(error, endpoint_name)
    log.tell(
        "invocation_failed",
        target_model=named_target_model(call.request.headers),
        status=wire.status,
        seconds=time.monotonic() - call.start,
        cold=False,
        error=wire.name,
        message=str(error),
        request_id=call.request_id,
    )
    return _error_response(wire, call.request_id)


# -- the body


async def _body(call: _RuntimeCall, rules: Rules) -> bytes:
    """The whole body; one that is too large is refused as soon as that is known, and not kept."""
    announced = call.request.headers.get("content-length")
    if announced is not None and int(announced) > rules.payload_bytes:
        raise _too_large(call, rules)
    try:
        return await asyncio.wait_for(_counted(call, rules), rules.invoke_timeout_s)
    except asyncio.TimeoutError:
        raise InvalidRequest(
            f"The body of request {call.request_id} did not arrive "
            f"within {rules.invoke_timeout_s:g} s: send it faster, or less of it."
        ) from None


async def _counted(call: _RuntimeCall, rules: Rules) -> bytes:
    body = bytearray()
    async for chunk in call.request.stream():
        body += chunk
        if len(body) > rules.payload_bytes:
            raise _too_large(call, rules)
    return bytes(body)


def _too_large(call: _RuntimeCall, rules: Rules) -> InvalidRequest:
    # It begins as SageMaker's (aws/sagemaker-python-sdk#4271).
    return InvalidRequest(
        f"Request {call.request_id} has oversize body: at most {rules.payload_bytes} bytes "
        "are taken, so send fewer rows at once."
    )


# -- the answers


async def _whole(endpoint: InvocableEndpoint, invocation: Invocation) -> ASGIApp:
    answer = await endpoint.invoke(invocation)
    headers = _answered_headers(answer, _WHOLE_ANSWERED, invocation.request_id)
    headers["Content-Type"] = _content_type(answer.headers)
    return Response(answer.body, headers=headers)


async def _stream(endpoint: InvocableEndpoint, invocation: Invocation) -> ASGIApp:
    answer = await endpoint.invoke_stream(invocation)
    headers = _answered_headers(answer, _STREAM_ANSWERED, invocation.request_id)
    headers["Content-Type"] = MEDIA_TYPE
    headers["X-Amzn-SageMaker-Content-Type"] = _content_type(answer.headers)
    return _EventStream(answer.parts, headers, endpoint.rules.stream_stall_s)


def _answered_headers(
    answer: ContainerAnswer | StreamedAnswer, names: tuple[str, ...], request_id: str
) -> dict[str, str]:
    answered = answer.headers
    passed = {name: answered[name.lower()] for name in names if name.lower() in answered}
    return {
        **{name: _sendable(value) for name, value in passed.items()},
        "x-Amzn-Invoked-Production-Variant": answer.variant,
        "x-amzn-RequestId": request_id,
    }


def _content_type(answered: Mapping[str, str]) -> str:
    return _sendable(answered.get("content-type", _OCTETS))


def _sendable(value: str) -> str:
    """A container's header with what no header of this API may hold replaced (all are ASCII)."""
    return re.sub(r"[^\t -~]", "?", value)


def _error_response(wire: WireError, request_id: str) -> Response:
    headers = {"x-amzn-errortype": wire.name, "x-amzn-RequestId": request_id}
    body = json.dumps(dict(wire.body)).encode()
    return Response(body, wire.status, headers, media_type="application/json")


@dataclass(frozen=True)
class _EventStream:
    """The answer's parts as events while they come; closed when the caller goes away, or stalls."""

    parts: Parts
    headers: Mapping[str, str]
    stall_s: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            ended = await asyncio.gather(sending, leaving, return_exceptions=True)
            # The sending closes them only once it has begun.
            await self.parts.aclose()
        _raise_unless_cancelled(ended[0])

    async def _send(self, send: Send) -> None:
        raw = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        async with aclosing(_messages(self.parts)) as messages:
            async for message in messages:
                with _cancelled_after(self.stall_s):
                    await send({"type": "http.response.body", "body": message, "more_body": True})
        with _cancelled_after(self.stall_s):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


@contextmanager
def _cancelled_after(seconds: float) -> Iterator[None]:
    """The task is cancelled when the block takes longer. wait_for may lose another's cancelling."""
    task = asyncio.current_task()
    assert task is not None

    def stalled() -> None:
        _logger.warning("a stream's reader took nothing for %g s: it is left", seconds)
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, stalled)
    try:
        yield
    finally:
        timer.cancel()


async def _messages(parts: Parts) -> AsyncGenerator[bytes, None]:
    """The messages of the parts, and of what ended them early; closes the parts."""
    try:
        async for part in parts:
            for message in payload_parts(part):
                yield message
    except Exception as error:
        _log_unexpected(error)
        failed = stream_error(error)
        yield exception(failed.name, failed.body)
    finally:
        await parts.aclose()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _raise_unless_cancelled(ended: BaseException | None) -> None:
    if ended is not None and not isinstance(ended, asyncio.CancelledError):
        raise ended


def _log_unexpected(error: Exception) -> None:
    """A failure of the simulator's own: it is answered, so the log is where its origin is seen."""
    if not isinstance(error, SimulatorError):
        _logger.error("an invocation failed by the simulator's fault", exc_info=error)
