"""A report's page: one file that opens from a disk, without a script and without another file.

page.html is the frame of each, parts.html what they are made of. All that is put in is escaped but
plots.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from merlin_simulator.measuring.quantities import format_seconds, format_share, format_size

_FOLDER = Path(__file__).parents[1]
_COLOURS = Path(__file__).with_name("colours.css")
#: A picture of its own is so many times as large as a plot's letters need at least.
_LARGER = 1.8


def render(template: str, folder: Path = _FOLDER, **values: Any) -> str:
    """The page of a template, by its path in this package, or in another folder."""
    return str(_environment(folder).get_template(template).render(values))


@functools.cache
def _environment(folder: Path) -> Any:
    # Here, since only who writes a page pays for it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, _FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "thousands": describe_count,
        "seconds": describe_seconds,
        "share": lambda value: "–" if value is None else format_share(value),
        "size": lambda value: "–" if value is None else format_size(value),
    }
    return environment


def describe_count(value: int) -> str:
    """With a comma between thousands."""
    return f"{value:,}"


def describe_seconds(value: float | None) -> str:
    """A duration, or a dash."""
    return "–" if value is None else format_seconds(value)


def write_picture(svg: str) -> str:
    """A plot as a file of its own: with the page's colours, its ground, and a size."""
    sides = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    width, height = (f"{float(side) * _LARGER:.0f}" for side in sides)
    rules = "svg{color:var(--ink);background:var(--ground);font-family:system-ui,sans-serif}"
    style = f"<style>{_COLOURS.read_text('utf-8')}{rules}</style>"
    sized = svg.replace("<svg", f'<svg width="{width}" height="{height}"', 1)
    start = sized.index(">", sized.index("<svg")) + 1
    return f"{sized[:start]}{style}{sized[start:]}\n"
