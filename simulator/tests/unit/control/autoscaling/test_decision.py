"""How many instances target tracking wants, by datapoints, bounds and cooldowns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from merlin_simulator.control.autoscaling.decision import (
    Bounds,
    Past,
    Reading,
    Side,
    Situation,
    Suspended,
    Tracking,
    Wish,
    decide,
)

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
    assert (found.count if isinstance(found, Wish) else None) == count


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
    assert (found.count if isinstance(found, Wish) else None) == count


def test_the_largest_wins_to_scale_out_and_all_must_agree_to_scale_in() -> None:
    low, high = reading([10] * 15, "low"), reading([250] * 3, "high")
    found = decide(situation(1), [reading([150] * 3, "less"), high, low])
    assert isinstance(found, Wish)
    assert (found.count, found.policy, found.side) == (3, "high", Side.HIGH)
    for other in ([95.0] * 15, [], [10.0] * 14):
        assert not isinstance(decide(situation(4), [low, reading(other, "other")]), Wish)
    found = decide(situation(4), [low, reading([60] * 15, "more")])
    assert isinstance(found, Wish)
    assert (found.count, found.policy, found.side) == (3, "more", Side.LOW)


def test_a_policy_that_may_not_scale_in_is_not_asked_to() -> None:
    fixed = reading([95] * 15, "fixed", disable_scale_in=True)
    assert not isinstance(decide(situation(4), [fixed]), Wish)
    found = decide(situation(4), [fixed, reading([50] * 15, "free")])
    assert isinstance(found, Wish)
    assert (found.count, found.policy) == (2, "free")


def test_what_is_suspended_stays() -> None:
    out, into = reading([200] * 3), reading([10] * 15)
    assert not isinstance(decide(situation(2, suspended=Suspended(scale_out=True)), [out]), Wish)
    assert not isinstance(decide(situation(2, suspended=Suspended(scale_in=True)), [into]), Wish)
    assert isinstance(decide(situation(2, suspended=Suspended(scale_in=True)), [out]), Wish)


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
    assert not isinstance(found, Wish)
    assert (found.code if found else None) == code


@pytest.mark.parametrize("target", [1e-9, 5e-324])
def test_a_target_next_to_nothing_wants_as_many_as_the_bounds_have(target: float) -> None:
    found = decide(situation(1), [Reading(Tracking("p", target), [1e9] * 3)])
    assert isinstance(found, Wish)
    assert found.count == 5
