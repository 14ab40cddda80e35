"""Demand that is drawn only where it is asked for."""

from __future__ import annotations

from merlin_simulator.planning.demand import NEVER, PoissonDemand


def test_nobody_asks_in_a_step_without_arrivals() -> None:
    """Of a wave that is 0 for a while, also where models appear later."""
    wave, since = (0.0, 2.0, 0.0, 2.0), (0.0, 30.0)
    demand = PoissonDemand((0.5, 0.5), 10.0, 40.0, 1, wave, since)
    assert demand.count_between(0.0, 10.0) == demand.count_between(20.0, 30.0) == 0
    assert demand.count_between(10.0, 20.0) > 0
    for model, first in enumerate((10.0, 30.0)):
        at = 0.0
        while (at := demand.next_after(model, at)) < NEVER:
            assert first <= at <= 40.0
            assert wave[min(int(at // 10), 3)] > 0
    assert demand.rate(1, 15.0) == demand.rate(0, 5.0) == 0.0
    assert demand.rates(35.0).tolist() == [demand.rate(0, 35.0), demand.rate(1, 35.0)]
