"""Requests and answers of which a sample is kept: what the event loop does of it. No I/O.

Bodies are kept as the pieces they came in, without a copy. All that a writer has not taken yet, and
what is still being answered, has at most so many bytes; what is more is dropped and counted. One
thread, the event loop's, puts in, another takes out; each counts the bytes by a number of its own.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

Headers = list[tuple[bytes, bytes]]

#: Bytes of a request and its answer together, with the request's headers: a larger one would hold
#: the interpreter's lock for milliseconds while it is written.
LARGEST = 1024 * 1024
#: Bytes of all that wait.
MOST_BYTES = 16 * 1024 * 1024
#: Why an exchange is not kept, as the label `reason` says it: LARGEST, MOST_BYTES.
TOO_LARGE, QUEUE = "size", "queue"
#: Bytes that the objects of an exchange take beside its bodies, and those of a header beside its
#: text: a million of small ones would be a gigabyte.
_OBJECTS, _HEADER_OBJECTS = 1024, 128


@dataclass(slots=True)
class CapturedExchange:
    """A request and its answer, as the caller sent the one and got the other."""

    at: float  # when the request was whole, in seconds since 1970
    model_name: str
    headers: Headers  # names in lower case, here and below
    body: Sequence[bytes]
    size: int  # bytes that it takes, of both bodies as far as they are there
    answer_headers: Headers = field(default_factory=list)
    answer: Sequence[bytes] = ()
    is_answered: bool = False
    #: Those of a candidate whose answer is another one; None for what the model was asked.
    candidate_headers: Headers | None = None
    candidate_answer: Sequence[bytes] = ()

    def keep_answer(self, headers: Headers, pieces: Sequence[bytes]) -> None:
        """It is answered with 200; pieces: of the body, not to be changed any more."""
        self.answer_headers, self.answer, self.is_answered = headers, pieces, True


class CaptureQueue:
    """percent: of requests that are kept, by lot. dropped: told the reason of each drop."""

    def __init__(
        self,
        percent: float,
        dropped: Callable[[str], None],
        most_bytes: int = MOST_BYTES,
        largest: int = LARGEST,
    ) -> None:
        self._share, self._dropped = percent / 100, dropped
        self._most_bytes, self._largest = most_bytes, largest
        self._waiting: deque[CapturedExchange] = deque()
        self._entered = self._left = 0  # bytes since the start

    # -- the event loop's

    def draw(self) -> bool:
        """Whether the next request is one of the sample."""
        return random.random() < self._share

    def begin(
        self, model_name: str, headers: Headers, pieces: Sequence[bytes], size: int
    ) -> CapturedExchange | None:
        """A request was drawn; None where it is not kept. Each that is must come to its `end`."""
        size += _OBJECTS
        for name, value in headers:
            size += _HEADER_OBJECTS + len(name) + len(value)
        if not self._enter(size, 0):
            return None
        return CapturedExchange(time.time(), model_name, headers, [*pieces], size)

    def end(self, exchange: CapturedExchange) -> None:
        """Its answer was sent, or nobody will have it: then there is nothing to write."""
        size = sum(map(len, (*exchange.answer, *exchange.candidate_answer)))
        if exchange.is_answered and self._enter(size, exchange.size):
            exchange.size += size
            self._waiting.append(exchange)
        else:
            self._entered -= exchange.size

    def _enter(self, size: int, before: int) -> bool:
        """Count the bytes, if there is room for them; before: those of the same exchange."""
        if size + before > self._largest:
            self._dropped(TOO_LARGE)
        elif self._entered - self._left + size > self._most_bytes:
            self._dropped(QUEUE)
        else:
            self._entered += size
            return True
        return False

    # -- the writer's

    def take(self) -> Iterator[CapturedExchange]:
        """What waits; each counts as waiting until the next is taken."""
        while self._waiting:
            exchange = self._waiting.popleft()
            try:
                yield exchange
            finally:
                self._left += exchange.size
