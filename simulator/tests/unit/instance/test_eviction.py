"""Which model leaves."""

from __future__ import annotations

from merlin_simulator.instance.decisions import (
    HeldModel,
    choose_delete,
    choose_unload,
    choose_unloads,
    expect_memory,
    may_become_free,
)
from merlin_simulator.watch.state import ModelState

LOADED, LOADING, ON_DISK = ModelState.LOADED, ModelState.LOADING, ModelState.ON_DISK


def model(
    name: str, state: ModelState, used: float = 0, wanted: bool = False, memory: int | None = None
) -> HeldModel:
    return HeldModel(name, state, wanted, used, memory, 0)


def test_the_least_recently_used_leaves() -> None:
    """By the time of the last request; by name where two are as old."""
    assert choose_unload([model("b", LOADED, 2), model("a", LOADED, 1)]) == "a"
    assert choose_unload([model("b", LOADED, 1), model("a", LOADED, 1)]) == "a"


def test_what_is_wanted_or_kept_stays() -> None:
    """Neither a model that somebody asks, nor the one that room is made for."""
    held = [model("a", LOADED, 1, wanted=True), model("b", LOADED, 2), model("c", LOADED, 3)]
    assert choose_unload(held) == "b"
    assert choose_unload(held, ("b",)) == "c"
    assert choose_unload(held[:1]) is None


def test_only_what_is_loaded_is_unloaded_and_only_what_is_not_is_deleted() -> None:
    """The two lists have nothing in common."""
    held = [model("a", ON_DISK, 1), model("b", LOADED, 2), model("c", LOADING, 3)]
    assert choose_unload(held) == "b"
    assert choose_delete(held) == "a"
    assert choose_delete(held, ("a",)) is None


def test_waiting_helps_while_another_model_moves() -> None:
    """A model that is asked, loading or leaving may be free later; one on disk never is."""
    assert may_become_free([model("a", LOADED, wanted=True)])
    assert may_become_free([model("a", LOADING)])
    assert not may_become_free([model("a", ON_DISK)])
    assert not may_become_free([model("a", LOADED)], ("a",))


def test_as_many_leave_as_are_needed() -> None:
    """Oldest first; one whose size nobody knows counts as the others do; all if all are too few."""
    held = [
        model("c", LOADED, 3, memory=30),
        model("a", LOADED, 1, memory=10),
        model("b", LOADED, 2),
        model("asked", LOADED, 0, wanted=True, memory=100),
        model("d", ON_DISK, 0, memory=None),
    ]
    assert choose_unloads(held, 1) == ("a",)
    assert choose_unloads(held, 10) == ("a",)
    assert choose_unloads(held, 11) == ("a", "b")
    assert choose_unloads(held, 41) == ("a", "b", "c")
    assert choose_unloads(held, 1000) == ("a", "b", "c")
    assert choose_unloads(held[3:], 10) == ()


def test_a_model_is_expected_to_need_what_it_needed_or_what_others_need() -> None:
    """Its own figure first, then the median of the others', then nothing."""
    held = [model(name, LOADED, memory=size) for name, size in (("a", 1), ("b", 5), ("c", 90))]
    assert expect_memory(7, held) == 7
    assert expect_memory(None, held) == 5
    assert expect_memory(None, [model("a", LOADED)]) == 0
