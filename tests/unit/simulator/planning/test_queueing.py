"""Waits for cores and places, against formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from simulator.planning.archives import Figures
from simulator.planning.queueing import Window, draw_latencies
from tests.support.planning import archives


@pytest.mark.parametrize(("cores", "utilization"), [(1, 0.5), (4, 0.7), (8, 0.85)])
def test_waits_are_erlangs(cores: int, utilization: float) -> None:
    """Exponential services of models that are never asked twice at once: M/M/c."""
    mean = 0.01
    steps = np.linspace(0.0, 1.0, 4001)[:-1] + 1 / 8000
    services = tuple((-mean * np.log1p(-steps)).tolist())
    figures = [replace_services(figure, services) for figure in archives(400)]
    rate = utilization * cores / mean
    window = Window(figures, [rate / len(figures)] * len(figures), cores)
    assert window.utilization == pytest.approx(utilization, rel=0.01)
    drawn = draw_latencies(window, 120_000, np.random.default_rng(5))
    expected = mean + erlang_c(cores, utilization * cores) * mean / (cores * (1 - utilization))
    assert float(drawn.mean()) == pytest.approx(expected, rel=0.04)


def replace_services(figure: Figures, services: tuple[float, ...]) -> Figures:
    return replace(figure, services=services, concurrency=64)


def erlang_c(cores: int, offered: float) -> float:
    """The probability that a request waits."""
    terms = [offered**number / math.factorial(number) for number in range(cores)]
    last = offered**cores / math.factorial(cores) * cores / (cores - offered)
    return last / (sum(terms) + last)
