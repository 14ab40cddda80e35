"""A run of a setting: its requests, their queues, its instances, and what comes of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from merlin_simulator.replay.load import zipf_shares
from merlin_simulator.rules import Rules
from merlin_simulator.simulation.demand import NEVER, PoissonDemand, TraceDemand
from merlin_simulator.simulation.endpoint import SimulatedEndpoint
from merlin_simulator.simulation.event_clock import EventClock
from merlin_simulator.simulation.run import SimulatedScaler, simulate
from merlin_simulator.simulation.scenario import ArchiveFigures, Scaling, Scenario
from merlin_simulator.simulation.warm_requests import WarmTraffic, draw_latencies
from simulator.tests.support.simulated import archives, instance_spec

pytestmark = pytest.mark.slow


def test_who_waits_at_the_end_has_no_hit() -> None:
    """Loads of 100 s that have no end: by then most requests wait, or have waited too long."""
    demand = PoissonDemand(zipf_shares(500, 0.5), 1.0, 1000.0, 1)
    scenario = Scenario(demand, archives(500, load_s=100.0), instance_spec(500), Rules(), 1)
    outcome = simulate(scenario)
    # 4 cores load 4 models in 100 s: nobody else has anything to ask.
    hits = outcome.requests - outcome.counts.cold - outcome.counts.failed
    loaded = outcome.counts.loads / 500
    assert 0 <= hits < 3 * loaded * outcome.requests
    assert outcome.counts.not_ready > 0.8 * outcome.requests


@pytest.mark.parametrize("seed", range(3))
def test_no_more_are_cold_than_there_are(seed: int) -> None:
    """Few requests, each of another model."""
    demand = PoissonDemand(zipf_shares(10_000, 0.0), 0.01, 1000.0, seed)
    outcome = simulate(
        Scenario(demand, archives(10_000), instance_spec(100), Rules(), 1, seed=seed)
    )
    assert 0 < outcome.counts.cold <= outcome.requests


@pytest.mark.parametrize("at", [30, 31, 32])
def test_a_short_burst_is_in_the_percentiles(at: int) -> None:
    """One look of a day's 288, when 5 % come: the core is busy for 96 % of it, for 6 % else."""
    steps = [1.0] * 288
    steps[at] = 16.0
    models, rate = 10, 12.0 * sum(steps) / 288
    demand = PoissonDemand(zipf_shares(models, 0.0), rate, 86_400.0, 1, wave=steps)
    outcome = simulate(
        Scenario(demand, archives(models), instance_spec(models, cores=1), Rules(), 1)
    )
    waited = outcome.weights[outcome.warm > 0.015].sum() / outcome.weights.sum()
    assert 0.025 < waited < 0.053
    assert outcome.weights.sum() == pytest.approx(outcome.requests, rel=0.02)


def test_nobody_asks_in_a_step_without_arrivals() -> None:
    """Of a wave that is 0 for a while, also where models appear later."""
    wave, since = (0.0, 2.0, 0.0, 2.0), (0.0, 30.0)
    demand = PoissonDemand((0.5, 0.5), 10.0, 40.0, 1, wave, since)
    assert demand.count_all(0.0, 10.0) == demand.count_all(20.0, 30.0) == 0
    assert demand.count_all(10.0, 20.0) > 0
    for model, first in enumerate((10.0, 30.0)):
        at = 0.0
        while (at := demand.find_next(model, at)) < NEVER:
            assert first <= at <= 40.0
            assert wave[min(int(at // 10), 3)] > 0
    assert demand.rate(1, 15.0) == demand.rate(0, 5.0) == 0.0
    assert demand.rates(35.0).tolist() == [demand.rate(0, 35.0), demand.rate(1, 35.0)]


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
    window = WarmTraffic(figures, [150.0, 10.0], cores=4)
    assert window.utilization == pytest.approx((100 + 10) * 0.01 / 4)
    assert window.lost_share == pytest.approx(50 / 160)
    drawn = draw_latencies(window, 2000, np.random.default_rng(1))
    assert float(np.isinf(drawn).mean()) == pytest.approx(100 / 110, abs=0.02)
    assert float(np.median(drawn[np.isfinite(drawn)])) == pytest.approx(0.01)
    both = WarmTraffic([replace(figures[0], concurrency=8)] * 2, [300.0, 300.0], cores=4)
    assert both.lost_share == pytest.approx(1 / 3)


def busy_window(cores: int, utilization: float) -> WarmTraffic:
    """Of 400 models, each asked alike."""
    figures = [replace_services(figure, EXPONENTIAL) for figure in archives(400)]
    rate = utilization * cores / MEAN
    return WarmTraffic(figures, [rate / len(figures)] * len(figures), cores)


def erlangs(cores: int, utilization: float) -> float:
    """Seconds from arrival to answer, on average."""
    waits = erlang_c(cores, utilization * cores) * MEAN / (cores * (1 - utilization))
    return MEAN + waits


def replace_services(figure: ArchiveFigures, services: tuple[float, ...]) -> ArchiveFigures:
    return replace(figure, service_s=services, concurrency=64)


def erlang_c(cores: int, offered: float) -> float:
    """The probability that a request waits."""
    terms = [offered**number / math.factorial(number) for number in range(cores)]
    last = offered**cores / math.factorial(cores) * cores / (cores - offered)
    return last / (sum(terms) + last)


#: One request a second for 200 s, then two.
TIMES = np.concatenate((np.arange(1.0, 201.0), np.arange(200.5, 2000.0, 0.5)))


def test_nothing_is_decided_while_instances_come() -> None:
    """As the control plane has it: an endpoint that is updated is not changed, and the cooldown of
    a scale-out begins when its instances serve. In it, what was added counts as not there yet.
    """
    clock = EventClock()
    demand = TraceDemand(TIMES, np.zeros(len(TIMES), dtype=int), 1, 2000.0)
    endpoint = SimulatedEndpoint(clock, Scenario(demand, archives(1), instance_spec(2), Rules(), 1))
    SimulatedScaler(clock, demand, endpoint, Scaling(1, 10, target=20.0))
    counts = []
    # Three minutes above the target: three are wanted at 180 s. At 240 s it would be six.
    for until in (419.0, 421.0, 659.0, 661.0):
        clock.run(until)
        counts.append(len(endpoint.instances))
    assert counts == [1, 3, 3, 6]
    assert endpoint.served_s == pytest.approx(420.0 + 3 * 240.0 + 6 * 1.0)
