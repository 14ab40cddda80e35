"""One invocation as it came, and what of it counts as held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from serve.invoke.translation import TritonRequest
from serve.limit import UNCOUNTED
from serve.models.waiting_room import HeldAnswer, HeldBody, WaitingRoom
from serve.telemetry.record import InvocationRecord
from serve.triton.connection import Headers


@dataclass
class Request:
    """An invocation as it came: header names in lower case, the body in pieces.

    The body is emptied once it has been translated. is_wanted: whether the caller is still there.
    waits: whether it waits for a place in tritonserver, or is a stream that has not begun; written
    here, for who looks after callers.
    record: what is told of it when it has ended; how long its parts took is written there.
    held: the bytes of its body that count as held. derived_bytes: of what was made of it, inflated
    or translated, which count as well. answer: those of its answer; whoever made the request lets
    them go when the answer is sent, and what is still held of the body.
    """

    headers: Headers
    body: list[bytes]
    is_wanted: Callable[[], bool] = lambda: True
    waits: bool = False
    derived_bytes: int = 0
    answer: HeldAnswer | None = None
    held: HeldBody | None = None
    record: InvocationRecord = field(default_factory=lambda: InvocationRecord(""))

    def let_body_go(self) -> None:
        """The body as it came is needed no more."""
        self.body.clear()
        if self.held is not None:
            self.held.let_go()

    def let_answer_go(self) -> None:
        """The answer is sent, or nobody waits for it."""
        if self.answer is not None:
            self.answer.let_go()


def let_go(room: WaitingRoom, request: Request, triton_request: TritonRequest) -> None:
    """The request is answered: nothing of its body is kept, nor counted."""
    request.let_body_go()
    triton_request.body.clear()
    room.let_go(request.derived_bytes)
    request.derived_bytes = 0


def hold_tensors(room: WaitingRoom, request: Request, translated: TritonRequest) -> None:
    """They are held from now on in the place of the text, of which nothing is left."""
    request.let_body_go()
    room.let_go(request.derived_bytes)
    request.derived_bytes = 0
    size = sum(map(len, translated.body))
    if size > UNCOUNTED:
        room.hold(size)
        request.derived_bytes = size
