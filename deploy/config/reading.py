"""CONFIG.toml read: all mistakes together, each with its line, or a Config."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.config.choices import choices_of
from deploy.config.config import SECTIONS, Config
from deploy.config.consistency import find_contradictions
from deploy.config.values import table
from deploy.errors import ConfigurationRefused, Refused

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TAGS = "tags"
#: More is no configuration.
_MOST_BYTES = 1_000_000
Mistake = tuple[int | None, str]


def read_config(path: Path) -> Config:
    """Of a file. Raises ConfigurationRefused; Refused where it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise Refused(f"{path}: found more than 1 MB, expected a CONFIG.toml")
        written = data.decode()
    except OSError as error:
        raise Refused(
            f"{path}: {error.strerror}; expected a CONFIG.toml (`python -m deploy example` "
            "prints one)"
        ) from error
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: it is no text in UTF-8 (byte {error.start})") from error
    return parse_config(written, str(path))


def parse_config(written: str, path: str) -> Config:
    """Of what stands in a file called path. Raises ConfigurationRefused."""
    try:
        found = tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationRefused(path, [_syntax(error)]) from error
    lines = _Lines(written)
    mistakes: list[Mistake] = []
    sections = {name: _read_section(name, found, lines, mistakes) for name in SECTIONS}
    tags = _read_tags(found, lines, mistakes)
    for name in found:
        if name not in SECTIONS and name != _TAGS:
            known = [*SECTIONS, _TAGS]
            mistakes.append(
                (lines.of(name), f"found {name}, {_expected(name, known, 'a section')}")
            )
    if not mistakes:
        given = {name: one for name, one in sections.items() if one is not None}
        config = Config(**given, tags=tags)
        mistakes = [
            (lines.of(section, key), sentence)
            for section, key, sentence in find_contradictions(config)
        ]
        if not mistakes:
            return config
    raise ConfigurationRefused(path, sorted(mistakes, key=lambda one: one[0] or 0))


def _syntax(error: Exception) -> Mistake:
    """TOML's own words, with the line in front where they name it."""
    words = str(error)
    place = re.search(r" \(at line (\d+), column (\d+)\)$", words)
    if place is None:
        return None, f"it is no TOML: {words}"
    return int(place[1]), f"it is no TOML (column {place[2]}): {words[: place.start()]}"


def _read_section(
    name: str, found: Mapping[str, Any], lines: _Lines, mistakes: list[Mistake]
) -> Any:
    """The section, or None where it is left out and nothing of it is required."""
    section = SECTIONS[name]
    choices = {one.name: one for one in choices_of(section)}
    given = found.get(name)
    if given is None:
        required = [one.name for one in choices.values() if one.required]
        if required and name in ("endpoint", "instances"):
            mistakes.append((None, f"there is no [{name}], which has {' and '.join(required)}"))
        return None
    if not isinstance(given, dict):
        mistakes.append((lines.of(name), f"{name}: found a value, expected a section [{name}]"))
        return None
    read: dict[str, Any] = {}
    before = len(mistakes)
    for key, value in given.items():
        line = lines.of(name, key)
        if key not in choices:
            expected = _expected(key, list(choices), f"a choice of [{name}]")
            mistakes.append((line, f"found {key}, {expected}"))
            continue
        try:
            read[key] = choices[key].read(value)
        except ValueError as error:
            mistakes.append((line, f"{name}.{key}: found {_shown(value)}, expected {error}"))
    for key in (one.name for one in choices.values() if one.required and one.name not in given):
        mistakes.append((lines.of(name), f"[{name}] has no {key}: {choices[key].reason}"))
    return section(**read) if len(mistakes) == before else None


def _read_tags(found: Mapping[str, Any], lines: _Lines, mistakes: list[Mistake]) -> dict[str, str]:
    try:
        return table(found.get(_TAGS, {}))
    except ValueError as error:
        mistakes.append((lines.of(_TAGS), f"[{_TAGS}]: expected {error}"))
        return {}


def _expected(name: str, known: list[str], what: str) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(known)}"
    return f"expected {what}; {hint}"


def _shown(value: object) -> str:
    words = f'"{value}"' if isinstance(value, str) else str(value)
    return words if len(words) <= 80 else f"{words[:77]}…"


class _Lines:
    """Where sections and their keys stand in a TOML file, as people write it."""

    def __init__(self, written: str) -> None:
        self._places = dict(_places(written))

    def of(self, section: str, key: str | None = None) -> int | None:
        """The line of a key, or else of its section; None where neither is found."""
        return self._places.get((section, key), self._places.get((section, None)))


def _places(written: str) -> Iterator[tuple[tuple[str, str | None], int]]:
    section = ""
    for line, words in enumerate(written.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([A-Za-z0-9_-]+)\s*(?:\.\s*([A-Za-z0-9_-]+)\s*)?\]", words):
            section = header[1]
            yield (section, header[2]), line
        elif key := re.match(r"\s*([A-Za-z0-9_-]+)(?:\s*\.\s*([A-Za-z0-9_-]+))?\s*=", words):
            names = (section, key[1]) if section else (key[1], key[2])
            yield names, line
