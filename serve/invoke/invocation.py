"""One request to the entry model and its answer back; bytes pass through.

The line: a place in tritonserver → what it is asked, checked or translated (bodies.py) → sent →
answered. It bends once. When the answer says that the model's Triton models were lost under
it, they are loaded again and the request is sent once more: nobody has answered it yet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from serve.deadline import within
from serve.errors import TritonTimeout
from serve.invoke.bodies import Bodies
from serve.invoke.failures import Failures
from serve.invoke.headers import make_response_headers
from serve.invoke.request import Passage, Request
from serve.invoke.translation import TurnLate
from serve.limit import TimeLimit, name_setting
from serve.models.registry import Registry, State
from serve.models.revival import Revival
from serve.triton.client import TritonClient
from serve.triton.connection import Answer
from serve.triton.diagnosis.verdicts import Verdict

LOST = {Verdict.STUB_DIED, Verdict.NOT_LOADED}


class Invocation:
    """Forwards invocations to the Triton models that the registry says are ready.

    operation: the last part of Triton's path: infer, generate or generate_stream. timeout_s: the
    limit of one invocation, and of each wait for a piece of a stream; a TimeLimit, where messages
    are to name its setting. bodies, failures: what reads requests, and answers that are no 200.
    """

    def __init__(
        self,
        registry: Registry,
        triton: TritonClient,
        revival: Revival,
        operation: str,
        timeout_s: float,
        bodies: Bodies,
        failures: Failures,
    ) -> None:
        self._registry, self._triton, self._revival = registry, triton, revival
        self._bodies, self._failures = bodies, failures
        self._suffix = f"/{operation}".encode()
        self.timeout_s = timeout_s
        #: How many invocations of models that are loaded came so far.
        self.count = 0
        #: How many of them tritonserver has answered with 200.
        self.answered = 0
        self.streams = operation == "generate_stream"
        self._generates = operation == "generate"

    def expect(self, name: str) -> None:
        """Raise ModelNotLoaded where a body need not be kept: its model cannot be invoked."""
        self._registry.loaded(name)

    async def forward(self, name: str, request: Request) -> Answer:
        """The entry model's answer, with the headers it is to go back with.

        Its bytes are held (Request.answer). Raises CallerError (ModelNotLoaded, BadRequest),
        FailedAtRequest, InvocationFailed, ResourceExhausted, Overloaded, TritonUnavailable or
        TritonTimeout.
        Cancel it when nobody wants the answer any more: who waits is gone at once; what
        tritonserver has keeps its place until it is answered.

        An endpoint that streams has the answer's head, and in its `rest` the body as it comes,
        which raises alike. Until that is read to its end or closed the invocation counts as in
        flight. Given up before, it keeps its place until it begins to be answered, and is closed
        then, which a decoupled model can see.
        """
        model = self._registry.loaded(name)
        self.count += 1
        with Passage(model, request, self.timeout_s) as passage:
            try:
                await passage.take_place()
                request.waits = self.streams  # until it is begun
                passage.triton_request = await self._bodies.read(passage)
                answer = await self._send(passage)
                if answer.rest is not None:
                    request.waits = False
                    passage.go_on_with(answer.rest)
                else:
                    if passage.triton_request.translated or request.derived_bytes:
                        passage.release_request()
                    passage.leave_place()
                    answer = await self._bodies.write(passage, answer)
            except TurnLate as error:
                raise passage.late(", waiting for others to be translated,") from error
        answer.headers = make_response_headers(answer.headers)
        return answer

    async def _send(self, passage: Passage) -> Answer:
        """The answer with 200, of the second try if the model was lost at the first.

        The limit of an invocation is for all of it: both tries, and the reload between them.
        """
        model, record = passage.model, passage.request.record
        began = record.triton_began = time.monotonic()
        may_revive = True
        try:
            if model.state is State.RELOADING:
                record.cold = True
                await self._until_loaded(passage, model.settled())
            while True:
                generation = model.generation
                try:
                    answer = await self._infer(passage)
                except TritonTimeout as error:
                    raise _late(passage) from error
                if self._generates and _failed_late(answer):
                    answer.status = 500
                if answer.status == 200:
                    break
                refused = await self._failures.read(
                    model, generation, passage.triton_request, answer
                )
                if refused.verdict not in LOST or not may_revive:
                    raise self._failures.error(model, passage.triton_request, refused)
                may_revive, record.cold = False, True
                await self._until_loaded(passage, self._revival.revive(model, generation))
        finally:
            record.triton_s = time.monotonic() - began
        model.failures = 0
        self.answered += 1
        return answer

    def _infer(self, passage: Passage) -> Awaitable[Answer]:
        """No coroutine, but the client's: each costs at every request."""
        model, triton_request = passage.model, passage.triton_request
        left_s = max(0.0, passage.deadline - time.monotonic())
        if self.streams:  # each piece has as long, because of the same setting
            left_s = TimeLimit(left_s, name_setting(self.timeout_s))
        return self._triton.infer(
            b"/v2/models/" + model.plan.entry.encode() + self._suffix,
            triton_request.headers,
            triton_request.body,
            left_s,
            held=model.queue,
            left_s=self.timeout_s,
            grown=passage.hold_answer,
            streams=self.streams,
        )

    async def _until_loaded(self, passage: Passage, loading: Awaitable[None]) -> None:
        try:
            await within(loading, passage.deadline - time.monotonic())
        except asyncio.TimeoutError as error:
            raise passage.late(", with loading the model again,") from error


def _failed_late(answer: Answer) -> bool:
    """Of a generate request: behind the model's first answer, which makes a 200 with an error.

    A model's answer begins with its name.
    """
    return answer.status == 200 and bool(answer.body) and answer.body[0].startswith(b'{"error":')


def _late(passage: Passage) -> TritonTimeout:
    """The error for an answer that has not come."""
    waited_s, which = passage.request.record.waiting_s, f" of the model {passage.model.name}"
    if waited_s > passage.limit_s / 2:
        which += f", which waited {waited_s:.3g} s of that for others of that model,"
    return passage.late(which)
