"""Read a CONFIG.toml: a Config, or all mistakes together, each with its line.

TOML's readers do not tell where a key stands. But each statement of TOML, a header or a key with
its value, ends with a line and is TOML by itself. So lines are added up until the reader accepts
them: that is one statement. No grammar of TOML is written here a second time.
"""

from __future__ import annotations

import codecs
import difflib
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.config.consistency import find_contradictions
from deploy.config.sections import SECTIONS, Config
from deploy.config.values import Choice, WrongMembers, choices_of, show, show_name, table
from deploy.errors import ConfigurationRefused, Refused

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


_TAGS = "tags"
#: More is no configuration.
_MOST_BYTES = 100_000
#: A key a.a.a… takes its length squared of memory.
_MOST_DOTS = 500
_PRINTS_ONE = "`python -m deploy example` prints one"
#: Windows' shells write so what is sent to a file.
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: The way to what is wrong, and a sentence about it.
_Wrong = tuple[Keys, str]


def read_config(path: Path) -> Config:
    """Of a file. Raises ConfigurationRefused; Refused where it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Refused(
            f"{path}: {error.strerror}; expected a CONFIG.toml ({_PRINTS_ONE})"
        ) from error
    if len(data) > _MOST_BYTES:
        raise Refused(f"{path}: found more than 100 kB, expected a CONFIG.toml ({_PRINTS_ONE})")
    try:
        # With the mark that some editors put in front.
        written = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = "UTF-16" if data.startswith(_UTF_16) else f"byte {error.start} is no UTF-8"
        raise Refused(f"{path}: {found}, expected text in UTF-8; save it so") from error
    return parse_config(written, str(path))


def parse_config(written: str, path: str) -> Config:
    """Of what stands in a file called path. Raises ConfigurationRefused."""
    for number, line in enumerate(written.splitlines(), 1):
        if line.count(".") > _MOST_DOTS:
            sentence = f"found more than {_MOST_DOTS} dots in a line, expected keys of two parts"
            raise ConfigurationRefused(path, [(number, sentence)])
    try:
        found = tomllib.loads(written)
    except (ValueError, RecursionError) as error:
        raise ConfigurationRefused(path, [_syntax(error, written)]) from error
    wrong: list[_Wrong] = [
        ((name,), _unknown(name, [*SECTIONS, _TAGS], "a section"))
        for name in found
        if name not in SECTIONS and name != _TAGS
    ]
    sections: dict[str, Any] = {}
    for name in SECTIONS:
        _read_section(name, found, sections, wrong)
    tags = _read_tags(found, wrong)
    wrong += find_contradictions(sections, tags)
    if not wrong:
        return Config(**sections, tags=tags)
    lines = find_lines(written)
    mistakes = [(_line_of(keys, lines), sentence) for keys, sentence in wrong]
    raise ConfigurationRefused(path, sorted(mistakes, key=lambda one: one[0] or 0))


def _syntax(error: Exception, written: str) -> tuple[int | None, str]:
    """TOML's own words, with the line in front where they name it."""
    if isinstance(error, RecursionError):
        return None, "found values inside of values, too deep to be read; expected two levels"
    if not isinstance(error, tomllib.TOMLDecodeError):
        return None, "found a number of thousands of digits, which nobody can read"
    words = str(error)
    if place := re.search(r" \(at line (\d+), column (\d+)\)$", words):
        return int(place[1]), f"it is no TOML (column {place[2]}): {words[: place.start()]}"
    if place := re.search(r" \(at end of document\)$", words):
        last = len(written.splitlines()) or 1
        return last, f"it is no TOML (at its end): {words[: place.start()]}"
    return None, f"it is no TOML: {words}"


def _read_section(
    name: str, found: Mapping[str, Any], sections: dict[str, Any], wrong: list[_Wrong]
) -> None:
    """Into sections, where each of its choices can be read: its defaults if it is left out, and
    None if nothing of it is there then."""
    section = SECTIONS[name]
    choices = {one.name: one for one in choices_of(section)}
    required = [one.name for one in choices.values() if one.required]
    given = found.get(name, {})
    if name not in found and (not required or name == "autoscaling"):
        sections[name] = None if required else section()
        return
    if name not in found:
        wrong.append(((), f"there is no [{name}], which has {' and '.join(required)}"))
        return
    if not isinstance(given, dict):
        kind = "a list" if isinstance(given, list) else show(given)
        wrong.append(((name,), f"{name}: found {kind}, expected a section [{name}]"))
        return
    for key in given.keys() - choices.keys():
        wrong.append(((name, key), _unknown(key, list(choices), f"a choice of [{name}]")))
    before = len(wrong)
    read = {
        key: _read_choice(name, choices[key], value, wrong)
        for key, value in given.items()
        if key in choices
    }
    for key in required:
        if key not in given:
            wrong.append(((name,), f"[{name}] has no {key}: {choices[key].reason}"))
    if len(wrong) == before:
        sections[name] = section(**read)


def _read_choice(section: str, choice: Choice, value: object, wrong: list[_Wrong]) -> Any:
    keys = (section, choice.name)
    try:
        return choice.read(value)
    except WrongMembers as error:
        wrong += _wrong_members(keys, value, error)
    except ValueError as error:
        wrong.append((keys, f"{'.'.join(keys)}: found {show(value)}, expected {error}"))
    return None


def _read_tags(found: Mapping[str, Any], wrong: list[_Wrong]) -> dict[str, str]:
    given = found.get(_TAGS, {})
    try:
        return table(given)
    except WrongMembers as error:
        wrong += _wrong_members((_TAGS,), given, error)
    except ValueError as error:
        wrong.append(((_TAGS,), f"{_TAGS}: found {show(given)}, expected {error}"))
    return {}


def _wrong_members(keys: Keys, value: Any, error: WrongMembers) -> list[_Wrong]:
    way = ".".join(keys)
    return [
        (
            (*keys, name),
            f"{way}.{show_name(name)}: found {show(value[name])}, expected {expected}",
        )
        for name, expected in error.expected.items()
    ]


def _unknown(name: str, known: Collection[str], what: str) -> str:
    """Where it is known elsewhere, that is what was meant; else what is written nearly so."""
    homes = [
        f"[{section}]"
        for section, its in SECTIONS.items()
        if name in (one.name for one in choices_of(its))
    ]
    near = difflib.get_close_matches(name, known, 1)
    if homes:
        hint = f"it belongs to {' or '.join(homes)}"
    elif near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"they are {', '.join(known)}"
    return f"found {show_name(name)}, expected {what}; {hint}"


def _line_of(keys: Keys, lines: Mapping[Keys, int]) -> int | None:
    """Of the innermost that has one; None of what is nowhere."""
    for length in range(len(keys), 0, -1):
        if keys[:length] in lines:
            return lines[keys[:length]]
    return None
