"""Medians, ratios and goals."""

from __future__ import annotations

import pytest

from bench.measure import (
    Goal,
    Line,
    Unit,
    measure_in_turn,
    ratio_at_least,
    ratio_at_most,
    value_at_most,
)


def line(
    ours: list[float],
    rival: list[float],
    goal: Goal | None = None,
    unit: Unit = "s",
    against: str | None = "rival",
) -> Line:
    values = {"ours": ours, "rival": rival}
    return Line("what", unit, values, goal, against=against)


def test_ratio_is_of_medians() -> None:
    """One round that went wrong does not move it; the median of ratios would be another number."""
    assert line([1.0, 2.0, 90.0], [4.0, 1.0, 5.0]).ratio == 0.5


def test_a_contender_that_was_not_measured_has_no_median() -> None:
    """Nor a ratio to it."""
    measured = line([3.0, 1.0, 2.0], [1.0], against="limit")
    assert measured.median("ours") == 2.0
    assert measured.median("limit") is None
    assert measured.ratio is None


@pytest.mark.parametrize(
    ("goal", "ours", "reached"),
    [
        (ratio_at_most(0.5), 5.0, True),
        (ratio_at_most(0.5), 5.1, False),
        (ratio_at_least(0.8), 8.0, True),
        (ratio_at_least(0.8), 7.9, False),
        (value_at_most(0.7), 0.7, True),
        (value_at_most(0.7), 0.71, False),
        (None, 1.0, None),
    ],
)
def test_goal_is_reached_at_its_bound(goal: Goal | None, ours: float, reached: bool | None) -> None:
    """The bound itself counts as reached; without a goal there is nothing to reach."""
    assert line([ours], [10.0], goal).reached is reached


def test_goal_on_a_ratio_that_there_is_not_is_missed() -> None:
    """A missing measurement never counts as a success."""
    assert line([1.0], [], ratio_at_most(2)).reached is False


def test_ratio_is_of_the_named_subject_and_base() -> None:
    """The rival beside the rival alone, where neither is ours."""
    values = {"rival": [6.0], "rival alone": [2.0], "ours": [100.0]}
    measured = Line("what", "s", values, subject="rival", against="rival alone")
    assert measured.ratio == 3.0
    assert Line("what", "s", values, against=None).ratio is None


def test_sides_are_measured_in_turn() -> None:
    """A B, B A, A B, the warming up first and not counted."""
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    rounds: list[int] = []
    sides = {"a": lambda: side("a"), "b": lambda: side("b")}
    values = measure_in_turn(2, sides, rounds.append)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert rounds == [0, 1, 2]
    assert values == {"a": [4.0, 5.0], "b": [3.0, 6.0]}
    assert measure_in_turn(1, sides, rounds.append, warm=False) == {"a": [8.0], "b": [7.0]}
