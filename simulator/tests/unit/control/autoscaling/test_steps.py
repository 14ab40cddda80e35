"""Step scaling: which step, how far, and what a policy may not be."""

from __future__ import annotations

from typing import Any

import pytest

from merlin_simulator.control.autoscaling.decision import (
    Bounds,
    Past,
    Situation,
    Suspended,
    Wish,
    check_steps,
    step,
)
from merlin_simulator.control.errors import ServiceError

NOW = 1000.0


def one(change: int, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    bounds = {"MetricIntervalLowerBound": low, "MetricIntervalUpperBound": high}
    given = {name: value for name, value in bounds.items() if value is not None}
    return {"ScalingAdjustment": change, **given}


def policy(kind: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"AdjustmentType": kind, "StepAdjustments": list(steps), **more}


UP = policy("ChangeInCapacity", one(1, 0, 20), one(3, 20))
DOWN = policy("ChangeInCapacity", one(-1, -20, 0), one(-2, None, -20))


@pytest.mark.parametrize(
    ("config", "current", "value", "count"),
    [
        (UP, 2, 50, 3),
        (UP, 2, 69.9, 3),
        (UP, 2, 70, 5),
        (UP, 2, 49, None),
        (UP, 9, 70, 10),
        (UP, 10, 70, None),
        (DOWN, 4, 49, 3),
        (DOWN, 4, 30, 2),
        (DOWN, 1, 30, None),
        (policy("ExactCapacity", one(4, 0)), 7, 60, 4),
        (policy("ExactCapacity", one(4, 0)), 4, 60, None),
        (policy("PercentChangeInCapacity", one(10, 0)), 3, 60, 4),
        (policy("PercentChangeInCapacity", one(50, 0)), 5, 60, 7),
        (policy("PercentChangeInCapacity", one(50, 0), MinAdjustmentMagnitude=4), 2, 60, 6),
        (policy("PercentChangeInCapacity", one(-67, None, 0)), 10, 40, 4),
    ],
)
def test_a_step_is_taken_by_how_far_the_metric_is_past_its_threshold(
    config: dict[str, Any], current: int, value: float, count: int | None
) -> None:
    found = step(Situation(NOW, current, Bounds(1, 10)), "p", config, value, 50)
    assert (found.count if isinstance(found, Wish) else None) == count


@pytest.mark.parametrize(
    ("config", "current", "value", "past", "count"),
    [
        (UP, 3, 50, Past(NOW - 10, 60, 2), None),
        (UP, 3, 70, Past(NOW - 10, 60, 2), 5),
        (UP, 3, 50, Past(NOW - 60, 60, 2), 4),
        (DOWN, 3, 40, Past(in_at=NOW - 10, in_cooldown_s=60), None),
        (DOWN, 3, 40, Past(in_at=NOW - 60, in_cooldown_s=60), 2),
    ],
)
def test_cooldowns_hold(
    config: dict[str, Any], current: int, value: float, past: Past, count: int | None
) -> None:
    found = step(Situation(NOW, current, Bounds(1, 10), past), "p", config, value, 50)
    assert (found.count if isinstance(found, Wish) else None) == count


def test_what_is_suspended_stays() -> None:
    halted = Suspended(scale_in=True, scale_out=True)
    at_two = Situation(NOW, 2, Bounds(1, 10), Past(), halted)
    assert not isinstance(step(at_two, "p", UP, 70, 50), Wish)
    assert not isinstance(step(at_two, "p", DOWN, 10, 50), Wish)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "AdjustmentType must be specified"),
        (policy("ChangeInCapacity"), "At least one StepAdjustment"),
        (policy("ChangeInCapacity", one(1, 0, 10), one(2, 9)), "overlap or have a gap"),
        (policy("ChangeInCapacity", one(1, 0, 10), one(2, 11)), "overlap or have a gap"),
        (policy("ChangeInCapacity", one(1, 5, 5)), "must be greater"),
        (policy("ChangeInCapacity", *[one(1, n, n + 1) for n in range(21)]), "at most 20"),
    ],
)
def test_steps_that_the_service_refuses(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ServiceError, match=words):
        check_steps(config)
