"""Plots of any numbers."""

from __future__ import annotations

from measuring import plots


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
