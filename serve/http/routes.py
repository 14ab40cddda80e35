"""Read the request -> one call -> shape the answer."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from serve.context import bind
from serve.deadline import within
from serve.errors import ServeError, TritonUnavailable
from serve.http.error_responses import TOLD, WANTED, status_of
from serve.http.messages import (
    list_body,
    model_body,
    parse_load_request,
    parse_page,
)
from serve.invoke.headers import keep_piece
from serve.invoke.invocation import Invocation
from serve.invoke.request import Request as InvocationRequest
from serve.invoke.stream_errors import StreamErrors
from serve.models.lifecycle import Lifecycle
from serve.models.registry import Registry
from serve.models.waiting_room import MIB, HeldBody, WaitingRooms
from serve.telemetry.record import CALLER_LEFT, InvocationRecord, target_model
from serve.telemetry.telemetry import Telemetry
from serve.triton.connection import Answer

#: Where an invocation's Request stands in its scope, for the protocol that looks after its caller.
EXTENSION = "serve.invocation"
#: Where the protocol's function stands that ends a connection inside an answer, and says nothing.
BREAK_OFF = "serve.break_off"
#: Where the protocol puts the error that it answered a request with whose body it read no further.
LAST_WORD = "serve.last_word"

_log = logging.getLogger(__name__)


class CallerGone(Exception):
    """The caller closed the connection before the request was whole."""


@dataclass(frozen=True)
class PingRoute:
    """GET /ping: 200 with an empty body while `healthy` says so, else 503."""

    healthy: Callable[[], Awaitable[bool]]

    async def ping(self) -> Response:
        """Answer the platform's health check."""
        return Response(status_code=200 if await self.healthy() else 503)


@dataclass(frozen=True)
class ModelRoutes:
    """Load, list, describe, unload."""

    registry: Registry
    lifecycle: Lifecycle

    async def load_model(self, request: Request) -> Response:
        """POST /models."""
        try:
            body = await request.body()
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        wanted = parse_load_request(body)
        setattr(request.state, WANTED, wanted)
        target = target_model(request.headers.raw)
        with bind(model_name=wanted.model_name, target_model=target):
            await self.lifecycle.load(wanted.model_name, wanted.url, target=target)
        return Response(status_code=200)

    async def list_models(self, request: Request) -> Response:
        """GET /models."""
        after, limit = parse_page(request.query_params)
        models, more = self.registry.page(after, limit)
        return Response(list_body(models, more=more), media_type="application/json")

    async def get_model(self, model_name: str) -> Response:
        """GET /models/{model_name}."""
        return JSONResponse(model_body(self.registry.loaded(model_name)))

    async def unload_model(self, model_name: str) -> Response:
        """DELETE /models/{model_name}."""
        with bind(model_name=model_name):
            await self.lifecycle.unload(model_name)
        return Response(status_code=200)


_MODELS, _INVOKE, _INVOCATIONS = b"/models/", b"/invoke", b"/invocations"


def invoked_model(url: bytes) -> str | None:
    """The model_name of a plain /models/{model_name}/invoke; None for any other url."""
    if not (url.startswith(_MODELS) and url.endswith(_INVOKE)):
        return None
    name = url[len(_MODELS) : -len(_INVOKE)]
    return name.decode() if _PLAIN_NAME.fullmatch(name) else None


def is_invocations(url: bytes) -> bool:
    """Whether it is a plain /invocations."""
    return url == _INVOCATIONS


#: Nothing that a url quotes, and no separator: such a name is what it looks like.
_PLAIN_NAME = re.compile(rb"[A-Za-z0-9_.~-]+")


class InvokeRoute:
    """POST /models/{model_name}/invoke and POST /invocations, as a bare ASGI application.

    For invocations that stream, and those that invoke_protocol leaves to it. rooms: count the bytes
    of bodies, of at most largest_body each. A caller who leaves ends what is done for him.
    """

    def __init__(
        self,
        invocation: Invocation,
        model_name: str | None = None,
        *,
        rooms: WaitingRooms | None = None,
        largest_body: int = 64 * MIB,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._invocation, self._model_name = invocation, model_name
        self._rooms, self._largest_body = rooms or WaitingRooms(), largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one invocation."""
        name = self._model_name or scope["path_params"]["model_name"]
        held = HeldBody(self._rooms, name, self._largest_body)
        extensions = scope.setdefault("extensions", {})
        extensions[TOLD] = True
        body: list[bytes] = []
        record = None
        try:
            await self._read_body(name, body, scope, receive, held)
            record = self._record(name, scope, body)
            request = InvocationRequest(scope["headers"], body, held=held, record=record)
            extensions[EXTENSION] = request
            if self._invocation.streams:
                answering = self._send_stream(name, request, send, extensions.get(BREAK_OFF))
            else:
                answering = self._send_whole(name, request, send)
            await _while_wanted(receive, answering)
            # An answer that its caller did not read to the end counts as what its head said.
            self._telemetry.invoked(record, record.status)
        except CallerGone as gone:
            word = extensions.get(LAST_WORD)
            status = CALLER_LEFT if word is None else status_of(word)
            self._telemetry.invoked(record or self._record(name, scope, body), status, word or gone)
        except asyncio.CancelledError:  # the time for what is in flight is over
            stopping = TritonUnavailable("the container is stopping")
            record = record or self._record(name, scope, body)
            self._telemetry.invoked(record, status_of(stopping), stopping)
            raise
        except Exception as error:
            record = record or self._record(name, scope, body)
            self._telemetry.invoked(record, status_of(error), error)
            raise
        finally:
            held.release()

    def _record(self, name: str, scope: Scope, body: list[bytes]) -> InvocationRecord:
        size = sum(map(len, body))
        record, scope["headers"] = self._telemetry.begin(name, size, scope["headers"])
        return record

    async def _read_body(
        self, name: str, pieces: list[bytes], scope: Scope, receive: Receive, held: HeldBody
    ) -> None:
        try:
            await self._keep_body(name, pieces, receive, held)
        except ServeError:
            if _is_last(scope):  # its end would take back an answer that comes before the body
                held.release()
                await _read_away(receive)
            raise

    async def _keep_body(
        self, name: str, pieces: list[bytes], receive: Receive, held: HeldBody
    ) -> None:
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            if message.get("body"):
                size += len(message["body"])
                if size > held.uncounted_up_to and not held.counted:
                    self._invocation.expect(name)
                held.grow(size)
                keep_piece(pieces, message["body"])
            if not message.get("more_body"):
                return

    async def _send_whole(self, name: str, request: InvocationRequest, send: Send) -> None:
        try:
            answer = await self._invocation.forward(name, request)
            request.record.answer_bytes = sum(map(len, answer.body))
            self._telemetry.invoked(request.record, answer.status)
            await _send(answer, send)
        finally:  # callers may read slowly, or not
            request.release_answer()

    async def _send_stream(
        self,
        name: str,
        request: InvocationRequest,
        send: Send,
        break_off: Callable[[], None] | None,
    ) -> None:
        answer = await self._invocation.forward(name, request)
        pieces = answer.rest
        assert pieces is not None, "its invocations stream"
        request.record.status = answer.status
        start = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        errors = StreamErrors()
        try:
            with closing(pieces):
                await send(start)
                async for piece in pieces:
                    body = errors.pass_on(piece)
                    _log_told(name, errors)
                    request.record.answer_bytes += len(body)
                    message = {"type": "http.response.body", "body": body, "more_body": True}
                    # A caller that reads no further may not hold the model for ever.
                    await within(send(message), self._invocation.timeout_s)
        except (ServeError, asyncio.TimeoutError) as error:
            if isinstance(error, ServeError):
                self._telemetry.invoked(request.record, answer.status, error)
            if break_off is None:  # under a server of another kind
                raise
            with bind(model_name=name):
                why = error if isinstance(error, ServeError) else "its caller reads no further"
                _log.error("an answer was broken off: %s", why)
            break_off()  # its head is out: only the connection's end can say so
            return
        await send({"type": "http.response.body", "body": errors.end()})
        _log_told(name, errors)


def _log_told(name: str, errors: StreamErrors) -> None:
    while errors.told:
        with bind(model_name=name):
            _log.info("an error inside a stream: %s", errors.told.pop(0))


async def _while_wanted(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, or end it when the caller leaves, which raises CallerGone."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerGone
        working.result()
    finally:
        leaving.cancel()
        if working.cancel():
            await asyncio.wait({working})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _is_last(scope: Scope) -> bool:
    """Whether the connection ends behind the answer."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return scope["http_version"] == "1.0" or any(
        name == b"connection" and b"close" in value.lower() for name, value in headers
    )


async def _read_away(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return


async def _send(answer: Answer, send: Send) -> None:
    length = sum(map(len, answer.body))
    headers = [*answer.headers, (b"content-length", b"%d" % length)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    while len(answer.body) > 1:
        piece = answer.body.popleft()
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": answer.body[0] if answer.body else b""})
