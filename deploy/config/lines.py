"""Where things stand in a TOML file: the line of each key, which TOML's readers do not tell.

TOML is made of statements: headers, and keys with their values. Each ends with a line, and is TOML
by itself. So lines are added until the reader takes them: that is a statement, and what it holds is
what it says. No grammar of TOML is written here a second time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Keys = tuple[str, ...]
#: Deeper than a variable of an environment nothing is looked for.
_DEEPEST = 3
#: What a value's last line has, if it has several.
_ENDS = ("]", "}", '"""', "'''")
#: Of all that the reader is given again and again; what stands behind has no line then.
_MOST_CHARACTERS = 1_000_000


def find_lines(written: str) -> dict[Keys, int]:
    """Of keys by their way from the top, where each is first named. written: TOML without fault."""
    found: dict[Keys, int] = {}
    section: Keys = ()
    for line, statement, said in _statements(written):
        if statement.lstrip().startswith("["):
            section = _header(said)
            ways: Iterator[Keys] = (section[: end + 1] for end in range(len(section[:_DEEPEST])))
        else:
            ways = (section + way for way in _ways(said))
        for way in ways:
            found.setdefault(way, line)
    return found


def _statements(written: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """The line where each begins, its text, and what it says."""
    begin, pending, left = 1, "", _MOST_CHARACTERS
    # TOML's line ends are these two alone: a string may have others of Unicode's in it.
    for number, line in enumerate(written.replace("\r\n", "\n").split("\n"), 1):
        pending += line + "\n"
        if pending.count("\n") > 1 and not any(end in line for end in _ENDS):
            continue
        left -= len(pending)
        if left < 0:
            return
        try:
            said = tomllib.loads(pending)
        except (ValueError, RecursionError):
            continue
        if said:
            yield begin, pending, said
        begin, pending = number + 1, ""


def _header(said: Mapping[str, Any]) -> Keys:
    """Of [a.b] or [[a.b]]: the one way that it has."""
    way: list[str] = []
    inner: Any = said
    while isinstance(inner, dict) and inner:
        ((name, inner),) = inner.items()
        way.append(name)
        if isinstance(inner, list):
            inner = inner[0]
    return tuple(way)


def _ways(said: Mapping[str, Any], before: Keys = ()) -> Iterator[Keys]:
    for name, value in said.items():
        yield (*before, name)
        if isinstance(value, dict) and len(before) < _DEEPEST:
            yield from _ways(value, (*before, name))
