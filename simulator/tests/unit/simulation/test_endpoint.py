"""What is loaded and what leaves, against answers that are known."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merlin_simulator.instance.decisions import Step, Unload, decide_eviction
from merlin_simulator.replay.load import zipf_shares
from merlin_simulator.rules import CacheSetting, Rules
from merlin_simulator.simulation.demand import Demand, PoissonDemand, TraceDemand
from merlin_simulator.simulation.endpoint import SimulatedEndpoint
from merlin_simulator.simulation.event_clock import EventClock
from merlin_simulator.simulation.instances import Counts
from merlin_simulator.simulation.scenario import ArchiveFigures, InstanceSpec, Scenario
from simulator.tests.support.simulated import MIB, SIZE, archives, instance_spec


@pytest.mark.slow
def test_hit_ratio_is_ches() -> None:
    """One instance, Poisson arrivals by a Zipf law, loads that take no time: an LRU cache, whose
    hit ratio Che's approximation gives (Che, Tung, Wang 2002; exact within a percent)."""
    shares, places = zipf_shares(500, 1.2), 60
    demand = PoissonDemand(shares, rate=100.0, duration=500.0, seed=3)
    counts = carried_out(demand, places)
    requests = demand.count_all(0.0, demand.duration)
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
    return gone_through(demand, instance_spec(places), Rules()).counts


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


def test_what_leaves_the_disk_is_not_on_it() -> None:
    """Two archives of which the disk has room for one: each miss fetches, and one lies there."""
    asked = [0, 1, 0, 1]
    demand = TraceDemand(np.arange(1.0, 5.0), np.array(asked), 2, 6.0)
    endpoint = gone_through(demand, instance_spec(2, disk=MIB), Rules())
    (instance,) = endpoint.instances
    assert endpoint.counts.loads == 4
    assert instance.used_disk == MIB
    assert [*instance.copies, *instance.on_disk] == [1]


def test_without_a_cache_nothing_stays() -> None:
    """ModelCacheSetting Disabled: neither in memory nor on the disk."""
    demand = TraceDemand(np.arange(1.0, 4.0), np.array([0, 0, 0]), 1, 6.0)
    endpoint = gone_through(demand, instance_spec(2), Rules(cache=CacheSetting.DISABLED))
    (instance,) = endpoint.instances
    assert (endpoint.counts.cold, endpoint.counts.evictions) == (3, 0)
    assert (instance.used_disk, instance.on_disk, instance.copies) == (0, {}, {})


def test_a_copy_that_finds_no_disk_is_no_failure() -> None:
    """Another instance has the model: nobody waits for the copy, and all goes on."""
    demand = PoissonDemand((1.0,), 400.0, 30.0, 1)
    figures = [replace(archives(1)[0], service_s=(0.02,))]
    clock = EventClock()
    endpoint = SimulatedEndpoint(
        clock, Scenario(demand, figures, instance_spec(2, disk=MIB), Rules(busy_at=1), 2)
    )
    # The other instance's disk is smaller than the archive.
    endpoint.instances[1].instance_spec = instance_spec(2, disk=MIB - 1)
    clock.run(demand.duration)
    # No second try within 30 s, as an instance has it.
    assert endpoint.counts.disk_gave_up == 1
    assert endpoint.counts.cold == 1


def gone_through(demand: Demand, of: InstanceSpec, rules: Rules) -> SimulatedEndpoint:
    clock = EventClock()
    endpoint = SimulatedEndpoint(clock, Scenario(demand, archives(demand.models), of, rules, 1))
    clock.run(demand.duration)
    return endpoint


def test_what_is_busy_is_copied_by_the_seed() -> None:
    """Of a trace nothing else is drawn but when four requests overlap."""

    def copied(seed: int) -> float:
        times = np.arange(1.0, 2000.0) / 20
        demand = TraceDemand(times, np.zeros(len(times), dtype=int), 1, 100.0)
        figures = [replace(archives(1)[0], service_s=(0.1,))]
        clock = EventClock()
        endpoint = SimulatedEndpoint(
            clock, Scenario(demand, figures, instance_spec(2), Rules(busy_at=3), 2, seed=seed)
        )
        clock.run(demand.duration)
        assert endpoint.counts.copies == 1
        return max(copy.seen for one in endpoint.instances for copy in one.copies.values())

    assert copied(1) == copied(1)
    assert copied(1) != copied(2)


def test_what_gets_busy_later_is_copied_then() -> None:
    """One that was loaded while hardly anybody asked for it, when more do."""
    figures = [replace(archives(1)[0], service_s=(0.1,))]
    wave = (0.001, 0.001, 1.0, 1.0)
    endpoint, clock = begun(PoissonDemand((1.0,), 10.0, 400.0, 1, wave), figures, 2)
    clock.run(200.0)
    assert [len(instance.copies) for instance in endpoint.instances].count(1) == 1
    clock.run(400.0)
    assert endpoint.counts.copies == 1


def test_an_instance_that_comes_later_has_its_copies() -> None:
    """Of what is busy on the only one that there was."""
    figures = [replace(archives(1)[0], service_s=(0.1,))]
    endpoint, clock = begun(PoissonDemand((1.0,), 20.0, 400.0, 1), figures, 1)
    clock.run(200.0)
    assert endpoint.counts.copies == 0
    endpoint.add_instance()
    clock.run(400.0)
    assert endpoint.counts.copies == 1


def begun(
    demand: Demand, figures: list[ArchiveFigures], count: int
) -> tuple[SimulatedEndpoint, EventClock]:
    clock = EventClock()
    return SimulatedEndpoint(
        clock, Scenario(demand, figures, instance_spec(2), Rules(), count)
    ), clock


def test_who_asks_while_others_are_answered_has_it_copied() -> None:
    """Four have waited for it; the fifth comes while they are answered."""
    times = np.array([1.0, 1.1, 1.2, 1.3, 11.5])
    demand = TraceDemand(times, np.zeros(5, dtype=int), 1, 60.0)
    figures = [replace(archives(1, load_s=10.0)[0], service_s=(0.001,), first_answer_s=(1.0,))]
    for last, copies in ((11.5, 1), (30.0, 0)):
        times[-1] = last
        demand = TraceDemand(times, np.zeros(5, dtype=int), 1, 60.0)
        endpoint = gone_through_with(demand, figures, instance_spec(2), 2)
        assert (endpoint.counts.copies, endpoint.counts.cold) == (copies, 4)


@pytest.mark.parametrize("bound", ["memory", "gpu"])
def test_the_container_has_the_last_word(bound: str) -> None:
    """507: the least recently used leaves, one after the other, until there is room."""
    figures = [replace(one, gpu_memory=SIZE) for one in archives(3)]
    roomy = instance_spec(9)
    small = (
        replace(roomy, hard_memory=2 * SIZE)
        if bound == "memory"
        else replace(roomy, gpu_memory=2 * SIZE)
    )
    asked = [0, 1, 0, 2]
    demand = TraceDemand(np.arange(1.0, 5.0), np.array(asked), 3, 6.0)
    endpoint = gone_through_with(demand, figures, small, 1)
    assert (endpoint.counts.evictions_507, endpoint.counts.no_memory) == (1, 0)
    assert sorted(endpoint.instances[0].copies) == [0, 2]


def test_who_leaves_for_another_is_decided_as_an_instance_does() -> None:
    """The least recently used of the idle ones, never the model itself; with none, only what is
    loaded or comes is waited for."""
    figures = archives(3)
    demand = TraceDemand(np.array([1.0, 2.0]), np.array([0, 1]), 3, 6.0)
    (instance,) = gone_through_with(demand, figures, instance_spec(9), 1).instances

    def decided(model: int, over: bool = False) -> object:
        return decide_eviction(instance.eviction_turn(model, 6.0, over))

    assert decided(2) == Unload(figures[0].name)
    for copy in instance.copies.values():
        copy.busy_until = 7.0
    assert (decided(2), decided(2, over=True)) == (Step.WAIT, Step.GIVE_UP)
    instance.copies.clear()
    assert decided(2) is Step.GIVE_UP
    instance.pending[2] = SIZE
    assert (decided(2), decided(0)) == (Step.GIVE_UP, Step.WAIT)


def test_what_the_container_never_has_memory_for_fails() -> None:
    """Each of its requests, and nobody leaves for it."""
    figures = archives(2)
    figures[1] = replace(figures[1], gpu_memory=3 * SIZE)
    demand = TraceDemand(np.arange(1.0, 4.0), np.array([0, 1, 1]), 2, 6.0)
    endpoint = gone_through_with(demand, figures, replace(instance_spec(9), gpu_memory=2 * SIZE), 1)
    assert (endpoint.counts.no_memory, endpoint.counts.evictions) == (2, 0)
    assert [*endpoint.instances[0].copies] == [0]


def test_callers_who_wait_too_long_are_told() -> None:
    """60 s by the platform's rule; the load goes on, and who came later is answered."""
    times = np.array([1.0, 30.0])
    demand = TraceDemand(times, np.zeros(2, dtype=int), 1, 200.0)
    endpoint = gone_through_with(demand, archives(1, load_s=70.0), instance_spec(2), 1)
    assert (endpoint.counts.not_ready, endpoint.counts.cold) == (1, 1)


def test_a_model_that_leaves_is_waited_for() -> None:
    """Asked again while it is unloaded: it comes after that, as holdings has it."""
    asked = [0, 1, 0]
    times = np.array([1.0, 2.0, 3.0])
    demand = TraceDemand(times, np.array(asked), 2, 60.0)
    endpoint = gone_through_with(demand, archives(2, unload_s=10.0), instance_spec(1), 1)
    # Model 1 has its room at 12 s. Model 0 waits that long to have left, and then for model 1 to.
    assert endpoint.counts.latencies == pytest.approx([0.004, 10.0, 19.0], abs=0.1)
    room, turn = endpoint.counts.parts["room"], endpoint.counts.parts["turn"]
    assert room == pytest.approx([0.0, 10.0, 19.0], abs=0.1)
    assert turn == pytest.approx([0.0] * 3)


def gone_through_with(
    demand: Demand, figures: list[ArchiveFigures], of: InstanceSpec, count: int
) -> SimulatedEndpoint:
    clock = EventClock()
    endpoint = SimulatedEndpoint(clock, Scenario(demand, figures, of, Rules(), count))
    clock.run(demand.duration)
    return endpoint


def test_without_a_cache_a_model_stays_until_all_are_answered() -> None:
    """Who comes while others are answered finds it; who comes after that does not."""
    figures = [replace(archives(1)[0], service_s=(2.0,), first_answer_s=(2.0,))]
    times = np.array([1.0, 2.5, 4.0, 9.0])
    demand = TraceDemand(times, np.zeros(4, dtype=int), 1, 20.0)
    clock = EventClock()
    rules = Rules(cache=CacheSetting.DISABLED)
    endpoint = SimulatedEndpoint(clock, Scenario(demand, figures, instance_spec(2), rules, 1))
    clock.run(demand.duration)
    # Those at 1 and 9 s; the others find it, until 6 s.
    assert (endpoint.counts.cold, endpoint.counts.loads) == (2, 2)
