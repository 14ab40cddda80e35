"""Waits for cores and places, against formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from merlin_simulator.planning.demand import Figures
from merlin_simulator.planning.run import Window, draw_latencies
from simulator.tests.support.planning import archives

MEAN = 0.01
_STEPS = np.linspace(0.0, 1.0, 4001)[:-1] + 1 / 8000
EXPONENTIAL = tuple((-MEAN * np.log1p(-_STEPS)).tolist())


@pytest.mark.parametrize(("cores", "utilization"), [(1, 0.5), (4, 0.7), (8, 0.85)])
def test_waits_are_erlangs(cores: int, utilization: float) -> None:
    """Exponential services of models that are never asked twice at once: M/M/c."""
    window = busy_window(cores, utilization)
    assert window.utilization == pytest.approx(utilization, rel=0.01)
    drawn = draw_latencies(window, 120_000, np.random.default_rng(5))
    assert float(drawn.mean()) == pytest.approx(erlangs(cores, utilization), rel=0.04)


def test_a_short_sample_of_a_busy_queue_does_not_begin_empty() -> None:
    """A plan carries out 2,500 requests of a window; of those that begin empty at 97 % of the cores
    the wait is half of what it is."""
    window, random = busy_window(1, 0.97), np.random.default_rng(1)
    found = [float(draw_latencies(window, 1000, random).mean()) for _ in range(60)]
    assert float(np.mean(found)) == pytest.approx(erlangs(1, 0.97), rel=0.2)


def test_a_model_has_no_more_than_its_places() -> None:
    """One and a half times what its one place can do: a third is lost, whatever cores are idle;
    the other model's requests do not wait for it."""
    figures = [replace(archives(1)[0], service_s=(0.01,))] * 2
    window = Window(figures, [150.0, 10.0], cores=4)
    assert window.utilization == pytest.approx((100 + 10) * 0.01 / 4)
    assert window.lost == pytest.approx(50 / 160)
    drawn = draw_latencies(window, 2000, np.random.default_rng(1))
    assert float(np.isinf(drawn).mean()) == pytest.approx(100 / 110, abs=0.02)
    assert float(np.median(drawn[np.isfinite(drawn)])) == pytest.approx(0.01)
    both = Window([replace(figures[0], concurrency=8)] * 2, [300.0, 300.0], cores=4)
    assert both.lost == pytest.approx(1 / 3)


def busy_window(cores: int, utilization: float) -> Window:
    """Of 400 models, each asked alike."""
    figures = [replace_services(figure, EXPONENTIAL) for figure in archives(400)]
    rate = utilization * cores / MEAN
    return Window(figures, [rate / len(figures)] * len(figures), cores)


def erlangs(cores: int, utilization: float) -> float:
    """Seconds from arrival to answer, on average."""
    waits = erlang_c(cores, utilization * cores) * MEAN / (cores * (1 - utilization))
    return MEAN + waits


def replace_services(figure: Figures, services: tuple[float, ...]) -> Figures:
    return replace(figure, service_s=services, concurrency=64)


def erlang_c(cores: int, offered: float) -> float:
    """The probability that a request waits."""
    terms = [offered**number / math.factorial(number) for number in range(cores)]
    last = offered**cores / math.factorial(cores) * cores / (cores - offered)
    return last / (sum(terms) + last)
