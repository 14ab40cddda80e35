"""How many instances policies want: target tracking and steps, bounds and cooldowns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from merlin_simulator.control.autoscaling.decision import (
    Bounds,
    Past,
    Reading,
    ScalingChange,
    Side,
    Situation,
    Suspended,
    Tracking,
    check_steps,
    decide,
    step,
)
from merlin_simulator.control.errors import ServiceError

NOW = 10_000.0
Values = Sequence[float | None]


def reading(values: Values, policy: str = "p", **rule: Any) -> Reading:
    """Of a policy whose target is 100 a minute."""
    return Reading(Tracking(policy, 100.0, **rule), values)


def situation(
    current: int, past: Past | None = None, suspended: Suspended | None = None
) -> Situation:
    return Situation(NOW, current, Bounds(1, 5), past or Past(), suspended or Suspended())


@pytest.mark.parametrize(
    ("values", "high", "low"),
    [
        ([101, 101, 101], True, False),
        ([101, 100, 101], False, False),
        ([101, 101], False, False),
        ([101, None, 101, None, 101], True, False),
        ([101, 101, None, None, None], False, False),
        ([89] * 15, False, True),
        ([90, *[89] * 14], False, False),
        ([90, *[89] * 15], False, True),
        ([0] * 15, False, True),
        ([], False, False),
    ],
)
def test_an_alarm_goes_by_its_last_datapoints(values: Values, high: bool, low: bool) -> None:
    of_policy = reading(values)
    assert (of_policy.is_high, of_policy.is_low) == (high, low)


@pytest.mark.parametrize(
    ("current", "values", "count"),
    [
        (1, [101] * 3, 2),
        (1, [300] * 3, 3),
        (2, [110] * 3, 3),
        (2, [500] * 3, 5),
        (4, [150, 150, 101], 5),
        (4, [50] * 15, 2),
        (4, [*[60] * 14, 51], 3),
        (4, [*[89] * 14, 51], None),
        (2, [51, *[40] * 14], None),
        (2, [51, *[40] * 15], 1),
        (4, [0] * 15, 1),
        (3, [70] * 15, None),
        (4, [50] * 14, None),
        (4, [95] * 15, None),
        (1, [0] * 15, None),
        (5, [500] * 3, None),
        (2, [], None),
    ],
)
def test_the_count_follows_the_metric_within_its_bounds(
    current: int, values: Values, count: int | None
) -> None:
    found = decide(situation(current), [reading(values)])
    assert (found.count if isinstance(found, ScalingChange) else None) == count


@pytest.mark.parametrize(
    ("current", "values", "past", "count"),
    [
        # One instance became two: while the cooldown goes on, only what is more than two.
        (2, [180] * 3, Past(NOW - 299, 300, 1), None),
        (2, [250] * 3, Past(NOW - 299, 300, 1), 3),
        (2, [180] * 3, Past(NOW - 300, 300, 1), 4),
        (2, [50] * 15, Past(NOW - 10, 300, 1), 1),
        (3, [50] * 15, Past(in_at=NOW - 299, in_cooldown_s=300), None),
        (3, [50] * 15, Past(in_at=NOW - 300, in_cooldown_s=300), 2),
        (3, [150] * 3, Past(in_at=NOW - 1, in_cooldown_s=300), 5),
        # A clock that went faster left times behind that are still to come.
        (3, [50] * 15, Past(in_at=NOW + 9_000, in_cooldown_s=300), 2),
    ],
)
def test_cooldowns_hold(current: int, values: Values, past: Past, count: int | None) -> None:
    found = decide(situation(current, past), [reading(values)])
    assert (found.count if isinstance(found, ScalingChange) else None) == count


def test_the_largest_wins_to_scale_out_and_all_must_agree_to_scale_in() -> None:
    low, high = reading([10] * 15, "low"), reading([250] * 3, "high")
    found = decide(situation(1), [reading([150] * 3, "less"), high, low])
    assert isinstance(found, ScalingChange)
    assert (found.count, found.policy, found.side) == (3, "high", Side.HIGH)
    for other in ([95.0] * 15, [], [10.0] * 14):
        assert not isinstance(decide(situation(4), [low, reading(other, "other")]), ScalingChange)
    found = decide(situation(4), [low, reading([60] * 15, "more")])
    assert isinstance(found, ScalingChange)
    assert (found.count, found.policy, found.side) == (3, "more", Side.LOW)


def test_a_policy_that_may_not_scale_in_is_not_asked_to() -> None:
    fixed = reading([95] * 15, "fixed", disable_scale_in=True)
    assert not isinstance(decide(situation(4), [fixed]), ScalingChange)
    found = decide(situation(4), [fixed, reading([50] * 15, "free")])
    assert isinstance(found, ScalingChange)
    assert (found.count, found.policy) == (2, "free")


def test_what_is_suspended_stays() -> None:
    out, into = reading([200] * 3), reading([10] * 15)
    assert not isinstance(
        decide(situation(2, suspended=Suspended(scale_out=True)), [out]), ScalingChange
    )
    assert not isinstance(
        decide(situation(2, suspended=Suspended(scale_in=True)), [into]), ScalingChange
    )
    assert isinstance(
        decide(situation(2, suspended=Suspended(scale_in=True)), [out]), ScalingChange
    )


@pytest.mark.parametrize(
    ("current", "values", "code"),
    [
        (5, [200] * 3, "AlreadyAtMaxCapacity"),
        (1, [10] * 15, "AlreadyAtMinCapacity"),
        (3, [70] * 15, None),
        (3, [*[70] * 14, 60], "AutoScalingAnticipatedFlapping"),
    ],
)
def test_why_an_alarm_changes_nothing(current: int, values: Values, code: str | None) -> None:
    found = decide(situation(current), [reading(values)])
    assert not isinstance(found, ScalingChange)
    assert (found.code if found else None) == code


@pytest.mark.parametrize("target", [1e-9, 5e-324])
def test_a_target_next_to_nothing_wants_as_many_as_the_bounds_have(target: float) -> None:
    found = decide(situation(1), [Reading(Tracking("p", target), [1e9] * 3)])
    assert isinstance(found, ScalingChange)
    assert found.count == 5


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
    assert (found.count if isinstance(found, ScalingChange) else None) == count


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
def test_cooldowns_hold_for_steps(
    config: dict[str, Any], current: int, value: float, past: Past, count: int | None
) -> None:
    found = step(Situation(NOW, current, Bounds(1, 10), past), "p", config, value, 50)
    assert (found.count if isinstance(found, ScalingChange) else None) == count


def test_steps_that_are_suspended_stay() -> None:
    halted = Suspended(scale_in=True, scale_out=True)
    at_two = Situation(NOW, 2, Bounds(1, 10), Past(), halted)
    assert not isinstance(step(at_two, "p", UP, 70, 50), ScalingChange)
    assert not isinstance(step(at_two, "p", DOWN, 10, 50), ScalingChange)


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
