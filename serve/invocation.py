"""One request to the entry model and its answer back; bytes pass through.

The line: registry.loaded → forward → Triton → answer. It bends in one place. When the answer says
that the model's Triton models were lost under it, they are loaded again and the request is sent
once more: nobody has answered it yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from serve.errors import (
    BadRequest,
    CallerError,
    InvocationFailed,
    ResourceExhausted,
    ServeError,
    TritonUnavailable,
)
from serve.payload import request_headers, response_headers
from serve.registry import Model, Registry
from serve.revival import Revival
from serve.triton_client import Refusal, TritonClient, refusal
from serve.triton_http import Answer, Headers
from serve.triton_messages import Verdict

_LOST = {Verdict.STUB_DIED, Verdict.NOT_LOADED}

_Sent = tuple[Answer, "AsyncIterator[bytes] | None"]


@dataclass(frozen=True)
class Request:
    """An invocation as it came: header names in lower case, the body in pieces."""

    headers: Headers
    body: Sequence[bytes]


class Invocation:
    """Forwards invocations to the Triton models that the registry says are ready.

    operation: the last part of Triton's path: infer, generate or generate_stream.
    """

    def __init__(
        self,
        registry: Registry,
        triton: TritonClient,
        revival: Revival,
        operation: str,
        timeout_s: float,
    ) -> None:
        self._registry, self._triton, self._revival = registry, triton, revival
        self._suffix = f"/{operation}".encode()
        self._timeout_s = timeout_s
        self.streams = operation == "generate_stream"

    async def forward(self, name: str, request: Request) -> Answer:
        """The entry model's whole answer, with the headers it is to go back with.

        Raises CallerError (ModelNotLoaded, BadRequest), InvocationFailed, ResourceExhausted,
        TritonUnavailable or TritonTimeout.
        """
        model = self._registry.loaded(name)
        headers = _headers(request)

        async def send() -> _Sent:
            answer = await self._triton.infer(
                self._path(model), headers, request.body, self._timeout_s
            )
            return answer, None

        with model.invocation():
            answer, _ = await self._answered(model, send)
        answer.headers = response_headers(answer.headers)
        return answer

    async def stream(self, name: str, request: Request) -> tuple[Answer, AsyncIterator[bytes]]:
        """The head of the entry model's answer, and its body as it comes; raises as forward does.

        The iterator must be read to its end or closed: until then the invocation is in flight.
        """
        model = self._registry.loaded(name)
        headers = _headers(request)

        async def send() -> _Sent:
            return await self._triton.stream(
                self._path(model), headers, request.body, self._timeout_s
            )

        with ExitStack() as in_flight:
            in_flight.enter_context(model.invocation())
            answer, body = await self._answered(model, send)
            answer.headers = response_headers(answer.headers)
            return answer, _closing(body, in_flight.pop_all())

    async def _answered(self, model: Model, send: Callable[[], Awaitable[_Sent]]) -> _Sent:
        """What Triton answers with 200, at the second try if the model was lost at the first."""
        await model.settled()
        generation = model.generation
        answer, body = await send()
        if answer.status == 200:
            return answer, body
        refused = await _refusal(answer, body)
        if refused.verdict not in _LOST:
            raise _error(model, refused)
        await self._revival.revive(model, generation)
        answer, body = await send()
        if answer.status != 200:
            raise _error(model, await _refusal(answer, body))
        return answer, body

    def _path(self, model: Model) -> bytes:
        return b"/v2/models/" + model.serving.entry.encode() + self._suffix


def _headers(request: Request) -> Headers:
    if not any(request.body):
        raise BadRequest("the body", "nothing", "an inference request of the v2 protocol")
    return request_headers(request.headers, request.body)


async def _refusal(answer: Answer, body: AsyncIterator[bytes] | None) -> Refusal:
    if body is not None:
        answer.body.extend([piece async for piece in body])
    return refusal(answer)


async def _closing(body: AsyncIterator[bytes] | None, in_flight: ExitStack) -> AsyncIterator[bytes]:
    """The body's pieces; at the end, however it comes, the invocation is no longer in flight."""
    with in_flight:
        assert body is not None
        async for piece in body:
            yield piece


def _error(model: Model, refused: Refusal) -> ServeError:
    """Ours for Triton's: who is at fault decides what the caller is told."""
    message = refused.message or "no reason was given"
    if refused.verdict is Verdict.CALLER:
        return CallerError(message)
    if refused.verdict is Verdict.EXHAUSTED:
        return ResourceExhausted(f"no resources to invoke the model {model.name}: {message}")
    if refused.verdict is Verdict.UNAVAILABLE:
        return TritonUnavailable(message)
    return InvocationFailed(f"the model {model.name} failed: {message}")
