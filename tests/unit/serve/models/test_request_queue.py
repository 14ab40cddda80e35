"""Who waits for which model, in what order, and how much is held of them."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serve.errors import BodyTooLarge, InvocationFailed, Overloaded
from serve.limit import UNCOUNTED, Limit
from serve.models.request_queue import (
    MIB,
    UNORDERED,
    Bounds,
    HeldBody,
    RequestQueue,
    RequestQueues,
    WaitedTooLong,
)
from tests.support.clock import Clock
from tests.support.examples import examples

WAIT_S = 60.0


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def entering(queue: RequestQueue, name: int, order: list[int]) -> asyncio.Task[None]:
    """A caller who notes when he has a place, and keeps it."""

    async def enter() -> None:
        if not queue.enter():
            await queue.wait(WAIT_S)
        order.append(name)

    return asyncio.ensure_future(enter())


async def test_first_come_first_served() -> None:
    """As many as there are places go on at once; each that leaves lets in the one next in line."""
    queue = RequestQueues().queue("m", 2)
    order: list[int] = []
    callers = [entering(queue, number, order) for number in range(5)]
    await settle()
    assert (order, queue.taken, queue.waiting) == ([0, 1], 2, 3)
    for number in range(2, 5):
        queue.leave()
        await settle()
        assert order[-1] == number
    await asyncio.gather(*callers)
    queue.leave()
    queue.leave()
    assert (queue.taken, queue.waiting) == (0, 0)


async def test_a_place_that_is_given_back_goes_to_who_waits() -> None:
    """Not to one who comes before it is taken up."""
    queue = RequestQueues().queue("m", 1)
    order: list[int] = []
    assert queue.enter()
    waits = entering(queue, 1, order)
    await settle()
    queue.leave()
    assert not queue.enter()
    await waits
    assert order == [1]


async def test_leaving_costs_nothing() -> None:
    """Who is cancelled while waiting is gone at once, and so is what he holds of the numbers."""
    queues = RequestQueues()
    queue = queues.queue("m", 1)
    assert queue.enter()
    order: list[int] = []
    callers = [entering(queue, number, order) for number in range(400)]
    await settle()
    for caller in callers[:-1]:
        caller.cancel()
    await settle()
    assert (queue.waiting, queues.waiting) == (1, 1)
    queue.leave()
    await callers[-1]
    assert order == [399]


async def test_a_place_given_to_one_who_leaves_is_passed_on() -> None:
    """Cancelled between being called and going in."""
    queue = RequestQueues().queue("m", 1)
    order: list[int] = []
    assert queue.enter()
    first, second = entering(queue, 1, order), entering(queue, 2, order)
    await settle()
    queue.leave()
    first.cancel()
    await second
    assert (order, queue.taken, queue.waiting) == ([2], 1, 0)


async def test_waiting_ends() -> None:
    """After the time given; its place in the line is gone."""
    queue = RequestQueues().queue("m", 1)
    assert queue.enter()
    with pytest.raises(WaitedTooLong):
        await queue.wait(0.01)
    assert queue.waiting == 0
    queue.leave()
    assert queue.taken == 0


async def test_a_place_that_is_kept() -> None:
    """Until tritonserver has answered nobody gets it, though its caller has gone."""
    queue = RequestQueues().queue("m", 1)
    order: list[int] = []
    assert queue.enter()
    waits = entering(queue, 1, order)
    await settle()
    release = queue.keep()
    queue.leave()
    await settle()
    assert (order, queue.taken, queue.waiting) == ([], 1, 1)
    release()
    await waits
    assert (order, queue.taken) == ([1], 1)


@pytest.mark.parametrize(("places", "most"), [(UNORDERED, 4), (6, 6), (300, 4)])
async def test_streams_that_are_left(places: int, most: int) -> None:
    """While four wait to be begun where any number may, nobody is let in; else each has a place."""
    queue = RequestQueues(streams=True).queue("m", places)
    order: list[int] = []
    releases: list[Callable[[], None]] = []
    while len(releases) < most:
        assert queue.enter()
        releases.append(queue.keep())
        queue.leave()
    assert not queue.enter()
    waits = entering(queue, 1, order)
    await settle()
    assert (order, queue.taken) == ([], most)
    releases.pop()()
    await waits
    while releases:
        releases.pop()()
    queue.leave()
    assert (order, queue.taken) == ([1], 0)


async def test_callers_who_leave_do_not_make_a_model_quick(clock: Clock) -> None:
    """Its places grow with what it answers."""
    clock.stop()
    queue = RequestQueues().queue("m", 1)
    order: list[int] = []
    assert queue.enter()
    waits = [entering(queue, number, order) for number in range(3)]
    await settle()
    releases = []
    for _ in range(1000):
        releases.append(queue.keep())
        queue.leave()
    clock.advance(0.06)
    waits.append(entering(queue, 4, order))
    await settle()
    assert (queue.places, order) == (1, [])
    for waiting in waits:
        waiting.cancel()


async def test_without_a_number_nobody_waits() -> None:
    """Places None."""
    queue = RequestQueues().queue("m")
    assert all(queue.enter() for _ in range(1000))


async def test_a_quick_model_has_more_places(clock: Clock) -> None:
    """As many as it answers in a quarter of a second, up to 16; few again when it is slow."""
    clock.stop()
    queue = RequestQueues().queue("m", 4)
    order: list[int] = []
    for _ in range(4):
        queue.enter()
    assert not queue.enter()
    callers = [entering(queue, 0, order)]
    await settle()
    assert (queue.places, queue.waiting) == (4, 1)
    for _ in range(30):
        queue.leave()
        queue.enter()
    clock.advance(0.1)
    callers += [entering(queue, number, order) for number in range(1, 20)]
    await settle()
    assert (queue.places, queue.taken) == (16, 16)
    clock.advance(0.1)
    callers.append(entering(queue, 20, order))
    await settle()
    assert (queue.places, queue.taken, queue.waiting) == (4, 16, 8)
    for _ in range(12):
        queue.leave()
    assert (queue.taken, queue.waiting) == (4, 8)
    for _ in range(12):
        queue.leave()
        await settle()
    await asyncio.gather(*callers)
    assert order == list(range(21))
    assert (queue.taken, queue.waiting) == (0, 0)


async def test_a_pace_of_earlier_gives_no_places(clock: Clock) -> None:
    """Who comes in a crowd a while after it finds few: the model may be slow by now."""
    clock.stop()
    queue = RequestQueues().queue("m", 2)
    while queue.enter():
        pass
    for _ in range(30):
        queue.leave()
        queue.enter()
    clock.advance(0.1)
    assert [queue.enter() for _ in range(20)].count(True) == 14
    for _ in range(16):
        queue.leave()
    clock.advance(0.3)
    assert [queue.enter() for _ in range(20)].count(True) == 2


async def test_bounds_in_number() -> None:
    """One too many is refused at once, for its model and in all; the others go on waiting."""
    bounds = Bounds(Limit(2, "SERVE_WAITING"), total_waiting=Limit(3, "SERVE_TOTAL"))
    queues = RequestQueues(bounds)
    one, other = queues.queue("m", 1), queues.queue("n", 1)
    order: list[int] = []
    callers = [entering(one, number, order) for number in range(3)]
    await settle()
    with pytest.raises(Overloaded, match=r"2 requests wait for the model 'm' already .*_WAITING\)"):
        await one.wait(WAIT_S)
    callers += [entering(other, number, order) for number in (3, 4)]
    await settle()
    with pytest.raises(Overloaded, match=r"3 requests wait already .*_TOTAL"):
        await other.wait(WAIT_S)
    for queue in (one, one, other):
        queue.leave()
    await asyncio.gather(*callers)
    assert queues.waiting == 0


async def test_a_bound_of_its_own() -> None:
    """The archive's, where it is the less; the sentence says whose it is."""
    queues = RequestQueues(Bounds(Limit(3, "SERVE_WAITING")))
    queue = queues.queue("m", 1)
    queue.open(1, Limit(1, "max_queue_size of slow"))
    order: list[int] = []
    callers = [entering(queue, number, order) for number in range(2)]
    await settle()
    with pytest.raises(Overloaded, match=r"1 requests wait .* \(max_queue_size of slow\)"):
        await queue.wait(WAIT_S)
    queue.open(UNORDERED, None, 1)
    assert queue.places == 1
    queue.open(1)
    callers += [entering(queue, number, order) for number in (2, 3)]
    await settle()
    with pytest.raises(Overloaded, match=r"3 requests wait .*_WAITING"):
        await queue.wait(WAIT_S)
    for _ in range(3):
        queue.leave()
    await asyncio.gather(*callers)
    assert order == [0, 1, 2, 3]


def held(queues: RequestQueues, name: str = "m", largest: int = 100 * MIB) -> HeldBody:
    """A body of a request for that model."""
    return HeldBody(queues, name, largest)


def test_bounds_in_bytes() -> None:
    """Of a model, and in all; what is let go is free at once, what is small is not counted."""
    queues = RequestQueues(Bounds(held_bytes=4 * MIB, total_held_bytes=6 * MIB))
    one, two, third = held(queues), held(queues), held(queues, "n")
    one.grow(3 * MIB)
    with pytest.raises(Overloaded, match="answers of 4 MB for the model 'm' are held already"):
        two.grow(2 * MIB)
    two.grow(UNCOUNTED)
    with pytest.raises(Overloaded, match="answers of 6 MB are held already"):
        third.grow(4 * MIB)
    one.release()
    one.release()
    assert queues.held_bytes == 0
    third.grow(4 * MIB)
    third.release()
    assert queues.held_bytes == 0


TOO_LARGE = r"found 1000001 bytes and more, expected at most 1000000 bytes \(SERVE_THE_LARGEST\)$"


def test_a_body_that_is_too_large() -> None:
    """Is refused when its first byte too many comes; the message names the setting."""
    body = held(RequestQueues(), largest=Limit(1_000_000, "SERVE_THE_LARGEST"))
    body.grow(1_000_000)
    with pytest.raises(BodyTooLarge, match=TOO_LARGE):
        body.grow(1_000_001)


def test_an_answer_that_is_too_large() -> None:
    """One that alone is more than may be held would be refused for ever: the model's fault."""
    bounds = Bounds(held_bytes=4 * MIB, total_held_bytes=Limit(3 * MIB, "SERVE_MAX_IN_ALL"))
    queues = RequestQueues(bounds)
    answer = queues.queue("m").held_answer()
    answer.grow(3 * MIB)
    too_large = r"'m' answers with more than 3 MB \(SERVE_MAX_IN_ALL\)"
    with pytest.raises(InvocationFailed, match=too_large):
        answer.grow(3 * MIB + 1)
    with pytest.raises(Overloaded):
        queues.queue("n").held_answer().grow(MIB)
    answer.release()
    assert queues.held_bytes == 0


def test_an_answer_of_just_the_size() -> None:
    """It is not refused for the step that it is counted in."""
    queues = RequestQueues(Bounds(held_bytes=1_000_000, total_held_bytes=2_000_000))
    answer = queues.queue("m").held_answer()
    answer.grow(1_000_000)
    assert queues.held_bytes == 1_000_000
    answer.release()


@given(st.lists(st.integers(0, 3 * MIB), max_size=40))
def test_bytes_are_counted_once(pieces: list[int]) -> None:
    """Never less than what came, but for little bodies; never a step more; nothing in the end."""
    queues = RequestQueues(Bounds(held_bytes=200 * MIB, total_held_bytes=200 * MIB))
    body = held(queues, largest=200 * MIB)
    size = 0
    for piece in pieces:
        size += piece
        body.grow(size)
        assert size <= max(queues.held_bytes, UNCOUNTED)
        assert queues.held_bytes < size + 256 * 1024
    body.release()
    assert queues.held_bytes == 0


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.integers(1, 5))
@example(4, 4)
def test_whatever_happens(seed: int, places: int) -> None:
    """Callers come, leave early, are answered or abandoned in any order, while time passes.

    No more than `places` are ever at work, nobody is let in before one who waits longer, and in the
    end nothing is taken and nobody waits.
    """
    asyncio.run(_whatever(random.Random(seed), places))


async def _whatever(chance: random.Random, places: int) -> None:
    queues = RequestQueues()
    queue = queues.queue("m", places)
    at_work: deque[int] = deque()
    callers: dict[int, asyncio.Task[None]] = {}
    left_early: set[int] = set()
    served: set[int] = set()
    waiting: set[int] = set()
    last_let_in = -1
    kept: list[Callable[[], None]] = []
    now_s = 0.0

    async def call(number: int) -> None:
        nonlocal last_let_in
        if queue.enter():
            assert not queue.waiting
        else:
            waiting.add(number)
            try:
                await queue.wait(WAIT_S)
            finally:
                waiting.remove(number)
            last_let_in = max(last_let_in, number)
        at_work.append(number)
        served.add(number)

    def answer() -> None:
        if kept and chance.random() < 0.5:
            kept.pop()()
        elif at_work:
            at_work.popleft()
            if chance.random() < 0.3:  # he leaves, tritonserver works on
                kept.append(queue.keep())
            queue.leave()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: now_s)
        for number in range(80):
            callers[number] = asyncio.ensure_future(call(number))
            if chance.random() < 0.3:
                await settle()
            if chance.random() < 0.4:
                answer()
            if chance.random() < 0.3:
                victim = chance.choice(list(callers))
                if callers[victim].cancel():
                    left_early.add(victim)
            now_s += chance.choice((0.0, 0.01, 0.06, 0.12))  # the pace is looked at, or is not
            if chance.random() < 0.3:
                await settle()
                assert queue.taken == len(at_work) + len(kept)
                assert queue.taken <= max(places, 16)  # they are quick
                assert all(number > last_let_in for number in waiting)
        for _ in range(1000):
            await settle()
            answer()
        results = await asyncio.gather(*callers.values(), return_exceptions=True)
    assert all(r is None or isinstance(r, asyncio.CancelledError) for r in results)
    assert served | left_early == set(range(80))
    assert (queue.taken, queue.waiting, queues.waiting) == (0, 0, 0)
