"""A scanner for protobuf's text format that knows no schema: values, where they lie, and edits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from google.protobuf import text_encoding

from ensemble_tools.errors import ConfigUnreadable

_OPENING, _CLOSING = ("{", "<"), ("}", ">")

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<word>[-+.\w]+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)

#: What protobuf's C++ parser, which is tritonserver's, takes in strings and comments alone.
_FOREIGN = re.compile(r"[^ -~\t\n\r\v\f]")


def _tokenize(text: str) -> Iterator[tuple[str, str, int, int]]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield match.lastgroup or "", match.group(), match.start(), match.end()


def check_characters(text: str, path: Path) -> None:
    """Raise ConfigUnreadable for what only strings and comments may have, such as “ or a no-break
    space: Python's parser takes some of it, or says nothing that helps."""
    if not _FOREIGN.search(text):
        return
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "string" or match.group().startswith("#"):
            continue
        if foreign := _FOREIGN.search(match.group()):
            called = unicodedata.name(foreign[0], "a control character").lower()
            raise ConfigUnreadable(
                path,
                f"found the character {foreign[0]!a} ({called}) outside of quotes and comments, "
                "where Triton reads ASCII alone",
                text.count("\n", 0, match.start() + foreign.start()) + 1,
            )


def add_colons(text: str) -> str:
    """`field [` as `field: [`, which means the same: of a field that it does not know, Python's
    parser takes a list only behind a colon."""
    ends, last = [], ""
    for kind, token, start, _ in _tokenize(text):
        if token == "[" and last == "word":
            ends.append(start)
        last = kind
    parts = [text[start:end] for start, end in pairwise((0, *ends, len(text)))]
    return ": ".join(parts)


class Value(NamedTuple):
    """A value in a text, and where it lies; a message with its brackets, and without words."""

    path: tuple[str, ...]
    start: int
    end: int
    words: str = ""


def find_values(text: str) -> Iterator[Value]:
    """Every value of a text that the parser took, but numbers in lists; messages as they end.

    Adjacent string literals are one value, as protobuf joins them.
    """
    path: list[str] = []
    opened: list[int] = []
    field = last = ""
    literals: list[tuple[str, int, int]] = []
    for kind, token, start, end in [*_tokenize(text), ("mark", "", 0, 0)]:
        if kind == "string":
            literals.append((token, start, end))
            last = token
            continue
        if literals:
            words = "".join(_unescape(literal) for literal, *_ in literals)
            yield Value((*path, field), literals[0][1], literals[-1][2], words)
            literals.clear()
        if kind == "word" and last == ":":
            yield Value((*path, field), start, end, token)
        elif kind == "word":
            field = token
        elif token in _OPENING:
            path.append(field)
            opened.append(start)
        elif token in _CLOSING:
            field = path.pop()
            yield Value((*path, field), opened.pop(), end)
        last = token


def find_spans(text: str, name: str) -> Iterator[tuple[int, int]]:
    """The spans of each field of that name at the top, whose values are messages.

    A `,` or `;` behind it belongs to it.
    """
    depth, begun, closed = 0, -1, -1
    for kind, token, start, end in _tokenize(text):
        if closed >= 0:
            yield begun, end if token in (",", ";") else closed
            begun = closed = -1
        if kind == "word" and depth == 0 and token == name:
            begun = start
        elif token in "{<[":
            depth += 1
        elif token in "}>]":
            depth -= 1
            closed = end if depth == 0 and begun >= 0 else -1
    if closed >= 0:
        yield begun, closed


def _unescape(literal: str) -> str:
    return str(text_encoding.CUnescape(literal[1:-1]).decode(errors="replace"))


def replace_spans(text: str, edits: list[tuple[int, int, str]]) -> str:
    """The text with strings at these spans, in ascending order, replaced."""
    for start, end, value in reversed(edits):
        escaped = text_encoding.CEscape(value.encode(), as_utf8=True)
        text = f'{text[:start]}"{escaped}"{text[end:]}'
    return text
