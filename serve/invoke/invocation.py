"""One request to the entry model and its answer back; bytes pass through.

The line: registry.loaded → a place in tritonserver → Triton → answer. It bends in one place. When
the answer says that the model's Triton models were lost under it, they are loaded again and the
request is sent once more: nobody has answered it yet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from serve.deadline import within
from serve.errors import (
    BadRequest,
    CallerError,
    InvocationFailed,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.invoke.envelope import check_object, check_request, check_strings
from serve.invoke.headers import (
    MOST_INFLATED,
    inflated,
    is_compressed,
    json_length,
    request_headers,
    response_headers,
)
from serve.invoke.translation import Question, Translation, TurnLate, stepwise
from serve.limit import UNCOUNTED
from serve.models.registry import Model, Registry, State
from serve.models.revival import Revival
from serve.models.waiting_room import HeldAnswer, HeldBody, WaitedTooLong, WaitingRoom
from serve.triton.client import Refusal, Stream, TritonClient, refusal
from serve.triton.http import MOST_OF_ERROR, Answer, Headers
from serve.triton.messages import Verdict, dead_model, one_sentence, quotes_a_death

_LOST = {Verdict.STUB_DIED, Verdict.NOT_LOADED}

#: Stands at the end of what a model said, where that is not all of it.
_CUT = f"… (cut after {MOST_OF_ERROR // 1024} KB)"

_T = TypeVar("_T")
_Sent = tuple[Answer, "Stream | None"]


@dataclass
class Request:
    """An invocation as it came: header names in lower case, the body in pieces.

    The body is emptied once it has been translated. is_wanted: whether the caller is still there.
    waits: whether it waits for a place in tritonserver; written here, for who looks after callers.
    waited_s: how long it did, in seconds.
    held: the bytes of its body that count as held. made: those that were made of it, inflated or
    translated, which do so as well. answer: those of its answer; whoever made the request lets
    them go when the answer is sent, and what is still held of the body.
    """

    headers: Headers
    body: list[bytes]
    is_wanted: Callable[[], bool] = lambda: True
    waits: bool = False
    waited_s: float = 0.0
    made: int = 0
    answer: HeldAnswer | None = None
    held: HeldBody | None = None

    def let_body_go(self) -> None:
        """The body as it came is needed no more."""
        self.body.clear()
        if self.held is not None:
            self.held.let_go()

    def let_answer_go(self) -> None:
        """The answer is sent, or nobody waits for it."""
        if self.answer is not None:
            self.answer.let_go()


class AnswerStream:
    """An answer's body as it comes; until it is read to its end or closed it counts as in flight.

    Raises TritonUnavailable or TritonTimeout.
    """

    def __init__(self, pieces: Stream, in_flight: ExitStack) -> None:
        self._pieces, self._in_flight = pieces, in_flight

    def __aiter__(self) -> AnswerStream:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._pieces)
        except BaseException:  # its end is one
            self.close()
            raise

    def close(self) -> None:
        """Give up what has not been read; idempotent."""
        self._pieces.close()
        self._in_flight.close()


class Invocation:
    """Forwards invocations to the Triton models that the registry says are ready.

    operation: the last part of Triton's path: infer, generate or generate_stream. timeout_s: the
    limit of one invocation, and of each wait for a piece of a stream. translation: of large JSON;
    none where JSON goes to tritonserver as it comes, as it must for generate.
    """

    def __init__(
        self,
        registry: Registry,
        triton: TritonClient,
        revival: Revival,
        operation: str,
        timeout_s: float,
        translation: Translation | None = None,
        largest_body: int = MOST_INFLATED,
    ) -> None:
        self._registry, self._triton, self._revival = registry, triton, revival
        self._translation, self._largest_body = translation, largest_body
        self._suffix = f"/{operation}".encode()
        self.timeout_s = timeout_s
        #: How many invocations of models that are loaded came so far.
        self.count = 0
        self.streams = operation == "generate_stream"
        self._infers = operation == "infer"

    def expect(self, name: str) -> None:
        """Raise ModelNotLoaded where a body need not be kept: its model cannot be invoked."""
        self._registry.loaded(name)

    async def forward(self, name: str, request: Request) -> Answer:
        """The entry model's whole answer, with the headers it is to go back with.

        Its bytes are held (Request.answer). Raises CallerError (ModelNotLoaded, BadRequest),
        InvocationFailed, ResourceExhausted, Overloaded, TritonUnavailable or TritonTimeout.
        Cancel it when nobody wants the answer any more: who waits is gone at once; what
        tritonserver has keeps its place until it is answered.
        """
        model = self._registry.loaded(name)
        self.count += 1
        with model.invocation():
            deadline = time.monotonic() + self.timeout_s
            room = model.room

            def grown(size: int) -> int:
                if request.answer is None:  # a 200: nobody sends the request again
                    _let_go(room, request, question)
                    request.answer = room.held_answer()
                request.answer.grow(size)
                return request.answer.uncounted_up_to

            if not room.enter():
                await self._turn(model, request, deadline)
            try:
                question = await self._question(model, request, deadline)

                async def send(timeout_s: float) -> _Sent:
                    path = self._path(model)
                    return await self._triton.infer(
                        path,
                        question.headers,
                        question.body,
                        timeout_s,
                        room,
                        self.timeout_s,
                        grown,
                    ), None

                answer, _ = await self._answered(model, request, send, deadline, question.body)
                if question.translated or request.made:
                    _let_go(room, request, question)
            finally:
                room.leave()
                if request.made:
                    room.let_go(request.made)
            if self._translation is not None:
                answer = await self._in_time(
                    self._translation.answer(model, question, answer, deadline, grown)
                )
        answer.headers = response_headers(answer.headers)
        return answer

    async def stream(self, name: str, request: Request) -> tuple[Answer, AnswerStream]:
        """The head of the entry model's answer, and its body as it comes; raises alike."""
        model = self._registry.loaded(name)
        self.count += 1
        with ExitStack() as in_flight:
            in_flight.enter_context(model.invocation())
            deadline = time.monotonic() + self.timeout_s
            if not model.room.enter():
                await self._turn(model, request, deadline)
            in_flight.callback(model.room.leave)
            in_flight.callback(lambda: model.room.let_go(request.made))
            question = await self._question(model, request, deadline)

            async def send(timeout_s: float) -> _Sent:
                return await self._triton.stream(
                    self._path(model), question.headers, question.body, timeout_s
                )

            answer, body = await self._answered(model, request, send, deadline, question.body)
            assert body is not None
            answer.headers = response_headers(answer.headers)
            return answer, AnswerStream(body, in_flight.pop_all())

    async def _turn(self, model: Model, request: Request, deadline: float) -> None:
        """Wait for a place in tritonserver."""
        request.waits, began = True, time.monotonic()
        try:
            await model.room.wait(max(0.0, deadline - time.monotonic()))
        except WaitedTooLong as error:
            raise TritonTimeout(
                f"the invocation of the model {model.name}, waiting for others of that model,",
                self.timeout_s,
                "SERVE_INVOKE_TIMEOUT",
            ) from error
        finally:
            request.waits, request.waited_s = False, time.monotonic() - began

    async def _question(self, model: Model, request: Request, deadline: float) -> Question:
        """What tritonserver is asked; nothing that it must not be given (envelope)."""
        body = request.body
        if not any(body):
            raise BadRequest("the body", "nothing", "an inference request of the v2 protocol")
        if is_compressed(request.headers):
            body = await self._inflated(model, request)
        asked = Question(request_headers(request.headers, body), body)
        if self._translation is not None:
            asked = await self._in_time(
                self._translation.question(model, asked, deadline, request.is_wanted)
            )
            if asked.translated:
                _hold_tensors(model.room, request, asked)
                head, *tensors = asked.body
                check_request(head, sum(map(len, tensors)))  # its strings were written by us
                return asked
        size = json_length(asked.headers)
        if size == 0:  # one tensor and no word about it
            return asked
        if len(body) > 1:  # tritonserver gets the very bytes that are read here
            asked = Question(asked.headers, [b"".join(body)])
        whole = asked.body[0]
        if not self._infers:
            check_object(whole)
        elif size is None:
            check_request(whole)
        else:
            for start, end, count in check_request(whole[:size], len(whole) - size):
                await stepwise(check_strings(whole, size + start, size + end, count))
        return asked

    async def _inflated(self, model: Model, request: Request) -> list[bytes]:
        counted = request.held.counted if request.held is not None else 0

        def grown(size: int) -> None:
            model.room.hold(size - request.made, counted + request.made)
            request.made = size

        body = await stepwise(inflated(request.body, self._largest_body, grown))
        request.let_body_go()
        return body

    async def _in_time(self, translating: Awaitable[_T]) -> _T:
        try:
            return await translating
        except TurnLate as error:
            raise TritonTimeout(
                "the invocation, waiting for others to be translated,",
                self.timeout_s,
                "SERVE_INVOKE_TIMEOUT",
            ) from error

    async def _answered(
        self,
        model: Model,
        request: Request,
        send: Callable[[float], Awaitable[_Sent]],
        deadline: float,
        said: Sequence[bytes],
    ) -> _Sent:
        """What Triton answers with 200, at the second try if the model was lost at the first.

        The limit of an invocation is for all of it: both tries, and the reload between them.
        """
        if model.state is State.RELOADING:
            await self._within(deadline, model.settled())
        generation = model.generation
        answer, body = await self._sent(model, request, send, deadline)
        if answer.status == 200:
            return answer, body
        refused = await self._refusal(model, generation, answer, body, said)
        if refused.verdict not in _LOST:
            raise _error(model, refused)
        await self._within(deadline, self._revival.revive(model, generation))
        generation = model.generation
        answer, body = await self._sent(model, request, send, deadline)
        if answer.status != 200:
            raise _error(model, await self._refusal(model, generation, answer, body, said))
        return answer, body

    async def _sent(
        self,
        model: Model,
        request: Request,
        send: Callable[[float], Awaitable[_Sent]],
        deadline: float,
    ) -> _Sent:
        try:
            return await send(max(0.0, deadline - time.monotonic()))
        except TritonTimeout as error:
            waited = (
                f", which waited {request.waited_s:.3g} s of that for others of that model,"
                if request.waited_s > self.timeout_s / 2
                else ""
            )
            raise TritonTimeout(
                f"the invocation of the model {model.name}{waited}",
                self.timeout_s,
                "SERVE_INVOKE_TIMEOUT",
            ) from error

    async def _within(self, deadline: float, waiting: Awaitable[None]) -> None:
        try:
            await within(waiting, deadline - time.monotonic())
        except asyncio.TimeoutError as error:
            raise TritonTimeout(
                "the invocation, with loading the model again,",
                self.timeout_s,
                "SERVE_INVOKE_TIMEOUT",
            ) from error

    async def _refusal(
        self,
        model: Model,
        generation: int,
        answer: Answer,
        body: Stream | None,
        said: Sequence[bytes],
    ) -> Refusal:
        if body is not None:
            answer.body.extend([piece async for piece in body])
        plan = model.serving
        refused = refusal(answer, plan, said)
        if refused.verdict is Verdict.STUB_DIED:
            dead = dead_model(refused.message, plan.triton_names) or plan.entry
            self._registry.note_lost(model, generation, dead)
        elif plan.called and quotes_a_death(refused.message, plan.triton_names):
            return await self._death_of_a_called_model(model, generation, refused)
        return refused

    async def _death_of_a_called_model(
        self, model: Model, generation: int, refused: Refusal
    ) -> Refusal:
        """The refusal itself, unless a stub has really died.

        What a model raises may repeat what its caller wrote, so the text alone is no proof.
        """
        dead = await self._revival.dead_stubs(model)
        for name in dead:
            self._registry.note_lost(model, generation, name)
        known = model.generation != generation or model.state is State.RELOADING
        return Refusal(Verdict.STUB_DIED, refused.message) if dead or known else refused

    def _path(self, model: Model) -> bytes:
        return b"/v2/models/" + model.serving.entry.encode() + self._suffix


def _let_go(room: WaitingRoom, request: Request, question: Question) -> None:
    """The request is answered: nothing of its body is kept, nor counted."""
    request.let_body_go()
    question.body.clear()
    room.let_go(request.made)
    request.made = 0


def _hold_tensors(room: WaitingRoom, request: Request, translated: Question) -> None:
    """They are held from now on in the place of the text, of which nothing is left."""
    request.let_body_go()
    room.let_go(request.made)
    request.made = 0
    size = sum(map(len, translated.body))
    if size > UNCOUNTED:
        room.hold(size)
        request.made = size


def _error(model: Model, refused: Refusal) -> ServeError:
    """Ours for Triton's: who is at fault decides what the caller is told."""
    mark = _CUT if refused.cut else ""  # behind a traceback nobody misses what is cut
    message = one_sentence(refused.message + mark) or "no reason was given"
    if refused.verdict is Verdict.CALLER:
        return CallerError(message)
    if refused.verdict is Verdict.EXHAUSTED:
        return ResourceExhausted(f"no resources to invoke the model {model.name}: {message}")
    if refused.verdict is Verdict.UNAVAILABLE:
        return TritonUnavailable(message)
    return InvocationFailed(f"the model {model.name} failed: {message}")
