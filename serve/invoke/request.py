"""One invocation as it came, its way to one model, and what of it counts as held."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from serve.errors import TritonTimeout
from serve.invoke.triton_request import TritonRequest
from serve.limit import UNCOUNTED
from serve.models.registry import Model
from serve.models.request_queue import HeldAnswer, HeldBody, WaitedTooLong
from serve.telemetry.invocation_record import InvocationRecord
from serve.triton.connection import AnswerStream, Headers


@dataclass
class Request:
    """An invocation as it came. Whoever made it releases its answer when that is sent."""

    headers: Headers  # names in lower case
    body: list[bytes]  # in pieces; emptied once it has been translated
    is_wanted: Callable[[], bool] = lambda: True  # whether the caller is still there
    #: It waits for a place in tritonserver, or is a stream that has not begun. Written here, for
    #: who looks after callers.
    waits: bool = False
    derived_bytes: int = 0  # held of what was made of the body, inflated or translated
    answer: HeldAnswer | None = None  # the bytes of its answer that count as held
    held: HeldBody | None = None  # those of its body
    record: InvocationRecord = field(default_factory=lambda: InvocationRecord(""))

    def release_body(self) -> None:
        """The body as it came is needed no more."""
        self.body.clear()
        if self.held is not None:
            self.held.release()

    def release_answer(self) -> None:
        """The answer is sent, or nobody waits for it."""
        if self.answer is not None:
            self.answer.release()


class Passage:
    """A request on its way to a model and back: its place in tritonserver, and what it holds.

    A context, within which the invocation counts as in flight: the model's unload waits for it.
    limit_s: of the invocation. deadline: its end, of time.monotonic().
    """

    triton_request: TritonRequest  # what tritonserver is asked
    __slots__ = (
        "_beside",
        "_goes_on",
        "_has_place",
        "_queue",
        "deadline",
        "limit_s",
        "model",
        "request",
        "triton_request",
    )

    def __init__(self, model: Model, request: Request, limit_s: float) -> None:
        self.model, self.request, self._queue = model, request, model.queue
        # A number and no Deadline: there is one at each invocation.
        self.limit_s, self.deadline = limit_s, time.monotonic() + limit_s
        self._beside: ExitStack | None = None
        self._has_place = self._goes_on = False

    def __enter__(self) -> Passage:
        self.model.begin_invocation()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._goes_on:
            self._end()

    async def take_place(self) -> None:
        """Wait for a place in tritonserver. Raises Overloaded and TritonTimeout."""
        if self._queue.enter():
            self._has_place = True
            return
        request = self.request
        request.waits, began = True, time.monotonic()
        try:
            await self._queue.wait(max(0.0, self.deadline - began))
            self._has_place = True
        except WaitedTooLong as error:
            raise self.late(
                f" of the model {self.model.name}, waiting for others of that model,"
            ) from error
        finally:
            request.waits, request.record.waiting_s = False, time.monotonic() - began

    @property
    def beside(self) -> ExitStack:
        """To be closed when tritonserver has answered."""
        if self._beside is None:
            self._beside = ExitStack()
        return self._beside

    def late(self, which: str) -> TritonTimeout:
        """The error of a wait that ends when the invocation's time is over."""
        return TritonTimeout(f"the invocation{which}", self.limit_s)

    def hold_derived(self, size: int) -> None:
        """Count so many bytes of what was made of the body, which is held beside it."""
        request = self.request
        counted = request.held.counted if request.held is not None else 0
        self._queue.hold(size - request.derived_bytes, counted + request.derived_bytes)
        request.derived_bytes = size

    def hold_tensors(self, translated: TritonRequest) -> None:
        """Count the tensors instead of the text, of which nothing is left."""
        self.request.release_body()
        self._release_derived()
        size = sum(map(len, translated.body))
        if size > UNCOUNTED:
            self._queue.hold(size)
            self.request.derived_bytes = size

    def hold_answer(self, size: int) -> int:
        """Count so much of a 200; returns up to which size it is not called again (Grown)."""
        request = self.request
        if request.answer is None:
            self.release_request()  # nobody sends it again
            request.answer = self._queue.held_answer()
        request.answer.grow(size)
        return request.answer.uncounted_up_to

    def release_request(self) -> None:
        """It is answered: nothing of its body is kept, nor counted."""
        self.request.release_body()
        self.triton_request.body.clear()
        self._release_derived()

    def leave_place(self) -> None:
        """tritonserver has it no more; idempotent."""
        if self._has_place:
            self._has_place = False
            if self._beside is not None:
                self._beside.close()
            self._queue.leave()
            self._release_derived()

    def go_on_with(self, rest: AnswerStream) -> None:
        """It lasts until that is read to its end or closed."""
        self._goes_on = True
        rest.at_end.callback(self._end)

    def _release_derived(self) -> None:
        if self.request.derived_bytes:
            self._queue.release(self.request.derived_bytes)
            self.request.derived_bytes = 0

    def _end(self) -> None:
        self.leave_place()
        self.model.end_invocation()
