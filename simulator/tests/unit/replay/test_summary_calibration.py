"""What a report says for plans: loads by their work, memory by what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from merlin_simulator.replay.load import ObservedState, Recording, SentRequest
from merlin_simulator.replay.summary import (
    calibrate,
    find_base_memory,
    find_loads,
    list_quantiles,
    measure_work,
)

MODELS = ("a", "b", "c")


def event(kind: str, at: float, model: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "at": at, "instance": "i", "target_model": model, **fields}


def look(at: float, used: int, **states: tuple[str, int | None]) -> ObservedState:
    models = [
        {"target_model": name, "state": state, "memory": memory, "disk": 7}
        for name, (state, memory) in states.items()
    ]
    return ObservedState(at, {"instances": [{"name": "i", "memory_used": used, "models": models}]})


def recording(events: list[dict[str, Any]], looks: list[ObservedState]) -> Recording:
    samples = [
        SentRequest(0, 0, 0.0, 0.0, 3.0, 200, request_id="r0"),
        SentRequest(1, 0, 5.0, 5.0, 5.1, 200, request_id="r1"),
    ]
    return Recording(100.0, 10.0, 2, samples, [], events, looks)


def test_loads_are_told_by_their_work() -> None:
    """Two at a time on one core: each has half of it while the other goes on."""
    loads = [("a", (0.0, 2.0)), ("b", (1.0, 2.5))]
    assert measure_work(loads, 1) == [("a", 1.5), ("b", 1.0)]
    assert measure_work(loads, 2) == [("a", 2.0), ("b", 1.5)]


def test_loads_that_failed_are_none() -> None:
    """Nor those that were never begun, as far as was seen."""
    events = [
        event("load_started", 1.0, "a"),
        event("load_failed", 2.0, "a"),
        event("load_started", 3.0, "a"),
        event("loaded", 4.0, "a"),
        event("loaded", 5.0, "b"),
    ]
    assert find_loads(events) == [("a", (3.0, 4.0))]


def test_memory_beside_models() -> None:
    """Where nothing moves; and what is there of a model that is loaded."""
    looks = [
        look(0.0, 50, a=("loading", None)),
        look(1.0, 150, a=("loaded", 100)),
        look(2.0, 170, a=("loaded", 100), b=("loading", None)),
        look(3.0, 250, a=("loaded", 100), b=("unloading", None)),
    ]
    assert find_base_memory(recording([], looks)) == (50, 0.2)
    assert find_base_memory(recording([], [])) == (None, None)


def test_the_whole_of_it() -> None:
    """By kind: a and c are copies of one model, b of another, which nobody asked."""
    events = [
        event("download_finished", 100.1, "a", seconds=0.1),
        event("extracted", 100.2, "a", seconds=0.2),
        event("load_started", 100.5, "a"),
        event("loaded", 102.5, "a", seconds=1.9),
        event("invoked", 103.0, "a", cold=True, answer_seconds=0.5, request_id="r0"),
        event("invoked", 105.1, "a", cold=False, request_id="r1"),
        event("unloaded", 109.0, "a", seconds=0.3, reason="memory"),
    ]
    found = calibrate(recording(events, [look(1.0, 150, a=("loaded", 100))]), MODELS, 2, 2)
    first, second = found.kinds
    assert (first.memory_bytes, first.disk_bytes) == (100, 7)
    assert first.load_work_in_order_s == (2.0,)
    assert (first.fetch_s or ())[0] == pytest.approx(0.3)
    assert ((first.unload_s or ())[0], (first.first_answer_s or ())[20]) == (0.3, 0.5)
    # Alone on two cores: what little other requests took of them is taken off.
    assert (first.warm_s or ())[0] == pytest.approx(0.1, rel=0.01)
    assert second.load_work_s is None
    assert list_quantiles([]) is None
