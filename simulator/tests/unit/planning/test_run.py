"""A whole demand: each request is counted once, as what became of it."""

from __future__ import annotations

import pytest

from merlin_simulator.planning.demand import PoissonDemand, Setting
from merlin_simulator.planning.run import simulate
from merlin_simulator.replay.load import zipf_shares
from merlin_simulator.rules import Rules
from simulator.tests.support.planning import archives, machine


def test_who_waits_at_the_end_has_no_hit() -> None:
    """Loads of 100 s that have no end: by then most requests wait, or have waited too long."""
    demand = PoissonDemand(zipf_shares(500, 0.5), 1.0, 1000.0, 1)
    setting = Setting(demand, archives(500, load_s=100.0), machine(500), Rules(), 1)
    outcome = simulate(setting)
    # 4 cores load 4 models in 100 s: nobody else has anything to ask.
    hits = outcome.requests - outcome.counts.cold - outcome.counts.failed
    loaded = outcome.counts.loads / 500
    assert 0 <= hits < 3 * loaded * outcome.requests
    assert outcome.counts.not_ready > 0.8 * outcome.requests


@pytest.mark.parametrize("seed", range(3))
def test_no_more_are_cold_than_there_are(seed: int) -> None:
    """Few requests, each of another model."""
    demand = PoissonDemand(zipf_shares(10_000, 0.0), 0.01, 1000.0, seed)
    outcome = simulate(Setting(demand, archives(10_000), machine(100), Rules(), 1, seed=seed))
    assert 0 < outcome.counts.cold <= outcome.requests


@pytest.mark.parametrize("at", [30, 31, 32])
def test_a_short_burst_is_in_the_percentiles(at: int) -> None:
    """One look of a day's 288, when 5 % come: the core is busy for 96 % of it, for 6 % else."""
    steps = [1.0] * 288
    steps[at] = 16.0
    models, rate = 10, 12.0 * sum(steps) / 288
    demand = PoissonDemand(zipf_shares(models, 0.0), rate, 86_400.0, 1, wave=steps)
    outcome = simulate(Setting(demand, archives(models), machine(models, cores=1), Rules(), 1))
    waited = outcome.weights[outcome.warm > 0.015].sum() / outcome.weights.sum()
    assert 0.025 < waited < 0.053
    assert outcome.weights.sum() == pytest.approx(outcome.requests, rel=0.02)
