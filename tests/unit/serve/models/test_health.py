"""When a container that cannot bring models back is sick: each numbered case of the module."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from serve.models.health import Health

AFTER_S = 120.0
WHY = "no memory"


@dataclass
class Told:
    """A Health, and what it looks at."""

    now: float = 1000.0
    well: int = 0
    may_serve: bool = False
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health(AFTER_S, lambda: self.well, lambda: self.may_serve, lambda: self.now)

    def fail(self, *, after_s: float = 0.0, takes_s: float = 0.0) -> None:
        """A reload fails that begins after_s later and takes so long."""
        self.now += after_s
        self.health.begin()
        self.now += takes_s
        self.health.failed(WHY)

    def fail_for_long(self) -> None:
        """As long as it takes to be sick."""
        self.fail()
        for _ in range(4):
            self.fail(after_s=AFTER_S / 4)

    @property
    def is_sick(self) -> bool:
        return self.health.trouble() is not None


@pytest.fixture
def told() -> Told:
    return Told()


def test_1_nothing_has_failed(told: Told) -> None:
    """However long it runs; a reload that begins is no failure, nor is one that is given up."""
    told.now += 10 * AFTER_S
    assert not told.is_sick
    told.health.begin()
    told.now += 10 * AFTER_S
    assert not told.is_sick


def test_2_it_may_heal(told: Told) -> None:
    """Up to the limit, however many failures there are."""
    for _ in range(100):
        told.fail(after_s=AFTER_S / 101)
    assert not told.is_sick
    told.now += AFTER_S / 101
    assert not told.is_sick, "time alone proves nothing"


def test_3_it_does_not_heal(told: Told) -> None:
    """The sentence says for how long, and what kept the last model away."""
    told.fail_for_long()
    assert told.health.trouble() == (
        "for 120 s no model that was lost could be loaded again: no memory"
    )
    told.fail(after_s=30)
    assert "150 s" in (told.health.trouble() or "")


def test_4_what_goes_well_heals_at_once(told: Told) -> None:
    """And what fails later begins anew, for which it takes as long again."""
    told.fail_for_long()
    told.well += 1
    assert not told.is_sick
    told.fail()
    told.fail(after_s=AFTER_S - 1)
    assert not told.is_sick
    told.fail(after_s=1)
    assert told.is_sick


def test_4_nobody_need_ask_in_between(told: Told) -> None:
    """What went well between two failures counts, also when /ping does not ask meanwhile."""
    told.fail()
    told.well += 1
    told.fail(after_s=AFTER_S)
    assert not told.is_sick
    told.fail(after_s=AFTER_S)
    assert told.is_sick


def test_4_what_went_well_before_proves_nothing(told: Told) -> None:
    """It is what came before the first failure."""
    told.well += 100
    told.fail_for_long()
    assert told.is_sick


def test_5_another_model_can_be_served(told: Told) -> None:
    """Its failures count from when that was lost, too."""
    told.may_serve = True
    told.fail_for_long()
    assert not told.is_sick
    told.may_serve = False
    assert not told.is_sick
    told.fail_for_long()
    assert told.is_sick
    told.may_serve = True  # 6 as well: it was the only one, and is unloaded
    assert not told.is_sick
    told.may_serve = False
    assert not told.is_sick


def test_5_it_could_be_served_at_the_first_failure(told: Told) -> None:
    """Its loss begins the time in which nobody can, also when /ping does not ask meanwhile."""
    told.may_serve = True
    told.fail()
    told.may_serve = False
    told.fail(after_s=AFTER_S)
    assert not told.is_sick


def test_7_nobody_asks_any_more(told: Told) -> None:
    """It is well again after a pause, and begins anew."""
    told.fail_for_long()
    told.now += AFTER_S
    assert told.is_sick
    told.now += 1
    assert not told.is_sick
    told.fail()
    assert not told.is_sick
    told.fail_for_long()
    assert told.is_sick


def test_7_lone_failures_make_nothing_sick(told: Told) -> None:
    """A model that nobody asks for again, and one that is asked for now and then."""
    told.fail()
    told.now += AFTER_S
    assert not told.is_sick
    for _ in range(10):
        told.fail(after_s=AFTER_S + 1)
        assert not told.is_sick


def test_8_slow_failures_are_no_pause(told: Told) -> None:
    """Each takes longer than the limit, and one is not enough."""
    told.fail(takes_s=3 * AFTER_S)
    assert not told.is_sick
    told.fail(after_s=1, takes_s=3 * AFTER_S)
    assert told.is_sick


def test_8_reloads_that_overlap(told: Told) -> None:
    """Two that began together and fail together are one moment."""
    told.health.begin()
    told.health.begin()
    told.now += 3 * AFTER_S
    told.health.failed(WHY)
    told.health.failed(WHY)
    assert not told.is_sick
