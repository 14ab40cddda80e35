"""What a drawing is made of; svg.py and png.py draw the same list, in order, and nothing else.

Units are CSS pixels, y grows downwards, colours are #rrggbb.
"""

from __future__ import annotations

from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle, with round corners where radius is not 0."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    line: float = 1.0
    radius: float = 0.0


@dataclass(frozen=True)
class Curve:
    """Start, then cubic segments: two control points and an end each. dash: lengths on and off."""

    start: Point
    segments: tuple[tuple[Point, Point, Point], ...]
    stroke: str
    line: float = 1.0
    dash: tuple[float, float] | None = None


@dataclass(frozen=True)
class Polygon:
    """A filled one."""

    points: tuple[Point, ...]
    fill: str


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    x: float
    y: float
    radius: float
    fill: str


@dataclass(frozen=True)
class Text:
    """One line; y is its baseline. anchor: which part of it x is: start, middle or end."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    anchor: str = "start"
    bold: bool = False


Shape = Box | Curve | Polygon | Disc | Text


@dataclass(frozen=True)
class Drawing:
    """title and description are for those who cannot see it."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
    description: str
