"""A drawing as SVG: one file, with its font inside and a ground of its own for any page."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from ensemble_tools.explain.drawing.lettering import drawable, font_bytes
from ensemble_tools.explain.drawing.shapes import Box, Curve, Disc, Drawing, Polygon, Shape, Text

#: Where a viewer forbids embedded fonts.
_FALLBACK = "Aileron, Helvetica, Arial, sans-serif"
_BOLD_STROKE = 0.034


def svg(drawing: Drawing) -> str:
    """The whole file."""
    return "\n".join(_lines(drawing)) + "\n"


def _lines(drawing: Drawing) -> Iterator[str]:
    width, height = f"{drawing.width:.0f}", f"{drawing.height:.0f}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
    )
    yield f"<title>{_words(drawing.title)}</title>"
    yield f"<desc>{_words(drawing.description)}</desc>"
    encoded = base64.b64encode(font_bytes()).decode("ascii")
    yield (
        "<style>@font-face{font-family:MerlinPicture;"
        f"src:url(data:font/otf;base64,{encoded})}}"
        f"text{{font-family:MerlinPicture,{_FALLBACK};white-space:pre}}</style>"
    )
    for shape in drawing.shapes:
        yield _element(shape)
    yield "</svg>"


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        radius = f' rx="{shape.radius:g}"' if shape.radius else ""
        stroke = f' stroke="{shape.stroke}" stroke-width="{shape.line:g}"' if shape.stroke else ""
        return (
            f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" '
            f'height="{shape.height:.1f}"{radius} fill="{shape.fill or "none"}"{stroke}/>'
        )
    if isinstance(shape, Curve):
        return _curve(shape)
    if isinstance(shape, Polygon):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        return f'<polygon points="{points}" fill="{shape.fill}"/>'
    if isinstance(shape, Disc):
        place = f'cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:g}"'
        return f'<circle {place} fill="{shape.fill}"/>'
    return _text(shape)


def _words(text: str) -> str:
    """As XML may hold them: control characters have no place in it, escaped or not."""
    return escape(drawable(text))


def _curve(curve: Curve) -> str:
    path = f"M{curve.start[0]:.1f} {curve.start[1]:.1f}" + "".join(
        "C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in segment) for segment in curve.segments
    )
    dash = f' stroke-dasharray="{curve.dash[0]:g} {curve.dash[1]:g}"' if curve.dash else ""
    stroke = f'stroke="{curve.stroke}" stroke-width="{curve.line:g}"{dash}'
    return f'<path d="{path}" fill="none" {stroke}/>'


def _text(text: Text) -> str:
    anchor = f" text-anchor={quoteattr(text.anchor)}" if text.anchor != "start" else ""
    bold = (
        f' stroke="{text.fill}" stroke-width="{text.size * _BOLD_STROKE:.2f}"' if text.bold else ""
    )
    return (
        f'<text x="{text.x:.1f}" y="{text.y:.1f}" font-size="{text.size:g}" '
        f'fill="{text.fill}"{anchor}{bold}>{_words(text.text)}</text>'
    )
