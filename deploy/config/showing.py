"""What stands in a CONFIG.toml, in a sentence: in one line, and as TOML has it."""

from __future__ import annotations

import json
import re

_MOST = 80
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def show(value: object) -> str:
    """A value; of one that has others in it no more than one line has room for."""
    words = _show(value, inside=False)
    return words if len(words) <= _MOST else f"{words[: _MOST - 1]}…"


def show_name(name: str) -> str:
    """A key, quoted where TOML wants that."""
    return show(name) if not _BARE.fullmatch(name) or len(name) > _MOST else name


def _show(value: object, *, inside: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        cut = value[:_MOST]
        return json.dumps(cut, ensure_ascii=not cut.isprintable())
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        if inside:
            return "[…]"
        return f"[{', '.join(_show(one, inside=True) for one in value[:_MOST])}]"
    try:
        return str(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of thousands of digits"
