"""Rates by the platform's minute, and the course of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.overview import Traffic
from merlin_simulator.watch.events import EventLog


@dataclass
class Time:
    """This machine's clocks, which a test moves."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(traffic: Traffic, name: str, count: int = 1, kind: str = "invoked", **fields: str) -> None:
    for _ in range(count):
        traffic.hear(name, EventLog().tell(kind, "i", **fields))


@pytest.mark.parametrize(("scale", "window_s", "rate"), [(1, 60, 6), (6, 60, 6), (60, 600, 0.6)])
def test_rates_are_those_of_the_platforms_minute(
    scale: float, window_s: float, rate: float
) -> None:
    """Of its last minute, or of ten seconds of this machine where that is shorter."""
    time = Time()
    traffic = Traffic(Clock(scale, time, time))
    ask(traffic, "shop", 4, variant="a")
    ask(traffic, "shop", 2, "invocation_failed", variant="b")
    ask(traffic, "shop", 3, "loaded")
    ask(traffic, "other", 7)
    rates = traffic.rates("shop")
    assert traffic.window_s == window_s
    assert rates.requests == pytest.approx(rate)
    assert rates.errors == pytest.approx(rate / 3)
    assert rates.by_variant == pytest.approx({"a": rate * 2 / 3, "b": rate / 3})
    assert (rates.all_requests, rates.all_errors) == (6, 2)
    time.now += window_s / scale
    later = traffic.rates("shop")
    assert (later.requests, later.errors, later.all_requests) == (0, 0, 6)


def test_a_course_has_what_was_asked_between_its_points() -> None:
    time = Time()
    traffic = Traffic(Clock(10, time, time))
    points = []
    for count in (3, 0, 2):
        time.now += 2
        ask(traffic, "shop", count)
        ask(traffic, "shop", count and 1, "invocation_failed")
        traffic.sample("shop", count)
        points.append(1000 + (time.now - 1000) * 10)
    course = traffic.course("shop", 0)
    assert [sample[1:] for sample in course] == [(3, 4, 1), (0, 0, 0), (2, 3, 1)]
    assert [at for at, *_ in course] == pytest.approx(points)
    assert traffic.course("shop", course[0][0]) == course[1:]
    assert traffic.course("shop", course[-1][0]) == []


def test_a_course_is_bounded_and_forgotten() -> None:
    time = Time()
    traffic = Traffic(Clock(1, time, time))
    for _ in range(1000):
        time.now += 2
        traffic.sample("shop", 1)
    assert len(traffic.course("shop", 0)) == 450
    traffic.forget("shop")
    assert traffic.course("shop", 0) == []
