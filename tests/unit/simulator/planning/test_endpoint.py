"""What is loaded and what leaves, against answers that are known."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.planning.demand import Demand, PoissonDemand, TraceDemand
from simulator.planning.endpoint import Counts, PlannedEndpoint
from simulator.planning.happening import Happening
from simulator.replay.traffic.schedule import zipf_shares
from simulator.rules import Rules
from tests.support.planning import archives, machine


def test_hit_ratio_is_ches() -> None:
    """One instance, Poisson arrivals by a Zipf law, loads that take no time: an LRU cache, whose
    hit ratio Che's approximation gives (Che, Tung, Wang 2002; exact within a percent)."""
    shares, places = zipf_shares(500, 0.9), 60
    demand = PoissonDemand(shares, rate=100.0, duration=4000.0, seed=3)
    counts = carried_out(demand, places)
    requests = demand.count_between(0.0, demand.duration)
    assert 1 - counts.cold / requests == pytest.approx(che(shares, places), abs=0.005)


@given(
    asked=st.lists(st.integers(0, 9), min_size=1, max_size=120),
    places=st.integers(1, 8),
)
def test_a_trace_is_an_lru_cache(asked: list[int], places: int) -> None:
    """Of known requests each one that misses is that of a cache that is gone through by hand."""
    times = np.arange(1.0, len(asked) + 1)
    counts = carried_out(TraceDemand(times, np.array(asked), 10, len(asked) + 1.0), places)
    assert (counts.cold, counts.evictions) == by_hand(asked, places)


def test_equal_seeds_are_equal_runs() -> None:
    """Nothing else is drawn by chance."""
    one, two, other = (
        carried_out(PoissonDemand(zipf_shares(50, 1.0), 20.0, 200.0, seed), 10)
        for seed in (1, 1, 2)
    )
    assert one == two
    assert one != other


def carried_out(demand: Demand, places: int) -> Counts:
    happening = Happening()
    endpoint = PlannedEndpoint(
        happening, demand, archives(demand.models), machine(places), Rules(), 1
    )
    happening.run(demand.duration)
    return endpoint.counts


def by_hand(asked: list[int], places: int) -> tuple[int, int]:
    """Misses and evictions."""
    kept: OrderedDict[int, None] = OrderedDict()
    misses = evictions = 0
    for model in asked:
        if model in kept:
            kept.move_to_end(model)
            continue
        misses += 1
        if len(kept) == places:
            kept.popitem(last=False)
            evictions += 1
        kept[model] = None
    return misses, evictions


def che(shares: tuple[float, ...], places: int) -> float:
    """The time T in which as many models as there are places are asked; a hit came within it."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        if sum(1 - math.exp(-share * middle) for share in shares) < places:
            low = middle
        else:
            high = middle
    return sum(share * (1 - math.exp(-share * low)) for share in shares)
