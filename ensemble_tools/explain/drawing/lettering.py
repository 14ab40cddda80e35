"""Text measured and cut with the font that Pillow brings along, so that no system font matters.

The font (Aileron, CC0) has ASCII and little else. What it lacks is written as an escape, so that
every name can be told from every other one, and so that no control character gets into a picture.
"""

from __future__ import annotations

import functools
from io import BytesIO
from typing import cast

from PIL import ImageFont

#: Beyond ASCII, what the font has and the pictures use.
_DRAWN = frozenset("…·")
_MEASURED_AT = 100.0
#: Pixels of a PNG per pixel of the drawing: for slides and sharp displays.
PNG_SCALE = 2.0


@functools.lru_cache(maxsize=256)
def font(size: float) -> ImageFont.FreeTypeFont:
    """The font at this size in pixels."""
    return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size=size))


def font_bytes() -> bytes:
    """The font itself, for a picture that is read elsewhere."""
    return cast(BytesIO, font(12).path).getvalue()


def drawable(text: str) -> str:
    """The text with everything that the font has no glyph for as an escape, on one line."""
    return "".join(
        char if (char.isascii() and char.isprintable()) or char in _DRAWN else _escaped(char)
        for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


@functools.lru_cache(maxsize=65536)
def width(text: str, size: float) -> float:
    """In pixels, of text that is drawable: the wider of what SVG and PNG make of it.

    A PNG's letters are hinted at their size, which rounds each; SVG's are not.
    """
    hinted = float(font(size * PNG_SCALE).getlength(text)) / PNG_SCALE
    return max(hinted, float(font(_MEASURED_AT).getlength(text)) * size / _MEASURED_AT)


def fitted(text: str, size: float, most: float) -> str:
    """The text, or as much of its beginning and end as fits, with … between."""
    text = drawable(text)
    if width(text, size) <= most:
        return text
    low, high = 0, min(len(text), 400)
    while low < high:
        middle = (low + high + 1) // 2
        if width(_cut(text, middle), size) <= most:
            low = middle
        else:
            high = middle - 1
    return _cut(text, low)


def _cut(text: str, kept: int) -> str:
    """Two thirds from the beginning, from where names are read, and one from the end."""
    tail = kept // 3
    return text[: kept - tail] + "…" + (text[-tail:] if tail else "")


def wrapped(text: str, size: float, most: float, lines: int) -> list[str]:
    """The text in at most so many lines of at most that width, cut at spaces."""
    rows: list[str] = []
    line = ""
    for word in drawable(text).split(" "):
        word = fitted(word, size, most)
        if line and width(f"{line} {word}", size) > most:
            rows.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    rows.append(line)
    if len(rows) > lines:
        rows = [*rows[: lines - 1], fitted(rows[lines - 1] + " …", size, most)]
        rows[-1] = rows[-1] if rows[-1].endswith("…") else rows[-1] + "…"
    return rows
