"""What is kept of requests and answers until somebody writes it, and how much that may be."""

from __future__ import annotations

from collections import Counter

import pytest

from serve.telemetry.captures import CapturedExchange, CaptureQueue

HEADERS = [(b"content-type", b"application/json")]
#: Bytes, so many that what an exchange takes beside its bodies is a small part of them.
MANY = 100_000
ROOM = 10 * MANY + MANY // 2


class Captures:
    """A queue, and what it dropped."""

    def __init__(self, percent: float = 100, **bounds: int) -> None:
        self.dropped: Counter[str] = Counter()
        self.queue = CaptureQueue(percent, lambda reason: self.dropped.update([reason]), **bounds)

    def begin(self, body: bytes) -> CapturedExchange | None:
        if not self.queue.draw():
            return None
        return self.queue.begin("m", HEADERS, [body], len(body))

    def exchange(self, body: bytes, answer: bytes) -> None:
        """A request that is answered with 200, as far as it is kept."""
        captured = self.begin(body)
        if captured is not None:
            captured.keep_answer(HEADERS, [answer])
            self.queue.end(captured)


def test_bodies_are_kept_as_they_are() -> None:
    """In their order, the same objects, whatever becomes of the lists that they came in."""
    captures, body, answer = Captures(), [b"a" * 100, b"b"], b"c"
    captured = captures.queue.begin("m", HEADERS, body, 101)
    assert captured is not None
    first = body[0]
    body.clear()
    captured.keep_answer(HEADERS, [answer])
    captures.queue.end(captured)
    captures.exchange(b"second", b"")
    taken = list(captures.queue.take())
    assert taken[0].body[0] is first
    assert taken[0].answer[0] is answer
    assert taken[0].size - taken[1].size == 102 - 6


def test_what_is_not_answered_leaves_nothing() -> None:
    """Errors, and callers who left: there is room for the next one, and nothing to write."""
    captures = Captures(most_bytes=ROOM)
    for _ in range(5):
        captured = captures.begin(b"x" * 10 * MANY)
        assert captured is not None
        captures.queue.end(captured)
    assert list(captures.queue.take()) == []
    assert not captures.dropped


def test_no_more_bytes_wait_than_may() -> None:
    """Requests in flight count; what is more is dropped and counted; what was taken makes room."""
    captures = Captures(most_bytes=ROOM)
    captures.exchange(b"x" * 4 * MANY, b"y" * 2 * MANY)
    in_flight = captures.begin(b"z" * 4 * MANY)
    assert in_flight is not None
    assert captures.begin(b"z" * MANY) is None
    in_flight.keep_answer([], [b"a" * MANY])  # for which there is no room
    captures.queue.end(in_flight)
    assert captures.dropped == {"queue": 2}
    assert len(list(captures.queue.take())) == 1
    captures.exchange(b"x" * 5 * MANY, b"y" * 5 * MANY)
    assert captures.dropped == {"queue": 2}


def test_what_is_being_written_counts_until_the_next_is_taken() -> None:
    """Its bytes are still held."""
    captures = Captures(most_bytes=ROOM)
    captures.exchange(b"x" * 10 * MANY, b"")
    captures.exchange(b"", b"")
    taken = captures.queue.take()
    next(taken)
    assert captures.begin(b"x" * MANY) is None
    next(taken)
    assert captures.begin(b"x" * 10 * MANY) is not None


def test_a_candidates_answer_takes_room() -> None:
    """Beside the model's, until it is written."""
    captures = Captures(most_bytes=ROOM)
    captured = captures.begin(b"x" * 4 * MANY)
    assert captured is not None
    captured.keep_answer(HEADERS, [b"y" * 3 * MANY])
    captured.candidate_answer = [b"z" * 3 * MANY]
    captures.queue.end(captured)
    assert captures.begin(b"x" * MANY) is None
    assert len(list(captures.queue.take())) == 1
    assert captures.begin(b"x" * 10 * MANY) is not None


@pytest.mark.parametrize(("body", "answer"), [(11, 0), (6, 5), (0, 11)])
def test_large_ones_are_not_kept(body: int, answer: int) -> None:
    """A request and its answer together; they hold no room."""
    captures = Captures(most_bytes=15 * MANY, largest=ROOM)
    for _ in range(3):
        captures.exchange(b"x" * body * MANY, b"y" * answer * MANY)
    assert captures.dropped == {"size": 3}
    captures.exchange(b"x" * 5 * MANY, b"y" * 5 * MANY)
    assert len(list(captures.queue.take())) == 1


def test_a_share_is_chosen_by_lot() -> None:
    """A quarter, and others than every fourth; what is not chosen was not dropped."""
    captures = Captures(25)
    chosen = [captures.begin(b"") is not None for _ in range(4000)]
    assert 700 < sum(chosen) < 1300  # eleven standard deviations
    assert len({sum(chosen[start::4]) for start in range(4)}) > 1
    assert not captures.dropped


def test_small_ones_take_room() -> None:
    """What Python's objects and the headers need counts, and is far more than their bodies."""
    captures = Captures(most_bytes=1_000_000)
    for _ in range(1000):
        captures.exchange(b"{}", b"{}")
    assert 0 < len(list(captures.queue.take())) < 900
    header = [(b"x", b"y" * 900_000)]
    assert captures.queue.begin("m", header, [], 0) is not None
    assert captures.queue.begin("m", header, [], 0) is None
