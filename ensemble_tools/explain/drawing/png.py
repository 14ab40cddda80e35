"""A drawing as PNG, by Pillow: lines are drawn larger and reduced, which smooths them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise

from PIL import Image, ImageDraw

from ensemble_tools.explain.drawing.lettering import PNG_SCALE, drawable, font
from ensemble_tools.explain.drawing.shapes import Box, Curve, Disc, Drawing, Point, Polygon, Text

#: Pixels of the file and, while drawing, of the larger image; 3 bytes each.
MAX_PIXELS = 16_000_000
MAX_DRAWN_PIXELS = 64_000_000
_STEPS = 14
_BOLD_STROKE = 0.034
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def png(drawing: Drawing) -> bytes:
    """The whole file; large drawings get fewer pixels."""
    area = drawing.width * drawing.height
    scale = min(PNG_SCALE, math.sqrt(MAX_PIXELS / area))
    over = max(1, min(3, int(math.sqrt(MAX_DRAWN_PIXELS / area) / scale)))
    size = (math.ceil(drawing.width * scale), math.ceil(drawing.height * scale))
    image = Image.new("RGB", (size[0] * over, size[1] * over), "#ffffff")
    pen = _Pen(ImageDraw.Draw(image), scale * over)
    for shape in drawing.shapes:
        pen.draw(shape)
    if over > 1:
        image = image.reduce(over)
    _letter(ImageDraw.Draw(image), drawing, scale)
    file = BytesIO()
    image.save(file, "PNG", compress_level=6)
    return file.getvalue()


def _letter(draw: ImageDraw.ImageDraw, drawing: Drawing, scale: float) -> None:
    """Text last: nothing in a drawing lies over text."""
    for shape in drawing.shapes:
        if isinstance(shape, Text):
            draw.text(
                (shape.x * scale, shape.y * scale),
                drawable(shape.text),
                fill=shape.fill,
                font=font(max(1.0, shape.size * scale)),
                anchor=_ANCHORS[shape.anchor],
                stroke_width=shape.size * scale * _BOLD_STROKE / 2 if shape.bold else 0,
            )


class _Pen:
    """Draws everything but text, every measure multiplied."""

    def __init__(self, draw: ImageDraw.ImageDraw, scale: float) -> None:
        self._draw, self._scale = draw, scale

    def draw(self, shape: object) -> None:
        scale = self._scale
        if isinstance(shape, Box):
            corners = (
                shape.x * scale,
                shape.y * scale,
                (shape.x + shape.width) * scale,
                (shape.y + shape.height) * scale,
            )
            self._draw.rounded_rectangle(
                corners, shape.radius * scale, shape.fill, shape.stroke, self._line(shape.line)
            )
        elif isinstance(shape, Curve):
            for line in _dashed(_flattened(shape), shape.dash):
                stroke = _stroke([(x * scale, y * scale) for x, y in line], shape.line * scale)
                self._draw.polygon(stroke, shape.stroke)
        elif isinstance(shape, Polygon):
            self._draw.polygon([(x * scale, y * scale) for x, y in shape.points], shape.fill)
        elif isinstance(shape, Disc):
            x, y, radius = (value * scale for value in (shape.x, shape.y, shape.radius))
            self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), shape.fill)

    def _line(self, width: float) -> int:
        return max(1, round(width * self._scale))


def _stroke(points: list[Point], width: float) -> list[Point]:
    """The outline of a thick line: Pillow's own thick lines wobble."""
    left: list[Point] = []
    right: list[Point] = []
    half = max(width, 1.0) / 2
    for number, (x, y) in enumerate(points):
        before, after = points[max(0, number - 1)], points[min(len(points) - 1, number + 1)]
        dx, dy = after[0] - before[0], after[1] - before[1]
        length = math.hypot(dx, dy) or 1.0
        left.append((x - dy / length * half, y + dx / length * half))
        right.append((x + dy / length * half, y - dx / length * half))
    return left + right[::-1]


def _flattened(curve: Curve) -> list[Point]:
    points = [curve.start]
    for first, second, end in curve.segments:
        start = points[-1]
        for step in range(1, _STEPS + 1):
            t = step / _STEPS
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            points.append(
                (
                    a * start[0] + b * first[0] + c * second[0] + d * end[0],
                    a * start[1] + b * first[1] + c * second[1] + d * end[1],
                )
            )
    return points


def _dashed(points: list[Point], dash: tuple[float, float] | None) -> Iterator[list[Point]]:
    """The line in pieces, as SVG's stroke-dasharray cuts it."""
    if dash is None:
        yield points
        return
    drawn, remaining = True, dash[0]
    piece = [points[0]]
    for start, end in pairwise(points):
        length = math.dist(start, end)
        done = 0.0
        while length - done > remaining:
            done += remaining
            t = done / length
            cut = (start[0] + (end[0] - start[0]) * t, start[1] + (end[1] - start[1]) * t)
            if drawn:
                yield [*piece, cut]
            drawn = not drawn
            remaining = dash[0] if drawn else dash[1]
            piece = [cut]
        remaining -= length - done
        piece.append(end)
    if drawn and len(piece) > 1:
        yield piece
