"""Plots as SVG for a page, of any numbers: nothing here knows what they mean.

Text stays text in the page's own font; colours are the page's: text is currentColor, the rest CSS
variables (page.css has them, for light and dark). Series differ by colour, and by line style or
mark as well.
"""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

#: Stand-ins that matplotlib draws with, and what they become.
_TEXT = "#010203"
_COLOURS = {
    _TEXT: "currentColor",
    "#040506": "var(--grid)",
    "#0a0001": "var(--s1)",
    "#0a0002": "var(--s2)",
    "#0a0003": "var(--s3)",
    "#0a0004": "var(--s4)",
    "#0a0005": "var(--s5)",
    "#0a0006": "var(--s6)",
}
_SERIES = [colour for colour in _COLOURS if colour.startswith("#0a")]
_DASHES: list[Any] = ["-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (8, 3))]

_LEVEL_DASHES: Any = (0, (2, 2))

#: Inches at 72 points: letters stay readable where a phone shows it 370 pixels wide.
_WIDTH, _HEIGHT = 5.0, 3.0
#: Letters that stand beside each other in a legend; a sign takes four.
_LEGEND = 48
#: Where a point's name stands, in points from it: each colour has a side of its own.
_BESIDE = ((6, 3), (6, -11), (-11, 3), (-11, -11), (-3, 8), (-3, -16))
#: Points: how wide a mark is, how much wider one around it is, and how near they hide each other.
_MARK, _RING, _NEAR = 6, 5, 3
#: Points of one series beyond which some are left out, evenly; pages of megabytes help nobody.
MOST_POINTS = 6000

Format = Callable[[float], str]


@dataclass(frozen=True)
class Series:
    """One row of numbers."""

    label: str  # none: it is not in the legend
    x: Sequence[float]
    y: Sequence[float]
    colour: int  # 1 to 6, an index in the palette
    crosses: bool = False
    dashes: int = 0  # 0 (none) to 4
    names: Sequence[str] = ()  # beside each point, where there are few


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with."""

    label: str
    y: float


@dataclass(frozen=True)
class Drawn:
    """A plot with its title and the sentence below it."""

    title: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Frame:
    """Title and axes of a plot: title is for people who cannot see it."""

    title: str
    x_label: str
    y_label: str
    x_format: Format | None = None
    y_format: Format | None = None
    whole_y: bool = False


def draw_scatter(frame: Frame, series: Sequence[Series]) -> str:
    """Points with a logarithmic y axis; y values must be positive."""

    def fill(axes: Axes) -> None:
        axes.set_yscale("log")
        for row in series:
            x, y = _thinned(row.x), _thinned(row.y)
            if row.crosses:
                axes.plot(x, y, "x", color=_colour(row), markersize=5, label=row.label)
            else:
                _dots(axes, x, y, row)

    return _drawn(frame, fill)


def draw_points(
    frame: Frame, series: Sequence[Series], levels: Sequence[Level] = (), *, scale: str = "linear"
) -> str:
    """Few points, each with its name beside it; crosses are those of a series that says so. Of
    points that would hide each other the earlier ones are drawn larger, around the later ones.

    scale: "linear" from zero up, "log" of y, or "loglog" of both; what is not positive is left out.
    """

    def fill(axes: Axes) -> None:
        if scale != "linear":
            axes.set_yscale("log", nonpositive="mask")
        if scale == "loglog":
            axes.set_xscale("log", nonpositive="mask")
        for row in series:
            mark, label = "x" if row.crosses else "o", row.label or "_"
            lines = {"linestyle": _DASHES[row.dashes], "linewidth": 1} if row.dashes else {"ls": ""}
            axes.plot(
                row.x, row.y, mark, **lines, color=_colour(row), markersize=_MARK, label=label
            )
            beside = _BESIDE[(row.colour - 1) % len(_BESIDE)]
            for x, y, name in zip(row.x, row.y, row.names, strict=False):
                axes.annotate(
                    name, (x, y), beside, textcoords="offset points", color=_TEXT, fontsize=9
                )
        _draw_levels(axes, levels)
        axes.margins(x=0.12, y=0.12)
        if scale == "linear":
            heights = [y for row in series for y in row.y] + [level.y for level in levels]
            axes.set_ylim(0, _beyond(heights))
            axes.set_xlim(0, _beyond([x for row in series for x in row.x]))
        _draw_hidden(axes, series)

    return _drawn(frame, fill)


def _beyond(values: Sequence[float]) -> float:
    """Where an axis from zero ends, so that the largest has room for its mark and its name."""
    return 1.12 * max(values, default=0.0) or 1.0


def _draw_hidden(axes: Axes, series: Sequence[Series]) -> None:
    """Rings around points, or larger crosses, in the colours of those that lie below them."""
    # Limits are reckoned when they are asked for; places follow from them.
    axes.get_xlim()
    axes.get_ylim()
    above: list[Any] = []
    for row in reversed(series):
        for x, y in zip(row.x, row.y, strict=True):
            point = axes.transData.transform((x, y)) * 72 / axes.figure.dpi
            if not all(map(math.isfinite, point)):
                continue
            hiding = sum(math.dist(point, other) < _NEAR for other in above)
            above.append(point)
            if hiding:
                mark, size = "x" if row.crosses else "o", _MARK + _RING * hiding
                axes.plot([x], [y], mark, color=_colour(row), markersize=size, fillstyle="none")


def draw_cumulative(frame: Frame, series: Sequence[Series]) -> str:
    """For each series the share of its x values at or below x, on a logarithmic x axis."""

    def fill(axes: Axes) -> None:
        axes.set_xscale("log")
        for row in series:
            ordered = _thinned(sorted(row.x))
            shares = [(rank + 1) / len(ordered) for rank in range(len(ordered))]
            axes.plot(ordered, shares, drawstyle="steps-post", **_line(row))
        axes.set_ylim(0, 1.02)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 1])

    return _drawn(frame, fill)


def draw_lines(
    frame: Frame,
    series: Sequence[Series],
    levels: Sequence[Level] = (),
    *,
    steps: bool = False,
    highest: float | None = None,
) -> str:
    """Lines from zero up; steps: each value holds until the next one."""

    def fill(axes: Axes) -> None:
        style = "steps-post" if steps else "default"
        for row in series:
            axes.plot(_thinned(row.x), _thinned(row.y), drawstyle=style, **_line(row))
        _draw_levels(axes, levels)
        axes.set_ylim(bottom=0, top=highest)
        axes.margins(x=0)

    return _drawn(frame, fill)


def draw_stacked(frame: Frame, series: Sequence[Series]) -> str:
    """Areas on top of each other, the first at the bottom, each value holding until the next x.

    All series have the same x.
    """

    def fill(axes: Axes) -> None:
        axes.stackplot(
            series[0].x,
            [row.y for row in series],
            labels=[row.label for row in series],
            colors=[_colour(row) for row in series],
            linewidth=0,
            step="post",
        )
        axes.set_ylim(bottom=0)
        axes.margins(x=0)

    return _drawn(frame, fill)


def draw_ranked(frame: Frame, series: Sequence[Series], expected: Series) -> str:
    """Points over ranks and an expected line, both axes logarithmic; zeros are not drawn."""

    def fill(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot(expected.x, expected.y, **_line(expected))
        for row in series:
            seen = [(x, y) for x, y in zip(row.x, row.y, strict=True) if y > 0]
            _dots(axes, [x for x, _ in seen], [y for _, y in seen], row)

    return _drawn(frame, fill)


def _drawn(frame: Frame, fill: Callable[[Axes], None]) -> str:
    """Axes filled and turned into SVG; matplotlib's settings are read at every step of that."""
    file = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": frame.title}):
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        fill(axes)
        _finish(axes, frame)
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    return _for_page(file.getvalue(), frame.title)


_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "path.simplify": False,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.edgecolor": _TEXT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
}


def _colour(series: Series) -> str:
    return _SERIES[series.colour - 1]


def _line(series: Series) -> dict[str, Any]:
    return {
        "color": _colour(series),
        "linewidth": 1.6,
        "linestyle": _DASHES[series.dashes],
        "label": series.label,
    }


def _draw_levels(axes: Axes, levels: Sequence[Level]) -> None:
    for level in levels:
        axes.axhline(level.y, color=_TEXT, linewidth=1, linestyle=_LEVEL_DASHES, label=level.label)


def _dots(axes: Axes, x: Sequence[float], y: Sequence[float], series: Series) -> None:
    """One path of round dots, a line of no length each: a tenth of what markers take in SVG."""
    gaps = float("nan")
    xs = [number for value in x for number in (value, value, gaps)]
    ys = [number for value in y for number in (value, value, gaps)]
    axes.plot(xs, ys, color=_colour(series), linewidth=3.2, alpha=0.6, solid_capstyle="round")
    axes.plot([], [], "o", color=_colour(series), markersize=5, label=series.label)


def _thinned(values: Sequence[float]) -> Sequence[float]:
    every = -(-len(values) // MOST_POINTS)
    return values[::every] if every > 1 else values


def _finish(axes: Axes, frame: Frame) -> None:
    axes.set_xlabel(frame.x_label)
    axes.set_ylabel(frame.y_label)
    axes.grid(color="#040506", linewidth=0.8)
    axes.set_axisbelow(True)
    if frame.whole_y and axes.get_yscale() == "linear":
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, steps=[1, 2, 5, 10]))
    for axis, wording in ((axes.xaxis, frame.x_format), (axes.yaxis, frame.y_format)):
        if wording:
            axis.set_major_formatter(FuncFormatter(lambda value, _, words=wording: words(value)))
        _place_ticks(axis)
    axes.tick_params(which="minor", length=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=_count_columns(axes),
            frameon=False,
            borderaxespad=0.2,
            handlelength=1.8,
            columnspacing=1.2,
            fontsize=10,
        )


def _count_columns(axes: Axes) -> int:
    """Of the legend: up to four, as many as there is room for above the plot."""
    longest = max(len(label) for label in axes.get_legend_handles_labels()[1])
    return max(1, min(4, _LEGEND // (longest + 4)))


def _place_ticks(axis: Axis) -> None:
    """At 1, 2 and 5 times powers of ten; powers alone where a logarithmic axis has enough."""
    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        subs = (1.0, 2.0, 5.0) if high / low < 50 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_minor_formatter(NullFormatter())
    elif isinstance(axis.get_major_locator(), AutoLocator):
        axis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))


def _for_page(svg: str, title: str) -> str:
    """Inline SVG: the page's colours and font, fewer digits, ids that no other figure has."""
    svg = svg[svg.index("<svg") :]
    for stand_in, colour in _COLOURS.items():
        svg = svg.replace(stand_in, colour)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Of places, not of words: a tick at 0.015 % is not one at 0.01 %.
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d{2})\d+", r"\1", tag[0]), svg)
    # Dots: Chromium draws a line of no length only at the end of a path.
    svg = re.sub(r"M ([\d.]+ [\d.]+) ?\nL \1 ?\n", r"M\1h.01", svg)
    svg = re.sub(r"'DejaVu Sans'", "inherit", svg)
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    # The page scales it: the view box keeps the proportions.
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1)
