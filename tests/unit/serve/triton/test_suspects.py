"""Who is suspected of tritonserver's death, who is condemned, and who never is."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import ModelUnusable, RequestRefused
from serve.triton.suspects import (
    ABANDONED_S,
    BROKEN_S,
    MOST,
    MOST_UNHASHED,
    REMEMBERED_S,
    BookEntry,
    Judgement,
    LoadWork,
    RequestWork,
    Standing,
    Suspects,
    Work,
)
from serve.triton.trials import Trials
from tests.support.clock import Clock as LoopsClock


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Desk:
    """A book and the clock on its wall."""

    clock: Clock = field(default_factory=Clock)
    most: int = MOST
    most_unhashed: int = MOST_UNHASHED
    book: Suspects = field(init=False)

    def __post_init__(self) -> None:
        self.book = Suspects(self.clock, self.most, self.most_unhashed)

    def dies_in(self, *works: Work) -> Judgement | None:
        """These are in tritonserver, and it dies; their connections end before that is known."""
        for work in works:
            self.book.enter(work)
        for work in works[::2]:
            self.book.lost(work, broken=True)
        self.clock.now += 0.1
        judgement = self.book.died()
        for work in works[1::2]:
            self.book.lost(work, broken=True)
        return judgement


def request(body: bytes = b"killer", path: bytes = b"/v2/models/m/infer") -> RequestWork:
    return RequestWork(path, [body[:2], body[2:]])


def test_a_request_at_two_deaths_is_refused() -> None:
    """The first makes it a suspect; the second, with no other suspect there, the culprit."""
    desk = Desk()
    assert desk.dies_in(request(), request(b"other1")) is None
    assert desk.book.standing(request()) is Standing.SUSPECT
    judgement = desk.dies_in(request(), request(b"third."))
    assert judgement == Judgement("a request of 6 bytes to /v2/models/m/infer", 2)
    assert desk.book.standing(request()) is Standing.CULPRIT
    assert desk.book.standing(request(b"other1")) is Standing.SUSPECT
    assert desk.book.standing(request(b"third.")) is Standing.INNOCENT
    assert isinstance(request().refused(), RequestRefused)


def test_the_hash_is_of_the_model_and_the_bytes() -> None:
    """However they are cut, and not of the same bytes to another model."""
    desk = Desk()
    desk.dies_in(request())
    assert desk.book.standing(RequestWork(b"/v2/models/m/infer", [b"killer"])) is Standing.SUSPECT
    assert desk.book.standing(RequestWork(b"/v2/models/n/infer", [b"killer"])) is Standing.INNOCENT
    assert desk.book.standing(request(b"filler")) is Standing.INNOCENT


def test_a_model_that_came_back_is_the_same() -> None:
    """tritonserver knows it by another name while its predecessor leaves."""
    desk = Desk()
    desk.dies_in(request(path=b"/v2/models/m/infer"))
    desk.dies_in(request(path=b"/v2/models/m=-1/infer"))
    for path in (b"/v2/models/m/infer", b"/v2/models/m=-2/infer"):
        assert desk.book.standing(request(path=path)) is Standing.CULPRIT


def test_what_is_answered_is_cleared() -> None:
    """Also when its answer comes after the death was judged; then nobody is watched any more."""
    desk = Desk()
    first, late = request(b"first"), request(b"late")
    desk.book.enter(first)
    desk.book.answered(first)
    desk.dies_in(late)
    assert desk.book.standing(request(b"first")) is Standing.INNOCENT
    assert desk.book.watching
    desk.book.answered(late)
    assert not desk.book.watching
    assert desk.book.standing(request(b"late")) is Standing.INNOCENT


def test_what_is_being_answered_is_cleared() -> None:
    """Its body need not be kept from then on, whatever becomes of the answer."""
    desk = Desk()
    late, again = request(b"late"), request(b"again")
    desk.dies_in(late, again)
    desk.book.begun(late)
    assert desk.book.standing(request(b"late")) is Standing.INNOCENT
    desk.book.enter(again)
    for _ in range(2):
        desk.book.begun(again)
    assert desk.book.inside == 0
    assert again.is_over
    assert not desk.book.watching
    desk.dies_in(request(b"other"))
    desk.book.answered(again)
    desk.book.lost(again, broken=True)
    desk.book.clear(again)
    assert desk.book.standing(request(b"other")) is Standing.SUSPECT


def test_a_broken_connection_counts_for_some_seconds() -> None:
    """One that broke long before the death broke for another reason."""
    desk = Desk()
    work = request()
    desk.book.enter(work)
    desk.book.lost(work, broken=True)
    desk.clock.now += BROKEN_S + 1
    assert desk.book.died() is None
    assert not desk.book.watching


def test_a_long_request_that_is_given_up_is_hashed_elsewhere() -> None:
    """Until then it is known by itself; what waits for that is bounded."""
    desk = Desk(most_unhashed=1 << 20)
    asked: list[None] = []
    desk.book.hash_later = lambda: asked.append(None)
    bodies = [bytes([number]) * desk.most_unhashed for number in range(3)]
    works = [request(body) for body in bodies]
    for work in works[:2]:
        desk.book.enter(work)
        desk.book.lost(work, broken=True)
    assert asked == [None]
    assert desk.book.unhashed is works[0]
    assert list(desk.book.lost_sight_of.entries) == [works[1].key()]
    desk.book.hashed(works[0], works[0].key())
    assert desk.book.unhashed is None
    desk.book.enter(works[2])
    desk.book.lost(works[2], broken=True)
    assert len(asked) == 2
    desk.book.died()
    desk.book.hashed(works[2], works[2].key())
    assert not desk.book.lost_sight_of.entries
    for body in bodies:
        assert desk.book.standing(request(body)) is Standing.SUSPECT


def test_old_entries_are_looked_for_now_and_then() -> None:
    """Not at each request, however many there are of which one is due."""
    desk = Desk()
    looks = 0

    class Counting(OrderedDict[bytes, BookEntry]):
        def values(self) -> Any:
            nonlocal looks
            looks += 1
            return super().values()

    desk.book.suspected.entries = Counting()
    for number in range(1000):
        desk.dies_in(request(b"%d" % number))
    desk.clock.now += REMEMBERED_S - 100
    looks = 0
    for _ in range(2000):
        desk.clock.now += 0.1
        desk.book.standing(request())
    assert 50 < looks < 250
    assert not desk.book.watching


def test_an_abandoned_request_is_suspect_and_alone_no_proof() -> None:
    """tritonserver may still have it, or not: it is condemned at its third death."""
    desk = Desk()
    for death in (1, 2, 3):
        work = request()
        desk.book.enter(work)
        desk.book.lost(work, broken=False)
        desk.clock.now += ABANDONED_S - 1
        judgement = desk.book.died()
        assert (judgement is None) == (death < 3)
    assert judgement is not None
    assert judgement.deaths == 3
    assert desk.book.standing(request()) is Standing.CULPRIT


def test_an_abandoned_suspect_beside_another_one() -> None:
    """The other one is not condemned in its place."""
    desk = Desk()
    slow, other = request(b"slow killer"), request(b"other")
    desk.dies_in(slow, other)
    again = request(b"slow killer")
    desk.book.enter(again)
    desk.book.lost(again, broken=False)
    assert desk.dies_in(request(b"other")) is None
    assert desk.book.standing(other) is Standing.SUSPECT


def test_two_that_were_there_at_two_deaths_are_condemned_at_the_third() -> None:
    """One that hangs goes on beside the next suspect: neither death says which of them it was."""
    desk = Desk()
    for death in (1, 2, 3):
        judgement = desk.dies_in(request(), request(b"other1"))
        assert (judgement is None) == (death < 3)
        expected = Standing.SUSPECT if death < 3 else Standing.CULPRIT
        assert {desk.book.standing(it) for it in (request(), request(b"other1"))} == {expected}


def test_a_load_is_refused_for_good_and_another_archive_is_not() -> None:
    """By name and archive, and with a sentence about the archive."""
    desk = Desk()
    for _ in range(2):
        judgement = desk.dies_in(LoadWork("m", "/opt/ml/models/1/model 7 8 9"), request())
        desk.book.clear(request())
    assert judgement is not None
    assert judgement.culprit == "the load of the model m"
    desk.clock.now += 100 * REMEMBERED_S
    assert desk.book.standing(LoadWork("m", "/opt/ml/models/1/model 7 8 9")) is Standing.CULPRIT
    assert desk.book.standing(LoadWork("m", "/opt/ml/models/2/model 1 2 3")) is Standing.INNOCENT
    refused = LoadWork("m", "").refused()
    assert isinstance(refused, ModelUnusable)
    assert "'m'" in str(refused)


def test_requests_are_forgotten_after_an_hour() -> None:
    """Suspects and culprits; then nothing is watched."""
    desk = Desk()
    desk.dies_in(request(), request(b"other"))
    desk.dies_in(request())
    assert desk.book.standing(request()) is Standing.CULPRIT
    desk.clock.now += REMEMBERED_S + 1
    assert desk.book.standing(request()) is Standing.INNOCENT
    assert desk.book.standing(request(b"other")) is Standing.INNOCENT
    assert not desk.book.watching


def test_what_was_no_doing_of_its_own_is_not_held_against_it() -> None:
    """A shortage that showed after the death was judged, too."""
    desk = Desk()
    for _ in range(2):
        desk.dies_in(LoadWork("m", "a"))
    desk.book.acquit(LoadWork("m", "a"))
    assert desk.book.standing(LoadWork("m", "a")) is Standing.INNOCENT
    assert not desk.book.watching


def test_a_tritonserver_that_stood_still() -> None:
    """The loads that it did not answer are suspect, and what else was in it is not."""
    desk = Desk()
    desk.book.enter(request())
    assert desk.book.stood_still([LoadWork("m", "a")]) is None
    assert desk.book.standing(request()) is Standing.INNOCENT
    assert desk.dies_in(LoadWork("n", "b")) is None
    judgement = desk.book.stood_still([LoadWork("m", "a")])
    assert judgement is not None
    assert judgement.culprit == "the load of the model m"


def test_memory_is_bounded() -> None:
    """The oldest are forgotten, and with them what they are found by."""
    desk = Desk(most=100)
    for number in range(150):
        desk.dies_in(request(b"%d" % number), LoadWork(f"m{number}", ""))
        desk.dies_in(LoadWork(f"m{number}", ""))
    for book in (desk.book.suspected, desk.book.condemned, desk.book.lost_sight_of):
        assert len(book.entries) <= 100
        assert sum(book.marks.values()) == len(book.entries)
    assert desk.book.standing(LoadWork("m149", "")) is Standing.CULPRIT
    assert desk.book.standing(LoadWork("m1", "")) is Standing.INNOCENT


_BODIES = [b"body %d" % number for number in range(6)]
KILLER = b"the killer"


@given(
    rounds=st.lists(st.tuples(st.sets(st.sampled_from(_BODIES)), st.booleans()), max_size=30),
    seed=st.integers(0, 2**32),
)
def test_with_one_killer_no_innocent_is_condemned(
    rounds: list[tuple[set[bytes], bool]], seed: int
) -> None:
    """When each suspect goes alone and only the killer kills, only the killer is condemned.

    That takes two deaths, whatever came with it and however often the others come again.
    """
    desk = Desk()
    order = random.Random(seed)
    deaths = 0
    for bodies, kills in rounds:
        coming = [request(body) for body in sorted(bodies)] + ([request(KILLER)] if kills else [])
        order.shuffle(coming)
        standings = {work: desk.book.standing(work) for work in coming}
        free = [work for work, standing in standings.items() if standing is Standing.INNOCENT]
        alone = [work for work, standing in standings.items() if standing is Standing.SUSPECT]
        for group in ([*free, *alone[:1]], *([work] for work in alone[1:])):
            if any(work.key() == request(KILLER).key() for work in group):
                deaths += 1
                desk.dies_in(*group)
            else:
                for work in group:
                    desk.book.enter(work)
                    desk.book.answered(work)
                    desk.book.clear(work)
    assert deaths == min(2, sum(kills for _, kills in rounds))
    assert not any(desk.book.standing(request(body)) is Standing.CULPRIT for body in _BODIES)
    expected = (Standing.INNOCENT, Standing.SUSPECT, Standing.CULPRIT)[deaths]
    assert desk.book.standing(request(KILLER)) is expected


async def test_suspects_take_turns_and_innocents_do_not_wait(clock: LoopsClock) -> None:
    """One suspect at a time, in the order in which they come, requests and loads alike."""
    desk = Desk()
    desk.dies_in(request(b"a"), LoadWork("m", "a"), request(b"c"))
    clock.stop()  # a turn is waited for some seconds at most
    trials = Trials(desk.book)
    events: list[str] = []
    go_on = asyncio.Event()

    async def carry_out(name: str) -> None:
        events.append(f"{name} begins")
        await go_on.wait()
        events.append(f"{name} ends")

    async def on_trial(name: str, work: Work) -> None:
        await trials.run(work, lambda: carry_out(name))

    tasks = [
        asyncio.ensure_future(on_trial(name, work))
        for name, work in (
            ("a", request(b"a")),
            ("load", LoadWork("m", "a")),
            ("innocent", request(b"innocent")),
            ("c", request(b"c")),
        )
    ]
    for _ in range(20):
        await asyncio.sleep(0)
    assert sorted(events) == ["a begins", "innocent begins"]
    tasks[1].cancel()  # it waits, and goes away
    go_on.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [event for event in events if "innocent" not in event] == [
        "a begins",
        "a ends",
        "c begins",
        "c ends",
    ]


async def test_one_that_is_condemned_while_it_waits_does_not_go() -> None:
    """Its twin, which went before it, killed tritonserver."""
    desk = Desk()
    desk.dies_in(request())
    trials = Trials(desk.book)
    waiting: list[asyncio.Future[None]] = []

    async def twin() -> None:
        waiting.append(asyncio.ensure_future(trials.run(request(), never)))
        await asyncio.sleep(0)
        desk.dies_in(request())

    async def never() -> None:
        raise AssertionError("it went")

    await trials.run(request(), twin)
    with pytest.raises(RequestRefused, match="in flight when tritonserver died twice"):
        await waiting[0]
    with pytest.raises(RequestRefused):
        await trials.run(request(), never)
