"""What loads under way and loaded models will still take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_tools import Demand, ModelDemand
from serve.resources.census import Census, Usage
from serve.resources.footprints import Footprints, Forecast, MeasuredLoad, StubSettings
from serve.resources.free import MEMORY, SHARED_MEMORY, TASKS, gpu_memory
from serve.resources.ledger import Ledger
from tests.unit.serve.kernel_directory import MIB

EMPTY = Census()


def demand(name: str) -> Demand:
    """An archive of one Python model."""
    return Demand(name, (ModelDemand(name, "python", 1, 0),))


def forecast(memory: int) -> Forecast:
    """So many bytes."""
    return Forecast({MEMORY: memory, SHARED_MEMORY: 16 * MIB}, "as it did")


def census(**memory: int) -> Census:
    """One stub of each model, with so many bytes."""
    return Census({name: Usage(it, it, 0, 1, 1) for name, it in memory.items()}, Usage(), 1)


@pytest.fixture
def ledger() -> Ledger:
    """Of a container that has just started."""
    return Ledger(Footprints(StubSettings()))


def test_loads_at_once_count_each_other(ledger: Ledger) -> None:
    """Each expects its forecast, less what its stubs hold by now."""
    ledger.begin("a", demand("a"), forecast(100 * MIB))
    ledger.begin("b", demand("b"), forecast(100 * MIB))
    assert ledger.coming(EMPTY, 0)[MEMORY] == 200 * MIB
    assert ledger.coming(census(a=60 * MIB), 0)[MEMORY] == (200 - 62) * MIB
    assert ledger.coming(census(a=500 * MIB), 0)[MEMORY] == 100 * MIB


def test_what_is_lacking(ledger: Ledger) -> None:
    """Free, less what is kept and what is coming, is held against the forecast."""
    ledger.begin("a", demand("a"), forecast(100 * MIB))
    coming = ledger.coming(EMPTY, 0)

    def lack(free: int) -> object:
        return ledger.lacking(forecast(50 * MIB), {MEMORY: free}, {MEMORY: 30 * MIB}, coming)

    assert lack(180 * MIB) is None
    assert lack(180 * MIB - 1) is not None
    assert ledger.lacking(forecast(50 * MIB), {}, {}, coming) is None  # nothing is known


def test_an_empty_endpoint_tries_everything(ledger: Ledger) -> None:
    """A forecast may be wrong, and locks nothing out for ever; the reserve holds all the same."""
    free, kept = {MEMORY: 100, gpu_memory(0): 0}, {MEMORY: 100, gpu_memory(0): 50}
    huge = Forecast({MEMORY: 1 << 50, gpu_memory(0): 1 << 50}, "")
    assert ledger.lacking(huge, free, kept, {}) is None
    lack = ledger.lacking(huge, {MEMORY: 99}, kept, {})
    assert lack is not None
    assert (lack.free, lack.kept) == (99, 100)


def test_growth_is_less_likely_the_longer_it_does_not_come() -> None:
    """A model that once held much and does not any more stands in nobody's way for long."""
    footprints = Footprints(StubSettings())
    ledger = Ledger(footprints)
    footprints.learn(demand("a"), MeasuredLoad({"a": Usage(100 * MIB, 100 * MIB, 0, 1, 1)}))
    entry = ledger.begin("a", demand("a"), forecast(MIB))
    ledger.finish(entry, 1000.0)
    holding = census(a=40 * MIB)
    assert ledger.coming(holding, 1000.0) == {MEMORY: 60 * MIB}
    assert ledger.coming(holding, 1300.0) == {MEMORY: 30 * MIB}
    assert ledger.coming(holding, 1000.0 + 3600)[MEMORY] < MIB


@pytest.mark.parametrize("why", ["lost", "stub"])
def test_a_model_that_was_lost_comes_back(ledger: Ledger, why: str) -> None:
    """tritonserver was restarted, or its stub died: it takes again what it took, all of it."""
    entry = ledger.begin("a", demand("a"), forecast(100 * MIB))
    ledger.finish(entry, 0.0)
    entry.stubs, entry.lost = 1, why == "lost"
    assert ledger.coming(EMPTY, 10_000)[MEMORY] == 100 * MIB
    assert ledger.coming(census(a=70 * MIB), 0).get(MEMORY, 0) == (28 * MIB if entry.lost else 0)


def test_which_loads_were_alone(ledger: Ledger) -> None:
    """Two that run beside each other are not, whichever began first; one after them is."""
    first = ledger.begin("a", demand("a"), forecast(1))
    second = ledger.begin("b", demand("b"), forecast(1))
    assert not first.alone
    assert not second.alone
    ledger.finish(first, 0.0)
    ledger.end(second)
    assert ledger.begin("c", demand("c"), forecast(1)).alone


NAMES = st.sampled_from("abcd")
AMOUNTS = st.integers(0, 1 << 40)
STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "finish", "end", "lose", "end twice"]), NAMES, AMOUNTS),
    max_size=40,
)


@given(STEPS, st.dictionaries(NAMES, AMOUNTS), st.floats(0, 1e6))
def test_nothing_is_ever_negative(
    steps: list[tuple[str, str, int]], holding: dict[str, int], now: float
) -> None:
    """Whatever loads begin, end, fail and are lost; and with the last of them all is given back."""
    ledger = Ledger(Footprints(StubSettings()))
    promised = 0
    for step, name, amount in steps:
        entry = ledger.get(name)
        if step == "begin" and entry is None:
            ledger.begin(name, demand(name), forecast(amount))
            promised += amount
        elif entry is not None and step == "finish":
            ledger.finish(entry, now / 2)
        elif entry is not None and step == "lose":
            entry.lost = True
        elif entry is not None:
            ledger.end(entry)
            ledger.end(entry)
        coming = ledger.coming(census(**holding), now)
        assert all(amount >= 0 for amount in coming.values())
        assert coming.get(MEMORY, 0) <= promised
    for entry in list(ledger.entries):
        ledger.end(entry)
    assert ledger.coming(census(**holding), now) == {}


@given(st.lists(AMOUNTS, min_size=1, max_size=20), AMOUNTS, AMOUNTS)
def test_what_is_admitted_fits(needs: list[int], free: int, kept: int) -> None:
    """Beside other models, the sum of what was admitted leaves what is kept."""
    ledger = Ledger(Footprints(StubSettings()))
    admitted: list[int] = []
    for number, need in enumerate(needs):
        coming = ledger.coming(EMPTY, 0)
        wanted = Forecast({MEMORY: need}, "")
        if ledger.lacking(wanted, {MEMORY: free}, {MEMORY: kept}, coming) is None:
            ledger.begin(str(number), demand(str(number)), wanted)
            admitted.append(need)
    assert len(admitted) <= 1 or sum(admitted) <= free - kept
    assert bool(admitted) == (free >= kept)


def test_an_entry_that_came_after_it_stays(ledger: Ledger) -> None:
    """A load that failed does not give back what the next load of that name holds."""
    first = ledger.begin("a", demand("a"), forecast(1))
    second = ledger.begin("a", demand("a"), forecast(2))
    ledger.end(first)
    assert ledger.get("a") is second
    assert TASKS not in ledger.coming(EMPTY, 0)
