"""How often a model may be asked, by a clock that stands still but for what a test passes."""

from __future__ import annotations

import logging
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from serve.errors import AskedTooOften
from serve.models.registry import Model, Registry, State
from serve.models.request_rate import RequestRate
from tests.support.clock import Clock

#: Times are whole numbers of these, and rates of eighths: so all that is compared here is exact.
_TICK = Fraction(1, 64)
_RATES = st.integers(1, 8 * 40).map(lambda eighths: Fraction(eighths, 8))
_GAPS = st.lists(st.one_of(st.just(0), st.integers(0, 16), st.integers(0, 200)), max_size=120)


class Asked:
    """One loaded model, which is asked at times of the test's choice."""

    def __init__(self, most_a_second: float, names: str = "m", began_s: int = 10**6) -> None:
        self.now, self._began_s = Fraction(0), began_s
        self.registry = Registry()
        self.models = {name: self.load(name) for name in names}
        self.rate = RequestRate(self.registry, most_a_second, self._read_clock)

    def _read_clock(self) -> int:
        return int((self._began_s + self.now) * 10**9)

    def load(self, name: str) -> Model:
        model = self.registry.begin_load(name, "")
        model.enter(State.READY)
        return model

    def is_let_in(self, name: str = "m") -> bool:
        return self.rate.count(name) is None


def _may_come(let_in: list[Fraction], now: Fraction, rate: Fraction) -> bool:
    """Whether every span that ends now, this request included, has no more than it may.

    A span may have as many as its length times the rate, and a second's worth; one at least.
    """
    burst = max(Fraction(1), rate)
    return all(
        len(let_in) - first + 1 <= burst + rate * (now - earlier)
        for first, earlier in enumerate(let_in)
    )


@given(rate=_RATES, gaps=_GAPS)
@example(rate=Fraction(1), gaps=[64] * 5)
@example(rate=Fraction(3), gaps=[0] * 5 + [64, 0, 0, 0, 0])
@example(rate=Fraction(1, 8), gaps=[512, 511, 1, 512])
def test_counted_over_every_span(rate: Fraction, gaps: list[int]) -> None:
    """A request is let in exactly where counting all spans by hand lets it in."""
    asked = Asked(float(rate))
    let_in: list[Fraction] = []
    for gap in gaps:
        asked.now += gap * _TICK
        may_come = _may_come(let_in, asked.now, rate)
        assert asked.is_let_in() == may_come
        if may_come:
            let_in.append(asked.now)
    for start in let_in:
        within = sum(start <= time < start + 1 for time in let_in)
        assert within <= rate + max(Fraction(1), rate)


@given(rate=_RATES, began_s=st.integers(0, 10**9))
@example(rate=Fraction(3, 8), began_s=10**6)
def test_a_caller_at_the_rate_gets_all(rate: Fraction, began_s: int) -> None:
    """However long he goes on, and however long the machine has been running."""
    asked = Asked(float(rate), began_s=began_s)
    for number in range(300):
        asked.now = number / rate
        assert asked.is_let_in()


@given(rate=_RATES, gaps=_GAPS)
def test_what_a_refusal_promises(rate: Fraction, gaps: list[int]) -> None:
    """Who comes back after as many seconds as he was told is let in, and refusals count nothing."""
    asked = Asked(float(rate))
    error: AskedTooOften | None = None
    for gap in (*gaps, *[0] * 45):
        asked.now += gap * _TICK
        error = asked.rate.count("m") or error
    assert error is not None
    for _ in range(1000):
        asked.is_let_in()
    asked.now += error.retry_after_s
    assert error.retry_after_s >= 1
    assert asked.is_let_in()


def test_models_have_rates_of_their_own() -> None:
    """One who floods his model takes nothing from another."""
    asked = Asked(2, "ab")
    assert [asked.is_let_in("a") for _ in range(4)] == [True, True, False, False]
    assert [asked.is_let_in("b") for _ in range(3)] == [True, True, False]


def test_a_model_that_is_not_there_has_none() -> None:
    """Its callers are told that it is not loaded; nothing is kept of names that callers make up."""
    asked = Asked(0.5)
    assert all(asked.is_let_in("other") for _ in range(3))
    asked.registry.begin_load("coming", "")
    assert all(asked.is_let_in("coming") for _ in range(3))


def test_a_model_that_comes_back_has_asked_as_often_as_before() -> None:
    """Whoever kills his model's process by flooding it is let in no sooner for it."""
    asked = Asked(1)
    assert asked.is_let_in()
    asked.registry.begin_reload(asked.models["m"])
    assert not asked.is_let_in()
    asked.registry.finish_reload(asked.models["m"])
    assert not asked.is_let_in()


def test_a_model_that_is_loaded_anew_begins_anew() -> None:
    """Nobody but the platform unloads, and nothing is kept of models that are gone."""
    asked = Asked(1)
    assert [asked.is_let_in(), asked.is_let_in()] == [True, False]
    asked.registry.forget(asked.registry.begin_unload("m"))
    asked.load("m")
    assert [asked.is_let_in(), asked.is_let_in()] == [True, False]


def test_refusals_are_logged_now_and_then(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """The first of a flood, with the status that all of it gets; not each."""
    clock.stop()
    asked = Asked(1)
    for _ in range(50):
        asked.is_let_in()
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert line.getMessage() == (
        "refused with 429: the model 'm' is asked more than 1 times a second; try again in 1 s"
    )
