"""Arithmetic over samples and events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merlin_simulator.replay import arithmetic
from merlin_simulator.replay.load import ObservedState, SentRequest

_VALUES = st.lists(st.floats(0, 1e3), min_size=1, max_size=200)


def event(
    kind: str, at: float = 0.0, instance: str | None = "a", **fields: object
) -> arithmetic.Event:
    return {"kind": kind, "at": at, "instance": instance, **fields}


def sample(error: str | None = None, message: str = "") -> SentRequest:
    return SentRequest(0, 0, 1.0, 1.5, 3.0, 200, error, message)


@given(_VALUES, st.sampled_from([0, 50, 90, 99, 100]))
def test_percentiles_are_numpys(values: list[float], percent: float) -> None:
    """The same definition: between neighbours in proportion."""
    found = arithmetic.percentile(sorted(values), percent)
    assert found == pytest.approx(np.percentile(values, percent), rel=1e-9, abs=1e-12)


def test_a_spread_of_nothing_has_no_numbers() -> None:
    """No values, no percentiles; not zeros."""
    names = ("count", "p50", "p90", "p99", "max")
    assert tuple(arithmetic.measure_spread([])) == names
    assert tuple(arithmetic.measure_spread([]).values()) == (0, None, None, None, None)
    assert tuple(arithmetic.measure_spread([2.0, 1.0]).values()) == (2, 1.5, 1.9, 1.99, 2.0)


def test_statuses_are_counted_by_model() -> None:
    """As containers answered, each time that they were asked; other callers' are not in it."""
    asked = [replace(sample(), model=model, request_id=f"r{model}") for model in range(3)]
    events = [
        event("invoked", request_id="r0", container_statuses="507 200"),
        event("invocation_failed", request_id="r1", container_statuses="0"),
        event("invocation_failed", request_id="r2", container_statuses=""),
        event("invoked", request_id="another's", container_statuses="200"),
        event("loaded"),
    ]
    found = arithmetic.count_statuses(asked, events)
    assert found == {0: {"507": 1, "200": 1}, 1: {"0": 1}, 2: {"none": 1}}


def test_latency_counts_from_when_a_request_was_due() -> None:
    """Time that a request waits to be sent is waited by its caller."""
    assert sample().latency == 2.0


def test_the_hit_ratio_is_of_the_requests_that_reached_a_container() -> None:
    """A model that failed was there; a refusal is neither hit nor miss. Without any, no ratio."""
    cold = arithmetic.find_coldness(
        [
            event("invoked", cold=True, request_id="1"),
            event("invoked", cold=False, request_id="2"),
            event("invocation_failed", cold=False, error="ModelError", request_id="3"),
            event("invocation_failed", cold=False, error="ValidationError", request_id="4"),
            event("invocation_failed", cold=True, error="ModelNotReadyException", request_id="5"),
            event("loaded", target_model="m"),
        ]
    )
    assert cold == {"1": True, "2": False, "3": False}
    assert arithmetic.compute_hit_ratio(cold.values()) == pytest.approx(2 / 3)
    assert arithmetic.compute_hit_ratio([]) is None


def test_failures_are_counted_by_name_with_the_first_message() -> None:
    """The most frequent first."""
    samples = [sample(), sample("A", "one"), sample("B", "two"), sample("B", "three")]
    assert arithmetic.count_failures(samples) == [
        {"name": "B", "count": 2, "example": "two"},
        {"name": "A", "count": 1, "example": "one"},
    ]


def test_evictions_make_room_and_nothing_else_does() -> None:
    """Unloads at the start or the end, or for the cache setting, are none."""
    reasons = ("memory", "507", "507", "disk", "stopping", "not cached", "left over")
    assert arithmetic.count_evictions([event("unloaded", reason=reason) for reason in reasons]) == 4


def test_loaded_models_are_followed_through_every_event() -> None:
    """From the state at the start: loads, unloads, losses and the end of an instance."""
    models = [
        {"target_model": "x", "state": "loaded"},
        {"target_model": "y", "state": "on disk"},
    ]
    first = {"instances": [{"name": "a", "models": models}]}
    events = [
        event("loaded", 11.0, target_model="y"),
        event("loaded", 12.0, target_model="y"),  # nothing new
        event("unloaded", 13.0, target_model="x"),
        event("lost", 14.0, target_model="y"),
        event("loaded", 15.0, "b", target_model="z"),
        event("instance_ended", 16.0, "b"),
        event("invoked", 17.0, None, target_model="z"),
    ]
    found = arithmetic.follow_loaded(first, events, started=10.0)
    assert found["a"] == {"at_s": [0.0, 1.0, 3.0, 4.0], "models": [1, 2, 1, 0]}
    assert found["b"] == {"at_s": [5.0, 6.0], "models": [1, 0]}


def test_memory_that_cannot_be_seen_is_left_out() -> None:
    """Looks without a number are no zeros."""
    looks = [
        ObservedState(at, {"instances": [{"name": "a", "memory_used": used}]})
        for at, used in ((0.0, None), (1.0, 5), (2.0, 7))
    ]
    assert arithmetic.collect_memory(looks) == {"a": {"at_s": [1.0, 2.0], "bytes": [5, 7]}}


@given(st.lists(st.floats(-1, 200), max_size=50), st.floats(0.5, 150))
def test_bins_lose_nothing(times: list[float], seconds: float) -> None:
    """Each time is in one bin, the early and late ones too."""
    width = arithmetic.choose_bin_width(seconds)
    counts = arithmetic.count_per_bin(times, width, seconds)
    assert sum(counts) == len(times)
    assert len(counts) <= 120


def test_troubles_name_the_model_or_the_instance() -> None:
    """Events of trouble are counted, with who had it."""
    events = [
        event("load_failed", target_model="m", message="no weights"),
        event("instance_ended", message="killed"),
        event("loaded", target_model="m"),
    ]
    assert arithmetic.count_troubles(events) == [
        {"name": "load_failed", "count": 1, "example": "m: no weights"},
        {"name": "instance_ended", "count": 1, "example": "a: killed"},
    ]
