"""What an instance does next: each case of each decision, by value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from merlin_simulator.instance.decisions import (
    AfterUse,
    Delete,
    DiskTurn,
    EvictionTurn,
    FullDisk,
    HeldModel,
    MemoryBefore,
    MemoryTurn,
    Step,
    Unload,
    UnloadAll,
    decide_after_full_disk,
    decide_after_use,
    decide_disk,
    decide_eviction,
    decide_memory,
    find_added_memory,
)
from merlin_simulator.rules import CacheSetting
from merlin_simulator.watch.state import ModelState

DOWNLOADING, ON_DISK = ModelState.DOWNLOADING, ModelState.ON_DISK
LOADING, LOADED, UNLOADING = ModelState.LOADING, ModelState.LOADED, ModelState.UNLOADING


def model(
    name: str, state: ModelState, used: float = 0, wanted: bool = False, memory: int | None = None
) -> HeldModel:
    return HeldModel(name, state, wanted, used, memory, 10)


#: `new` lacks room beside two idle models, of which `old` was used first.
NEW, OLD, YOUNG = model("new", LOADING, 9, wanted=True), model("old", LOADED, 1), model("y", LOADED)
TURN = EvictionTurn((NEW, OLD, replace(YOUNG, last_used=2)), {"new"}, has_left=False, over=False)


def test_nobody_is_unloaded_where_another_has_left() -> None:
    """Whoever made it do so, and however late it is."""
    assert decide_eviction(replace(TURN, has_left=True)) is Step.DONE
    assert decide_eviction(replace(TURN, has_left=True, over=True)) is Step.DONE


def test_the_least_recently_used_leaves_then_the_next() -> None:
    """One that was asked to leave and did not is spared; the model itself always is.

    Of two that were used at the same time the first by name.
    """
    assert decide_eviction(TURN) == Unload("old")
    twins = (NEW, YOUNG, replace(OLD, last_used=YOUNG.last_used))
    assert decide_eviction(replace(TURN, held=twins)) == Unload("old")
    assert decide_eviction(replace(TURN, spared={"new", "old"})) == Unload("y")
    assert decide_eviction(replace(TURN, over=True)) == Unload("old")


@pytest.mark.parametrize(
    "other",
    [
        model("other", LOADED, wanted=True),
        model("other", LOADING, wanted=True),
        model("other", UNLOADING),
    ],
    ids=["in use", "its load is under way", "its unload is under way"],
)
def test_what_moves_is_waited_for_until_the_deadline(other: HeldModel) -> None:
    """It may be idle, or gone, a moment later."""
    turn = replace(TURN, held=(NEW, other))
    assert decide_eviction(turn) is Step.WAIT
    assert decide_eviction(replace(turn, over=True)) is Step.GIVE_UP


@pytest.mark.parametrize(
    "held",
    [(), (NEW,), (NEW, model("other", ON_DISK)), (NEW, model("other", DOWNLOADING, wanted=True))],
    ids=["nothing", "itself", "on the disk", "on its way to the disk"],
)
def test_where_nobody_is_in_the_memory_waiting_is_no_use(held: tuple[HeldModel, ...]) -> None:
    """A model that is not loaded gives no memory back."""
    assert decide_eviction(replace(TURN, held=held)) is Step.GIVE_UP


def test_those_that_failed_to_leave_are_not_waited_for() -> None:
    """With all of them tried, the caller is told."""
    assert decide_eviction(replace(TURN, spared={"new", "old", "y"})) is Step.GIVE_UP


#: 60 of 100 bytes are used, and the model is known to need 20.
MEMORY = MemoryTurn((), needed=20, loading=(), used=60, limit=100, threshold=0.9)


def test_a_model_that_fits_is_loaded_at_once() -> None:
    """Up to the threshold itself."""
    assert decide_memory(MEMORY) is Step.DONE
    assert decide_memory(replace(MEMORY, needed=30)) is Step.DONE
    assert decide_memory(replace(MEMORY, needed=31)) is Step.EVICT


def test_memory_that_cannot_be_seen_is_the_containers_to_judge() -> None:
    """Nobody is unloaded for a guess."""
    assert decide_memory(replace(MEMORY, used=None, needed=1000)) is Step.DONE


def test_loads_that_are_under_way_count_as_if_they_were_done() -> None:
    """Theirs is not among what is used yet; one that nobody knows counts as the others' median."""
    assert decide_memory(replace(MEMORY, loading=(10,))) is Step.DONE
    assert decide_memory(replace(MEMORY, loading=(10, 1))) is Step.EVICT
    held = (model("a", LOADED, memory=11),)
    assert decide_memory(replace(MEMORY, held=held, loading=(None,))) == UnloadAll(("a",))
    assert decide_memory(replace(MEMORY, held=(), loading=(None,))) is Step.DONE
    others = tuple(
        model(name, LOADED, memory=size) for name, size in (("a", 1), ("b", 5), ("c", 90))
    )
    turn = replace(MEMORY, held=others, loading=(None,), used=66)
    assert decide_memory(turn) == UnloadAll(("a",))
    assert decide_memory(replace(turn, used=65)) is Step.DONE


def test_a_full_memory_evicts_for_a_model_that_nobody_knows() -> None:
    """Above the threshold by itself, whatever the model needs."""
    assert decide_memory(replace(MEMORY, needed=None, used=91)) is Step.EVICT


def test_as_many_leave_at_once_as_are_needed() -> None:
    """All if all are too few. What is leaving already counts as gone, but is waited for."""
    a, b, c = (model(name, LOADED, at, memory=20) for at, name in enumerate("abc"))
    full = replace(MEMORY, held=(c, b, a), used=90)
    assert decide_memory(full) == UnloadAll(("a",))
    assert decide_memory(replace(full, needed=21)) == UnloadAll(("a", "b"))
    assert decide_memory(replace(full, needed=1000)) == UnloadAll(("a", "b", "c"))
    unknown = replace(full, held=(c, replace(b, memory=None), a))
    assert decide_memory(replace(unknown, needed=41)) == UnloadAll(("a", "b", "c"))
    leaving = replace(full, held=(replace(a, state=UNLOADING), b, c))
    assert decide_memory(leaving) is Step.WAIT
    assert decide_memory(replace(leaving, loading=(20,))) == UnloadAll(("b",))


def test_where_nobody_is_idle_those_who_leave_are_waited_for() -> None:
    """And else one that is in use."""
    asked = model("b", LOADED, wanted=True, memory=40)
    leaving = model("a", UNLOADING, memory=5)
    assert decide_memory(replace(MEMORY, held=(asked, leaving), used=90)) is Step.WAIT
    assert decide_memory(replace(MEMORY, held=(asked,), used=90)) is Step.EVICT


#: `new` has come, and with it the disk is over its budget.
DISK = DiskTurn(
    (model("new", ON_DISK, 9, wanted=True), model("b", ON_DISK, 2), model("a", ON_DISK, 1)),
    "new",
    needed=10,
    used=30,
    budget=25,
)


@pytest.mark.parametrize(("used", "budget"), [(25, 25), (0, 25), (10**12, None)])
def test_an_archive_within_the_budget_stays(used: int, budget: int | None) -> None:
    """Or where there is none."""
    assert decide_disk(replace(DISK, used=used, budget=budget)) is Step.DONE


def test_an_archive_larger_than_the_disk_is_given_up_before_others_go_for_it() -> None:
    """Deleting them would not help."""
    assert decide_disk(replace(DISK, needed=26)) is Step.GIVE_UP


def test_a_full_disk_loses_the_least_recently_used_archive() -> None:
    """Neither the one that came, nor one that is loaded or wanted."""
    assert decide_disk(DISK) == Delete("a")
    in_use = (model("c", ON_DISK, 0, wanted=True), model("d", LOADED, 0), *DISK.held)
    assert decide_disk(replace(DISK, held=in_use)) == Delete("a")


def test_what_is_loaded_leaves_the_memory_before_it_leaves_the_disk() -> None:
    """Its files are the container's as long as it is loaded."""
    assert decide_disk(replace(DISK, held=(DISK.held[0], model("a", LOADED)))) is Step.EVICT
    assert decide_disk(replace(DISK, held=DISK.held[:1])) is Step.EVICT


#: Ten of 25 bytes were needed, and others are there.
FULL = FullDisk(needed=10, budget=25, others_then=True, others_now=True, over=False)


def test_an_archive_that_found_no_place_waits_for_the_others() -> None:
    """And comes again at once where they have left meanwhile."""
    assert decide_after_full_disk(FULL) is Step.WAIT
    assert decide_after_full_disk(replace(FULL, others_now=False)) is Step.RETRY


@pytest.mark.parametrize(
    "turn",
    [
        replace(FULL, needed=26),
        replace(FULL, others_then=False),
        replace(FULL, others_then=False, others_now=False),
        replace(FULL, over=True),
    ],
    ids=["too large", "it was alone", "nobody came", "too late"],
)
def test_an_archive_that_will_find_no_place_is_refused(turn: FullDisk) -> None:
    """Larger than the disk, alone on it, or waiting for too long."""
    assert decide_after_full_disk(turn) is Step.GIVE_UP


@pytest.mark.parametrize(
    ("state", "cache", "step"),
    [
        (None, CacheSetting.ENABLED, AfterUse.FORGET),
        (None, CacheSetting.DISABLED, AfterUse.FORGET),
        (LOADED, CacheSetting.ENABLED, AfterUse.STAY),
        (ON_DISK, CacheSetting.ENABLED, AfterUse.STAY),
        (LOADED, CacheSetting.DISABLED, AfterUse.UNLOAD),
        (ON_DISK, CacheSetting.DISABLED, AfterUse.DELETE),
    ],
)
def test_a_model_that_nobody_wants_stays_where_models_are_cached(
    state: ModelState | None, cache: CacheSetting, step: AfterUse
) -> None:
    """Else it leaves the memory first, then the disk; the record of nothing goes in any case."""
    assert decide_after_use(state, cache) is step


@pytest.mark.parametrize(
    ("before", "used", "added"),
    [
        (MemoryBefore(100, 7), 130, 30),
        (MemoryBefore(None, 7), 130, None),
        (MemoryBefore(100, 6), 130, None),
        (MemoryBefore(100, 7), 100, None),
        (MemoryBefore(100, 7), None, None),
    ],
    ids=["alone", "not seen before", "others moved", "nothing added", "not seen after"],
)
def test_a_load_that_moved_alone_weighs_what_it_added(
    before: MemoryBefore, used: int | None, added: int | None
) -> None:
    """Otherwise nobody knows whose it is."""
    assert find_added_memory(before, used, 7) == added
