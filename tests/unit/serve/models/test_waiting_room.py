"""Who waits for which model, in what order, and how much is held of them."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serve.errors import BodyTooLarge, InvocationFailed, Overloaded
from serve.limit import UNCOUNTED, Limit
from serve.models.waiting_room import (
    MIB,
    UNORDERED,
    Bounds,
    HeldBody,
    WaitedTooLong,
    WaitingRoom,
    WaitingRooms,
)
from tests.support.clock import Clock
from tests.support.examples import examples

WAIT_S = 60.0


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def entering(room: WaitingRoom, name: int, order: list[int]) -> asyncio.Task[None]:
    """A caller who notes when he has a place, and keeps it."""

    async def enter() -> None:
        if not room.enter():
            await room.wait(WAIT_S)
        order.append(name)

    return asyncio.ensure_future(enter())


async def test_first_come_first_served() -> None:
    """As many as there are places go on at once; each that leaves lets in the one next in line."""
    room = WaitingRooms().room("m", 2)
    order: list[int] = []
    callers = [entering(room, number, order) for number in range(5)]
    await settle()
    assert (order, room.taken, room.waiting) == ([0, 1], 2, 3)
    for number in range(2, 5):
        room.leave()
        await settle()
        assert order[-1] == number
    await asyncio.gather(*callers)
    room.leave()
    room.leave()
    assert (room.taken, room.waiting) == (0, 0)


async def test_a_place_that_is_given_back_goes_to_who_waits() -> None:
    """Not to one who comes before it is taken up."""
    room = WaitingRooms().room("m", 1)
    order: list[int] = []
    assert room.enter()
    waits = entering(room, 1, order)
    await settle()
    room.leave()
    assert not room.enter()
    await waits
    assert order == [1]


async def test_leaving_costs_nothing() -> None:
    """Who is cancelled while waiting is gone at once, and so is what he holds of the numbers."""
    rooms = WaitingRooms()
    room = rooms.room("m", 1)
    assert room.enter()
    order: list[int] = []
    callers = [entering(room, number, order) for number in range(400)]
    await settle()
    for caller in callers[:-1]:
        caller.cancel()
    await settle()
    assert (room.waiting, rooms.waiting) == (1, 1)
    room.leave()
    await callers[-1]
    assert order == [399]


async def test_a_place_given_to_one_who_leaves_is_passed_on() -> None:
    """Cancelled between being called and going in."""
    room = WaitingRooms().room("m", 1)
    order: list[int] = []
    assert room.enter()
    first, second = entering(room, 1, order), entering(room, 2, order)
    await settle()
    room.leave()
    first.cancel()
    await second
    assert (order, room.taken, room.waiting) == ([2], 1, 0)


async def test_waiting_ends() -> None:
    """After the time given; its place in the line is gone."""
    room = WaitingRooms().room("m", 1)
    assert room.enter()
    with pytest.raises(WaitedTooLong):
        await room.wait(0.01)
    assert room.waiting == 0
    room.leave()
    assert room.taken == 0


async def test_a_place_that_is_kept() -> None:
    """Until tritonserver has answered nobody gets it, though its caller has gone."""
    room = WaitingRooms().room("m", 1)
    order: list[int] = []
    assert room.enter()
    waits = entering(room, 1, order)
    await settle()
    release = room.keep()
    room.leave()
    await settle()
    assert (order, room.taken, room.waiting) == ([], 1, 1)
    release()
    await waits
    assert (order, room.taken) == ([1], 1)


@pytest.mark.parametrize(("places", "most"), [(UNORDERED, 4), (6, 6), (300, 4)])
async def test_streams_that_are_left(places: int, most: int) -> None:
    """While four wait to be begun where any number may, nobody is let in; else each has a place."""
    room = WaitingRooms(streams=True).room("m", places)
    order: list[int] = []
    releases: list[Callable[[], None]] = []
    while len(releases) < most:
        assert room.enter()
        releases.append(room.keep())
        room.leave()
    assert not room.enter()
    waits = entering(room, 1, order)
    await settle()
    assert (order, room.taken) == ([], most)
    releases.pop()()
    await waits
    while releases:
        releases.pop()()
    room.leave()
    assert (order, room.taken) == ([1], 0)


async def test_callers_who_leave_do_not_make_a_model_quick(clock: Clock) -> None:
    """Its places grow with what it answers."""
    clock.stop()
    room = WaitingRooms().room("m", 1)
    order: list[int] = []
    assert room.enter()
    waits = [entering(room, number, order) for number in range(3)]
    await settle()
    releases = []
    for _ in range(1000):
        releases.append(room.keep())
        room.leave()
    clock.advance(0.06)
    waits.append(entering(room, 4, order))
    await settle()
    assert (room.places, order) == (1, [])
    for waiting in waits:
        waiting.cancel()


async def test_without_a_number_nobody_waits() -> None:
    """Places None."""
    room = WaitingRooms().room("m")
    assert all(room.enter() for _ in range(1000))


async def test_a_quick_model_has_more_places(clock: Clock) -> None:
    """As many as it answers in a quarter of a second, up to 16; few again when it is slow."""
    clock.stop()
    room = WaitingRooms().room("m", 4)
    order: list[int] = []
    for _ in range(4):
        room.enter()
    assert not room.enter()
    callers = [entering(room, 0, order)]
    await settle()
    assert (room.places, room.waiting) == (4, 1)
    for _ in range(30):
        room.leave()
        room.enter()
    clock.advance(0.1)
    callers += [entering(room, number, order) for number in range(1, 20)]
    await settle()
    assert (room.places, room.taken) == (16, 16)
    clock.advance(0.1)
    callers.append(entering(room, 20, order))
    await settle()
    assert (room.places, room.taken, room.waiting) == (4, 16, 8)
    for _ in range(12):
        room.leave()
    assert (room.taken, room.waiting) == (4, 8)
    for _ in range(12):
        room.leave()
        await settle()
    await asyncio.gather(*callers)
    assert order == list(range(21))
    assert (room.taken, room.waiting) == (0, 0)


async def test_bounds_in_number() -> None:
    """One too many is refused at once, for its model and in all; the others go on waiting."""
    bounds = Bounds(Limit(2, "SERVE_WAITING"), total_waiting=Limit(3, "SERVE_TOTAL"))
    rooms = WaitingRooms(bounds)
    one, other = rooms.room("m", 1), rooms.room("n", 1)
    order: list[int] = []
    callers = [entering(one, number, order) for number in range(3)]
    await settle()
    with pytest.raises(Overloaded, match=r"2 requests wait for the model 'm' already .*_WAITING\)"):
        await one.wait(WAIT_S)
    callers += [entering(other, number, order) for number in (3, 4)]
    await settle()
    with pytest.raises(Overloaded, match=r"3 requests wait already .*_TOTAL"):
        await other.wait(WAIT_S)
    for room in (one, one, other):
        room.leave()
    await asyncio.gather(*callers)
    assert rooms.waiting == 0


async def test_a_bound_of_its_own() -> None:
    """The archive's, where it is the less; the sentence says whose it is."""
    rooms = WaitingRooms(Bounds(Limit(3, "SERVE_WAITING")))
    room = rooms.room("m", 1)
    room.open(1, Limit(1, "max_queue_size of slow"))
    order: list[int] = []
    callers = [entering(room, number, order) for number in range(2)]
    await settle()
    with pytest.raises(Overloaded, match=r"1 requests wait .* \(max_queue_size of slow\)"):
        await room.wait(WAIT_S)
    room.open(UNORDERED, None, 1)
    assert room.places == 1
    room.open(1)
    callers += [entering(room, number, order) for number in (2, 3)]
    await settle()
    with pytest.raises(Overloaded, match=r"3 requests wait .*_WAITING"):
        await room.wait(WAIT_S)
    for _ in range(3):
        room.leave()
    await asyncio.gather(*callers)
    assert order == [0, 1, 2, 3]


def held(rooms: WaitingRooms, name: str = "m", largest: int = 100 * MIB) -> HeldBody:
    """A body of a request for that model."""
    return HeldBody(rooms, name, largest)


def test_bounds_in_bytes() -> None:
    """Of a model, and in all; what is let go is free at once, what is small is not counted."""
    rooms = WaitingRooms(Bounds(held_bytes=4 * MIB, total_held_bytes=6 * MIB))
    one, two, third = held(rooms), held(rooms), held(rooms, "n")
    one.grow(3 * MIB)
    with pytest.raises(Overloaded, match="answers of 4 MB for the model 'm' are held already"):
        two.grow(2 * MIB)
    two.grow(UNCOUNTED)
    with pytest.raises(Overloaded, match="answers of 6 MB are held already"):
        third.grow(4 * MIB)
    one.release()
    one.release()
    assert rooms.held_bytes == 0
    third.grow(4 * MIB)
    third.release()
    assert rooms.held_bytes == 0


TOO_LARGE = r"found 1000001 bytes and more, expected at most 1000000 bytes \(SERVE_THE_LARGEST\)$"


def test_a_body_that_is_too_large() -> None:
    """Is refused when its first byte too many comes; the message names the setting."""
    body = held(WaitingRooms(), largest=Limit(1_000_000, "SERVE_THE_LARGEST"))
    body.grow(1_000_000)
    with pytest.raises(BodyTooLarge, match=TOO_LARGE):
        body.grow(1_000_001)


def test_an_answer_that_is_too_large() -> None:
    """One that alone is more than may be held would be refused for ever: the model's fault."""
    bounds = Bounds(held_bytes=4 * MIB, total_held_bytes=Limit(3 * MIB, "SERVE_MAX_IN_ALL"))
    rooms = WaitingRooms(bounds)
    answer = rooms.room("m").held_answer()
    answer.grow(3 * MIB)
    too_large = r"'m' answers with more than 3 MB \(SERVE_MAX_IN_ALL\)"
    with pytest.raises(InvocationFailed, match=too_large):
        answer.grow(3 * MIB + 1)
    with pytest.raises(Overloaded):
        rooms.room("n").held_answer().grow(MIB)
    answer.release()
    assert rooms.held_bytes == 0


def test_an_answer_of_just_the_size() -> None:
    """It is not refused for the step that it is counted in."""
    rooms = WaitingRooms(Bounds(held_bytes=1_000_000, total_held_bytes=2_000_000))
    answer = rooms.room("m").held_answer()
    answer.grow(1_000_000)
    assert rooms.held_bytes == 1_000_000
    answer.release()


@given(st.lists(st.integers(0, 3 * MIB), max_size=40))
def test_bytes_are_counted_once(pieces: list[int]) -> None:
    """Never less than what came, but for little bodies; never a step more; nothing in the end."""
    rooms = WaitingRooms(Bounds(held_bytes=200 * MIB, total_held_bytes=200 * MIB))
    body = held(rooms, largest=200 * MIB)
    size = 0
    for piece in pieces:
        size += piece
        body.grow(size)
        assert size <= max(rooms.held_bytes, UNCOUNTED)
        assert rooms.held_bytes < size + 256 * 1024
    body.release()
    assert rooms.held_bytes == 0


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
    rooms = WaitingRooms()
    room = rooms.room("m", places)
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
        if room.enter():
            assert not room.waiting
        else:
            waiting.add(number)
            try:
                await room.wait(WAIT_S)
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
                kept.append(room.keep())
            room.leave()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
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
                assert room.taken == len(at_work) + len(kept)
                assert room.taken <= max(places, 16)  # they are quick
                assert all(number > last_let_in for number in waiting)
        for _ in range(1000):
            await settle()
            answer()
        results = await asyncio.gather(*callers.values(), return_exceptions=True)
    assert all(r is None or isinstance(r, asyncio.CancelledError) for r in results)
    assert served | left_early == set(range(80))
    assert (room.taken, room.waiting, rooms.waiting) == (0, 0, 0)
