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
from dataclasses import replace
from typing import TypeVar

from serve.deadline import within
from serve.errors import (
    BadRequest,
    CallerError,
    FailedAtRequest,
    InvocationFailed,
    Overloaded,
    ResourceExhausted,
    ServeError,
    StoreUnavailable,
    TritonTimeout,
    TritonUnavailable,
)
from serve.invoke.envelope import Checked, check_object, check_request, check_strings
from serve.invoke.explanations import explain_refusal
from serve.invoke.headers import (
    MOST_INFLATED,
    inflated,
    is_compressed,
    json_length,
    request_headers,
    response_headers,
    with_tensors,
)
from serve.invoke.json.exact_doubles import read_exact_doubles
from serve.invoke.json.tensor_json import NotTaken
from serve.invoke.mistakes import find_mistake, refused_by_step
from serve.invoke.request import Request, hold_tensors, let_go
from serve.invoke.translation import (
    Translation,
    TritonRequest,
    TurnLate,
    stepwise,
    write_in_json,
)
from serve.invoke.whole_answers import ask_for_all, find_asked_part, is_json
from serve.limit import TimeLimit, setting_of
from serve.models.registry import MOST_FAILURES, Model, Registry, State
from serve.models.revival import Revival
from serve.models.waiting_room import WaitedTooLong
from serve.triton.client import TritonClient
from serve.triton.connection import MOST_OF_ERROR, Answer
from serve.triton.functions import is_never_the_callers
from serve.triton.http import AnswerStream
from serve.triton.messages import (
    Verdict,
    dead_model,
    failure_cause,
    quotes_a_death,
    speaks_of_values,
    without_code,
    without_regions,
)
from serve.triton.refusals import Refusal, refusal

_LOST = {Verdict.STUB_DIED, Verdict.NOT_LOADED}

#: Stands at the end of what a model said, where that is not all of it.
_CUT = f"… (cut after {MOST_OF_ERROR // 1024} KB)"

_NO_REASON = "no reason was given"

#: What the body of an error begins with.
_ERROR = b'{"error":'

_T = TypeVar("_T")
_Sent = tuple[Answer, AnswerStream | None]


class Invocation:
    """Forwards invocations to the Triton models that the registry says are ready.

    operation: the last part of Triton's path: infer, generate or generate_stream. timeout_s: the
    limit of one invocation, and of each wait for a piece of a stream; a TimeLimit, where messages
    are to name its setting. translation: of large JSON; none where JSON goes to tritonserver as it
    comes, as it must for generate. threshold_setting: what sets from which size on it is
    translated, as a message names it. streaming: what makes an endpoint that streams, likewise.
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
        threshold_setting: str = "the threshold",
        streaming: str = "generate_stream",
    ) -> None:
        self._registry, self._triton, self._revival = registry, triton, revival
        self._translation, self._largest_body = translation, largest_body
        self._threshold_setting, self._streaming = threshold_setting, streaming
        self._suffix = f"/{operation}".encode()
        self.timeout_s = timeout_s
        #: How many invocations of models that are loaded came so far.
        self.count = 0
        #: How many of them tritonserver has answered with 200.
        self.answered = 0
        self.streams = operation == "generate_stream"
        self._infers = operation == "infer"

    def expect(self, name: str) -> None:
        """Raise ModelNotLoaded where a body need not be kept: its model cannot be invoked."""
        self._registry.loaded(name)

    async def forward(self, name: str, request: Request) -> Answer:
        """The entry model's whole answer, with the headers it is to go back with.

        Its bytes are held (Request.answer). Raises CallerError (ModelNotLoaded, BadRequest),
        FailedAtRequest, InvocationFailed, ResourceExhausted, Overloaded, TritonUnavailable or
        TritonTimeout.
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
                    let_go(room, request, triton_request)
                    request.answer = room.held_answer()
                request.answer.grow(size)
                return request.answer.uncounted_up_to

            if not room.enter():
                await self._wait_for_place(model, request, deadline)
            held = ExitStack()
            try:
                triton_request = await self._make_triton_request(model, request, deadline, held)

                async def send(timeout_s: float) -> _Sent:
                    path = self._path(model)
                    answer = await self._triton.infer(
                        path,
                        triton_request.headers,
                        triton_request.body,
                        timeout_s,
                        room,
                        self.timeout_s,
                        grown,
                    )
                    return answer if self._infers else _with_status(answer), None

                answer, _ = await self._send_reviving(
                    model, request, send, deadline, triton_request
                )
                if triton_request.translated or request.derived_bytes:
                    let_go(room, request, triton_request)
            finally:
                held.close()
                room.leave()
                if request.derived_bytes:
                    room.let_go(request.derived_bytes)
            if self._translation is not None:
                began = time.monotonic()
                answer = await self._await_translation(
                    self._translation.translate_answer(
                        model, triton_request, answer, deadline, grown
                    )
                )
                request.record.translating_s += time.monotonic() - began
            elif triton_request.translated:
                answer = await write_in_json(triton_request, answer, grown)
        answer.headers = response_headers(answer.headers)
        return answer

    async def stream(self, name: str, request: Request) -> tuple[Answer, AnswerStream]:
        """The head of the entry model's answer, and its body as it comes; both raise alike.

        Until the body is read to its end or closed the invocation counts as in flight. Cancel it
        when nobody wants the answer: who waits is gone at once; what tritonserver has keeps its
        place until it begins to be answered, and is closed then, which a decoupled model can see.
        """
        model = self._registry.loaded(name)
        self.count += 1
        with ExitStack() as in_flight:
            in_flight.enter_context(model.invocation())
            deadline = time.monotonic() + self.timeout_s
            if not model.room.enter():
                await self._wait_for_place(model, request, deadline)
            in_flight.callback(model.room.leave)
            request.waits = True  # until it is begun
            in_flight.callback(lambda: model.room.let_go(request.derived_bytes))
            triton_request = await self._make_triton_request(model, request, deadline, in_flight)

            async def send(timeout_s: float) -> _Sent:
                return await self._triton.stream(
                    self._path(model),
                    triton_request.headers,
                    triton_request.body,
                    self._with_setting(timeout_s),
                    model.room,
                    self.timeout_s,
                )

            answer, body = await self._send_reviving(model, request, send, deadline, triton_request)
            assert body is not None
            request.waits = False
            answer.headers = response_headers(answer.headers)
            body.at_end.callback(in_flight.pop_all().close)
            return answer, body

    async def _wait_for_place(self, model: Model, request: Request, deadline: float) -> None:
        """Wait for a place in tritonserver."""
        request.waits, began = True, time.monotonic()
        try:
            await model.room.wait(max(0.0, deadline - time.monotonic()))
        except WaitedTooLong as error:
            raise self._make_late_error(
                f" of the model {model.name}, waiting for others of that model,"
            ) from error
        finally:
            request.waits, request.record.waiting_s = False, time.monotonic() - began

    async def _make_triton_request(
        self, model: Model, request: Request, deadline: float, held: ExitStack
    ) -> TritonRequest:
        """What tritonserver is asked; nothing that it must not be given (envelope).

        held: to be closed when tritonserver has answered.
        """
        began = time.monotonic()
        try:
            asked = await self._read_request(model, request, deadline, held)
            if model.fails_in_part and self._infers:
                return _asking_for_all(asked, model.serving.outputs)
            return asked
        finally:
            request.record.translating_s = time.monotonic() - began

    async def _read_request(
        self, model: Model, request: Request, deadline: float, held: ExitStack
    ) -> TritonRequest:
        body = request.body
        if not any(body):
            raise BadRequest("the body", "nothing", "an inference request of the v2 protocol")
        if is_compressed(request.headers):
            body = await self._inflate(model, request)
        asked = TritonRequest(request_headers(request.headers, body), body)
        if self._translation is not None:
            asked = await self._await_translation(
                self._translation.translate_request(model, asked, deadline, request.is_wanted, held)
            )
            if asked.translated:
                hold_tensors(model.room, request, asked)
                head, *tensors = asked.body
                # Its strings were written by us.
                checked = check_request(head, sum(map(len, tensors)), self._threshold_setting)
                if checked.has_doubles:  # in lists that are too short to be translated
                    asked = await _with_exact_doubles(asked, checked, head, tensors)
                return asked
        size = json_length(asked.headers)
        if size == 0:  # one tensor and no word about it
            return asked
        if len(body) > 1:  # tritonserver gets the very bytes that are read here
            asked = TritonRequest(asked.headers, [b"".join(body)])
        whole = asked.body[0]
        if not self._infers:
            check_object(whole)
            return asked
        text = whole if size is None else whole[:size]
        checked = check_request(text, len(whole) - len(text), self._threshold_setting)
        for start, end, count in checked.strings:
            await stepwise(check_strings(whole, len(text) + start, len(text) + end, count))
        if checked.has_doubles:
            asked = await _with_exact_doubles(asked, checked, text, [whole[len(text) :]])
        return asked

    async def _inflate(self, model: Model, request: Request) -> list[bytes]:
        counted = request.held.counted if request.held is not None else 0

        def grown(size: int) -> None:
            model.room.hold(size - request.derived_bytes, counted + request.derived_bytes)
            request.derived_bytes = size

        body = await stepwise(inflated(request.body, self._largest_body, grown))
        request.let_body_go()
        return body

    async def _await_translation(self, translating: Awaitable[_T]) -> _T:
        try:
            return await translating
        except TurnLate as error:
            raise self._make_late_error(", waiting for others to be translated,") from error

    async def _send_reviving(
        self,
        model: Model,
        request: Request,
        send: Callable[[float], Awaitable[_Sent]],
        deadline: float,
        asked: TritonRequest,
    ) -> _Sent:
        """What Triton answers with 200, at the second try if the model was lost at the first.

        The limit of an invocation is for all of it: both tries, and the reload between them.
        """
        began = request.record.triton_began = time.monotonic()
        try:
            sent = await self._try_twice(model, request, send, deadline, asked)
        finally:
            request.record.triton_s = time.monotonic() - began
        self.answered += 1
        return sent

    async def _try_twice(
        self,
        model: Model,
        request: Request,
        send: Callable[[float], Awaitable[_Sent]],
        deadline: float,
        asked: TritonRequest,
    ) -> _Sent:
        if model.state is State.RELOADING:
            request.record.cold = True
            await self._within(deadline, model.settled())
        generation = model.generation
        answer, body = await self._send_once(model, request, send, deadline)
        if answer.status == 200:
            model.failures = 0
            return answer, body
        refused = await self._read_refusal(model, generation, answer, body, asked.body)
        if refused.verdict not in _LOST:
            raise _translate_refusal(model, self._explained(model, refused, asked.body), asked)
        request.record.cold = True
        await self._within(deadline, self._revival.revive(model, generation))
        generation = model.generation
        answer, body = await self._send_once(model, request, send, deadline)
        if answer.status != 200:
            refused = await self._read_refusal(model, generation, answer, body, asked.body)
            raise _translate_refusal(model, self._explained(model, refused, asked.body), asked)
        model.failures = 0
        return answer, body

    def _explained(self, model: Model, refused: Refusal, said: Sequence[bytes]) -> Refusal:
        """With our words in the place of tritonserver's, where ours say more."""
        words = explain_refusal(
            refused.message,
            said,
            lambda: model.serving.inputs,
            self._streaming,
            lambda: model.serving.outputs,
        )
        return replace(refused, message=words.said, logged=words.logged)

    async def _send_once(
        self,
        model: Model,
        request: Request,
        send: Callable[[float], Awaitable[_Sent]],
        deadline: float,
    ) -> _Sent:
        try:
            return await send(max(0.0, deadline - time.monotonic()))
        except TritonTimeout as error:
            waited_s = request.record.waiting_s
            waited = (
                f", which waited {waited_s:.3g} s of that for others of that model,"
                if waited_s > self.timeout_s / 2
                else ""
            )
            raise self._make_late_error(f" of the model {model.name}{waited}") from error

    async def _within(self, deadline: float, waiting: Awaitable[None]) -> None:
        try:
            await within(waiting, deadline - time.monotonic())
        except asyncio.TimeoutError as error:
            raise self._make_late_error(", with loading the model again,") from error

    def _make_late_error(self, which: str) -> TritonTimeout:
        """The error of a wait that ends when the invocation's time is over.

        The deadline is a number and no Deadline: there is one at each invocation.
        """
        return TritonTimeout(f"the invocation{which}", self.timeout_s)

    async def _read_refusal(
        self,
        model: Model,
        generation: int,
        answer: Answer,
        body: AnswerStream | None,
        said: Sequence[bytes],
    ) -> Refusal:
        if body is not None:
            answer.body.extend([piece async for piece in body])
        plan = model.serving
        refused = refusal(answer, plan, said, self._triton.memory)
        if answer.status == 400 and not refused.message and not self._infers:
            return Refusal(Verdict.ENDPOINT, _describe_unknown(self._suffix[1:].decode()))
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

    def _with_setting(self, seconds: float) -> float:
        """A part of the time, because of the same setting."""
        return TimeLimit(seconds, setting_of(self.timeout_s))

    def _path(self, model: Model) -> bytes:
        return b"/v2/models/" + model.serving.entry.encode() + self._suffix


def _with_status(answer: Answer) -> Answer:
    """Of a generate request. One that fails behind the model's first answer is a 200 with an error;
    a model's answer begins with its name."""
    failed = answer.status == 200 and bool(answer.body) and answer.body[0].startswith(_ERROR)
    return replace(answer, status=500) if failed else answer


def _describe_unknown(operation: str) -> str:
    """tritonserver 2.36 answers 400, and says nothing, where it does not know the path."""
    return (
        f"this tritonserver does not know `{operation}`; use a newer one, or another inference type"
    )


def _asking_for_all(asked: TritonRequest, outputs: Sequence[str]) -> TritonRequest:
    """The request that asks for all outputs, where it asks for a part of them."""
    size = json_length(asked.headers)
    text = asked.body[0] if size is None else asked.body[0][:size]
    part = find_asked_part(text, outputs) if text else None
    if part is None:
        return asked
    all_of_it = ask_for_all(text, part, outputs)
    kept = [header for header in asked.headers if header[0] != b"accept-encoding"]
    in_json = frozenset(output.name for output in part if is_json(output))
    return TritonRequest(
        kept if size is None else with_tensors(kept, len(all_of_it)),
        [all_of_it, asked.body[0][len(text) :], *asked.body[1:]],
        translated=True,
        in_json=asked.in_json if asked.translated else in_json,
        wanted=tuple(output.name for output in part),
    )


async def _with_exact_doubles(
    asked: TritonRequest, checked: Checked, text: bytes, tensors: Sequence[bytes]
) -> TritonRequest:
    """The request with its FP64 as binary tensors; as it is where tritonserver will refuse it."""
    body = [*checked.written]
    try:
        body = body or await stepwise(read_exact_doubles(text, checked.with_doubles, tensors))
    except NotTaken:
        return asked
    if len(body) == 1:
        return asked
    return replace(asked, headers=with_tensors(asked.headers, len(body[0])), body=body)


def _translate_refusal(model: Model, refused: Refusal, asked: TritonRequest) -> ServeError:
    """Ours for Triton's: who is at fault decides what the caller is told."""
    if refused.verdict is Verdict.MODEL:
        return _translate_failure(model, refused, asked)
    mark = _CUT if refused.cut else ""  # behind a traceback nobody misses what is cut
    message = without_code(refused.message + mark, cut=refused.cut) or _NO_REASON
    if refused.verdict is Verdict.CALLER:
        error = CallerError(refused_by_step(failure_cause(message)) or message)
        error.without_values = refused.logged
        return error
    if refused.verdict is Verdict.EXHAUSTED:
        return ResourceExhausted(f"no resources to invoke the model {model.name}: {message}")
    if refused.verdict is Verdict.STORE_DOWN:
        return StoreUnavailable(f"the model {model.name} cannot answer now: {message}")
    if refused.verdict is Verdict.QUEUE_REFUSED:
        return Overloaded(f"a queue of the model {model.name} refused the request: {message}")
    if refused.verdict is Verdict.UNAVAILABLE:
        return TritonUnavailable(message)
    if refused.verdict is Verdict.ENDPOINT:
        return InvocationFailed(message)
    cause = failure_cause(refused.message + mark, cut=refused.cut)
    return InvocationFailed(f"the model {model.name} failed: {cause}")


def _translate_failure(model: Model, refused: Refusal, asked: TritonRequest) -> ServeError:
    """What a model raised, without its code; the log has all of it.

    It is the request's fault where that has a mistake in it, and may be where the model answers
    other requests, or speaks of values before it has answered any. A model that fails at one
    request after the other is at fault itself, and so is one whose code lacks a name or a module.
    """
    mark = _CUT if refused.cut else ""
    cause = failure_cause(refused.message + mark, cut=refused.cut) or _NO_REASON
    mistake = _find_mistake(model, cause, asked) if model.serving.has_columns else None
    failures = 0 if mistake else model.failed()
    error: ServeError
    if mistake:
        error = CallerError(mistake)
    elif is_never_the_callers(cause):
        error = InvocationFailed(f"the model {model.name} failed: {cause}")
    elif failures <= MOST_FAILURES:
        error = FailedAtRequest(
            f"the model {model.name} failed at this request, and answers others: {cause}"
        )
    elif failures <= 2 * MOST_FAILURES and speaks_of_values(cause):
        error = FailedAtRequest(f"the model {model.name} failed at this request: {cause}")
    else:
        error = InvocationFailed(f"the model {model.name} failed: {cause}")
    everything = " ".join(without_regions(refused.message).split())
    error.without_values = f"the model {model.name} failed: {everything}"
    return error


def _find_mistake(model: Model, cause: str, asked: TritonRequest) -> str | None:
    """The request's, in words; None where none is found."""
    if refused := refused_by_step(cause):
        return refused
    mistake = find_mistake(asked.body, json_length(asked.headers))
    return f"{mistake}; the model {model.name} failed: {cause}" if mistake else None
