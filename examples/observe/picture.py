"""The dashboard's panels, drawn from Prometheus' answers to their own expressions."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter
from PIL import Image

from examples.observe.panels import fill_in, read_panels
from examples.observe.prometheus import Prometheus

_STEP_S = 2
_COLUMNS = 3
#: Of a panel with many series the largest are named.
_NAMED = 4
_UNITS = {"s": ("ms", 1000.0), "bytes": ("MiB", 2**-20), "Bps": ("KiB/s", 2**-10)}


def draw(prometheus: Prometheus, start: float, end: float, picture: Path) -> None:
    """All panels between two times (seconds since the epoch) as a PNG."""
    panels = read_panels()
    rows = -(-len(panels) // _COLUMNS)
    figure, axes = pyplot.subplots(rows, _COLUMNS, figsize=(13, 1.75 * rows), squeeze=False)
    for panel, place in zip(panels, axes.flat, strict=False):
        _draw_panel(place, panel, list(_lines(prometheus, panel, start, end)))
        place.set_xlim(0, end - start)
    for place in list(axes.flat)[len(panels) :]:
        place.axis("off")
    figure.tight_layout(pad=0.6)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=80)
    pyplot.close(figure)
    with Image.open(drawn) as image:  # with a palette it is a third as large
        image.convert("RGB").quantize(64).save(picture, optimize=True)


def _lines(
    prometheus: Prometheus, panel: Mapping[str, Any], start: float, end: float
) -> Iterator[tuple[str, list[float], list[float]]]:
    """Each series of a panel: its name, seconds since the start, values."""
    for target in panel["targets"]:
        for one in prometheus.query_range(fill_in(target["expr"]), start, end, _STEP_S):
            name = _name(target["legendFormat"], one["metric"])
            found = {float(at): float(value) for at, value in one["values"]}
            first = min(found)
            steps = [first + number * _STEP_S for number in range(int((end - first) / _STEP_S) + 1)]
            # A series that is away for a while has a gap, and no line across it.
            yield name, [at - start for at in steps], [found.get(at, math.nan) for at in steps]


def _name(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


def _draw_panel(
    axes: Any, panel: Mapping[str, Any], lines: list[tuple[str, list[float], list[float]]]
) -> None:
    unit, factor = _UNITS.get(panel["fieldConfig"]["defaults"]["unit"], ("", 1.0))
    if panel["fieldConfig"]["defaults"]["unit"] == "percentunit":
        unit, factor = "%", 100.0
    lines.sort(key=lambda line: -max((value for value in line[2] if value == value), default=0.0))
    for number, (name, times, values) in enumerate(lines):
        label = name.removesuffix(".tar.gz") if number < _NAMED else None
        axes.plot(times, [value * factor for value in values], linewidth=1, label=label)
    axes.set_title(f"{panel['title']}{f' ({unit})' if unit else ''}", fontsize=8, loc="left")
    axes.margins(y=0.3)  # for the names
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(labelsize=6, length=2)
    axes.grid(linewidth=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if lines:
        axes.legend(fontsize=5.5, frameon=False, loc="upper left", ncols=2, borderpad=0.1)
