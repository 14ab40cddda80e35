"""The report's plots, as SVG that takes its colours from the page. Pure.

Bars are drawn here; lines by measuring's plots.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from bench import quantities
from bench.measure import Line
from merlin_simulator.measuring import plots
from merlin_simulator.measuring.plots import Frame, Series
from merlin_simulator.measuring.quantities import format_ratio

#: Units of the view box; letters stay readable where a phone shows it 360 pixels wide.
_WIDTH = 360
_COLOURS = {"rival": 2, "limit": 5, "ours": 1, "executor": 2, "ensemble": 5, "compiled": 1}
_OTHER = 4


def draw_bars(line: Line) -> str:
    """A bar for each contender's median from zero, with a whisker over the rounds.

    A dashed mark shows where the goal is.
    """
    left, right, step, bar = 78, 262, 25, 13
    mark = _goal_value(line)
    highest = max([max(values) for values in line.values.values()] + ([mark] if mark else []))
    scale = (right - left) / max(highest, 1e-12)
    names = [name for name in _COLOURS if name in line.values]
    names += [name for name in line.values if name not in names]
    parts = []
    for place, name in enumerate(names):
        middle = 14 + place * step
        median, spread = line.median(name), line.spread(name)
        assert median is not None
        assert spread is not None
        low, high = (left + max(value, 0) * scale for value in spread)
        width = max(median, 0) * scale
        colour = f"var(--s{_COLOURS.get(name, _OTHER)})"
        parts.append(_text(left - 6, middle + 4, name, "end"))
        parts.append(
            f'<rect x="{left}" y="{middle - bar / 2:.1f}" width="{max(width, 1):.1f}" '
            f'height="{bar}" rx="2" fill="{colour}"/>'
        )
        if len(line.values[name]) > 1:
            parts.append(_rule(low, middle, high, middle, 'stroke="currentColor" opacity=".65"'))
        value = quantities.format_quantity(median, line.unit)
        parts.append(_text(max(left + width, high) + 6, middle + 4, value, "start", bold=True))
    height = 6 + len(names) * step
    if mark is not None:  # under the numbers
        at = left + mark * scale
        dashes = 'stroke="currentColor" stroke-dasharray="3 3"'
        parts.insert(0, _rule(at, 2, at, height, dashes))
        parts.append(
            _text(at, height + 11, f"goal {quantities.format_goal(line)}", "middle", small=True)
        )
        height += 16
    return _svg(f"{line.what}: medians", height, parts)


def draw_goals(lines: Sequence[Line]) -> str:
    """How far each judged value is from its goal, on a logarithmic axis; left of it is reached."""
    judged = [(line, distance(line)) for line in lines]
    shown = [(line, far) for line, far in judged if far is not None]
    reach = max([2.0] + [max(far, 1 / far) for _, far in shown])
    half = math.log(min(reach, 100) * 1.1)
    left, right, step, top = 2, _WIDTH - 2, 29, 22
    middle = (left + right) / 2
    height = top + len(shown) * step
    parts = [
        _text(middle, 12, "goal", "middle", small=True),
        _text(left, 12, "← reached", "start", small=True),
        _text(right, 12, "missed →", "end", small=True),
    ]
    for place, (line, far) in enumerate(shown):
        y = top + place * step + 10
        offset = max(-1.0, min(1.0, math.log(far) / half)) * (right - middle)
        start, width = min(middle, middle + offset), max(abs(offset), 1.5)
        colour = "var(--good)" if line.reached else "var(--bad)"
        value = f"{_judged(line)} ({quantities.format_goal(line)})"
        parts.append(_text(left, y, line.what, "start", small=True))
        parts.append(_text(right, y, value, "end", bold=True, small=True))
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 5}" width="{width:.1f}" height="7" rx="2" '
            f'fill="{colour}"/>'
        )
        parts.append(_rule(middle, y + 3, middle, y + 14, 'stroke="currentColor"'))
    return _svg("Distance of each value to its goal", height, parts)


def distance(line: Line) -> float | None:
    """1 at the goal, less where it is reached with room to spare; None without a goal or value."""
    if line.goal is None:
        return None
    value = line.ratio if line.goal.of == "ratio" else line.median(line.subject)
    if value is None:
        return None
    small = max(value, 1e-9)  # a difference of two times may be below zero
    return small / line.goal.bound if line.goal.direction == "at most" else line.goal.bound / small


def draw_curves(lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """(title, SVG) of what is better seen over an axis: loads one after another, sizes of JSON."""
    for line in lines:
        if drawn := _over_time(line):
            yield drawn
        if loads := line.series.get("each load"):
            title = "Loads, one after another"
            frame = Frame(title, "models loaded", "seconds", y_format=lambda v: f"{v:g}")
            series = Series("a load", range(1, len(loads) + 1), loads, 1)
            yield title, plots.draw_lines(frame, [series])
    sized = [
        line
        for line in lines
        if line.what.startswith("JSON FP32") and "request_bytes" in line.series
    ]
    if len(sized) > 1:
        title = "JSON of FP32 by its size"
        frame = Frame(title, "request, MB", "p50, ms")
        series_of = [
            Series(
                name,
                [line.series["request_bytes"][0] / 1e6 for line in sized],
                [1e3 * (line.median(name) or 0) for line in sized],
                _COLOURS[name],
                dashes=place,
            )
            for place, name in enumerate(("ours", "rival", "limit"))
        ]
        yield title, plots.draw_lines(frame, series_of)


def _over_time(line: Line) -> tuple[str, str] | None:
    """Of a line whose series are pairs, "compiled at" in seconds and "compiled", each a number."""
    names = [name for name in line.values if f"{name} at" in line.series]
    if not names:
        return None
    frame = Frame(line.what, "seconds since the start", line.unit, whole_y=True)
    series = [
        Series(
            name,
            line.series[f"{name} at"],
            line.series[name],
            _COLOURS.get(name, _OTHER),
            dashes=place,
        )
        for place, name in enumerate(names)
    ]
    return line.what, plots.draw_lines(frame, series, steps=True)


def _judged(line: Line) -> str:
    assert line.goal is not None
    if line.goal.of == "ratio":
        return format_ratio(line.ratio)
    return quantities.format_quantity(line.median(line.subject), line.unit)


def _goal_value(line: Line) -> float | None:
    """The goal in the line's unit."""
    if line.goal is None:
        return None
    if line.goal.of == "value":
        return line.goal.bound
    base = line.median(line.against) if line.against else None
    return None if base is None else base * line.goal.bound


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {_WIDTH} {height:g}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _rule(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:g}" x2="{x2:.1f}" y2="{y2:g}" {style}/>'


def _text(
    x: float, y: float, text: str, anchor: str, *, bold: bool = False, small: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    if bold:  # readable where a line crosses it
        weight += ' paint-order="stroke" stroke="var(--card)" stroke-width="3"'
    size = 10 if small else 11
    return (
        f'<text x="{x:.1f}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{weight} '
        f'fill="currentColor">{escape(text)}</text>'
    )
