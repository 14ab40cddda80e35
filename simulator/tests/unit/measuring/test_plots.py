"""Plots of any numbers."""

from __future__ import annotations

import re

import pytest

from merlin_simulator.measuring import plots, quantities


@pytest.mark.slow
def test_many_points_are_thinned_and_few_are_all_drawn() -> None:
    """Each of a thousand dots is drawn; of a million only as many as a page can hold."""
    frame = plots.Frame("dots", "x", "y")

    def dots(count: int) -> int:
        values = [float(number + 1) for number in range(count)]
        return plots.draw_scatter(frame, [plots.Series("s", values, values, 1)]).count("h.01")

    assert dots(1000) == 1000
    assert plots.MOST_POINTS / 2 < dots(10 * plots.MOST_POINTS + 1) <= plots.MOST_POINTS


def test_the_same_numbers_are_the_same_picture() -> None:
    """No date and nothing random in it."""
    frame = plots.Frame("line", "x", "y")
    series = [plots.Series("s", [0.0, 1.0], [1.0, 2.0], 1)]
    first = plots.draw_lines(frame, series, [plots.Level("limit", 3.0)], steps=True)
    assert first == plots.draw_lines(frame, series, [plots.Level("limit", 3.0)], steps=True)


@pytest.mark.slow
def test_points_that_hide_each_other_are_all_seen() -> None:
    """One more mark, around the upper one, for each that lies below it; on each scale."""
    frame = plots.Frame("points", "x", "y")

    def marks(x: float, scale: str) -> int:
        one, other = (plots.Series(name, [at], [2.0], 1) for name, at in (("a", 1.0), ("b", x)))
        rest = plots.Series("c", [9.0], [1.0], 2)
        return plots.draw_points(frame, [one, other, rest], scale=scale).count("<use")

    for scale in ("linear", "log", "loglog"):
        assert marks(1.0, scale) == marks(5.0, scale) + 1


def test_small_numbers_are_whole_in_words() -> None:
    """Digits are taken from places alone: each tick has words of its own, and points lie inside."""
    frame = plots.Frame("shares", "x", "y", y_format=quantities.format_share)
    series = [plots.Series("a", [1.0, 1.01], [0.000232, 0.000228], 1)]
    svg = plots.draw_points(frame, series)
    words = re.findall(r">([\d.]+ %)<", svg)
    assert "0.015 %" in words
    assert len(words) == len(set(words))
    grid = re.search(r'<path d="M ([\d.]+) [\d.]+ \nL \1 ([\d.]+)', svg)
    assert grid
    # The legend's mark is the third.
    one, other, _ = re.findall(r'<use [^>]*y="([\d.]+)" style="fill: var', svg)
    assert min(float(one), float(other)) > float(grid[2]) + 5
