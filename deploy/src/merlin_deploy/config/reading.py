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

from pydantic import TypeAdapter, ValidationError

from merlin_deploy.config.consistency import find_contradictions
from merlin_deploy.config.sections import SECTIONS, Config, Section, reason_of
from merlin_deploy.config.values import Table, show, show_name
from merlin_deploy.errors import ConfigurationRefused, Refused

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The path to a key, from the top of the file.
Keys = tuple[str, ...]
#: A path to what is wrong, and a sentence about it.
_Mistake = tuple[Keys, str]
_TAGS, _TAGS_ADAPTER = "tags", TypeAdapter(Table)
_MOST_BYTES = 100_000
#: A key a.a.a… takes memory by its length squared.
_MOST_DOTS = 500
_PRINTS_ONE = "`python -m deploy example` prints one"
#: Windows' shells write it when they redirect output to a file.
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: No line is looked for deeper than a variable of an environment.
_DEEPEST = 3
#: The last line of a value that has several contains one of these.
_ENDS = ("]", "}", '"""', "'''")
#: Characters that TOML's reader is given again and again; keys behind these have no line.
_MOST_CHARACTERS = 1_000_000


def read_config(path: Path) -> Config:
    """Raises ConfigurationRefused; Refused if the file cannot be read."""
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
        content = data.decode("utf-8-sig")  # some editors put a mark in front
    except UnicodeDecodeError as error:
        found = "UTF-16" if data.startswith(_UTF_16) else f"byte {error.start} is no UTF-8"
        raise Refused(f"{path}: {found}, expected text in UTF-8; save it so") from error
    return parse_config(content, str(path))


def parse_config(content: str, path: str) -> Config:
    """path: for messages. Raises ConfigurationRefused."""
    for number, line in enumerate(content.splitlines(), 1):
        if line.count(".") > _MOST_DOTS:
            sentence = f"found more than {_MOST_DOTS} dots in a line, expected keys of two parts"
            raise ConfigurationRefused(path, [(number, sentence)])
    try:
        document = tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigurationRefused(path, [_describe_syntax(error, content)]) from error
    mistakes = [*_find_unknown(document, (), [*SECTIONS, _TAGS], "a section")]
    sections: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        mistakes += _read_section(name, section, document, sections)
    try:
        tags = _TAGS_ADAPTER.validate_python(document.get(_TAGS, {}))
    except ValidationError as error:
        tags = {}
        mistakes += _describe_values(error, (_TAGS,))
    mistakes += find_contradictions(sections, tags)
    if not mistakes:
        return Config(**sections, tags=tags)
    lines = find_lines(content)
    located = [(_find_line(keys, lines), sentence) for keys, sentence in mistakes]
    raise ConfigurationRefused(path, sorted(located, key=lambda mistake: mistake[0] or 0))


def _read_section(
    name: str, section: type[Section], document: Mapping[str, Any], sections: dict[str, Any]
) -> Iterator[_Mistake]:
    """Add the section to `sections`, unless there is a mistake in it.

    A section that is left out has its defaults; [autoscaling], which has required choices, is None
    then.
    """
    choices = section.model_fields
    required = [key for key, choice in choices.items() if choice.is_required()]
    table = document.get(name, {})
    if not isinstance(table, dict):
        kind = "a list" if isinstance(table, list) else show(table)
        yield (name,), f"{name}: found {kind}, expected a section [{name}]"
        return
    if name not in document and required:
        if name == "autoscaling":
            sections[name] = None
        else:
            yield (), f"there is no [{name}], which has {' and '.join(required)}"
        return
    yield from _find_unknown(table, (name,), choices, f"a choice of [{name}]")
    try:
        # An unknown name, which is left out, hides no contradiction between the others.
        sections[name] = section.model_validate(table)
    except ValidationError as error:
        yield from _describe_values(error, (name,))
        for key in required:
            if key not in table:
                yield (name,), f"[{name}] has no {key}: {reason_of(choices[key])}"


def _describe_values(error: ValidationError, above: Keys) -> Iterator[_Mistake]:
    for it in error.errors():
        if it["type"] != "missing":
            keys = (*above, *map(str, it["loc"]))
            expected = it.get("ctx", {}).get("error", "a table of names and values")
            path = ".".join(map(show_name, keys))
            yield keys, f"{path}: found {show(it['input'])}, expected {expected}"


def _find_unknown(
    names: Collection[str], keys: Keys, known: Collection[str], what: str
) -> Iterator[_Mistake]:
    for name in names:
        if name not in known:
            hint = _suggest(name, known)
            yield (*keys, name), f"found {show_name(name)}, expected {what}; {hint}"


def _suggest(name: str, known: Collection[str]) -> str:
    """The section that knows the name, or the name that is nearest."""
    homes = [f"[{title}]" for title, section in SECTIONS.items() if name in section.model_fields]
    if homes:
        return f"it belongs to {' or '.join(homes)}"
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"they are {', '.join(known)}"


def _describe_syntax(error: Exception, content: str) -> tuple[int | None, str]:
    """The line, if TOML's reader tells it, and its message."""
    if isinstance(error, RecursionError):
        return None, "found values inside of values, too deep to be read; expected two levels"
    if not isinstance(error, tomllib.TOMLDecodeError):
        return None, "found a number of thousands of digits, which nobody can read"
    message = str(error)
    if match := re.search(r" \(at line (\d+), column (\d+)\)$", message):
        reason = message[: match.start()]
        return int(match[1]), f"it is no TOML (column {match[2]}): {reason}"
    if match := re.search(r" \(at end of document\)$", message):
        last = len(content.splitlines()) or 1
        return last, f"it is no TOML (at its end): {message[: match.start()]}"
    return None, f"it is no TOML: {message}"


def find_lines(content: str) -> dict[Keys, int]:
    """The line where each key is first named, by its path. content: TOML without mistakes."""
    lines: dict[Keys, int] = {}
    section: Keys = ()
    for line, statement, meaning in _split_statements(content):
        if statement.lstrip().startswith("["):
            section = _read_header(meaning)
            paths: Iterator[Keys] = (section[: end + 1] for end in range(len(section[:_DEEPEST])))
        else:
            paths = (section + path for path in _list_paths(meaning))
        for path in paths:
            lines.setdefault(path, line)
    return lines


def _split_statements(content: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Each statement's first line, its text, and its meaning."""
    begin, pending, left = 1, "", _MOST_CHARACTERS
    # Only these two end a line in TOML; strings may contain others of Unicode's.
    for number, line in enumerate(content.replace("\r\n", "\n").split("\n"), 1):
        pending += line + "\n"
        if pending.count("\n") > 1 and not any(end in line for end in _ENDS):
            continue
        left -= len(pending)
        if left < 0:
            return
        try:
            meaning = tomllib.loads(pending)
        except (ValueError, RecursionError):
            continue
        if meaning:
            yield begin, pending, meaning
        begin, pending = number + 1, ""


def _read_header(meaning: Mapping[str, Any]) -> Keys:
    """The path that [a.b] or [[a.b]] names."""
    path: list[str] = []
    inner: Any = meaning
    while isinstance(inner, dict) and inner:
        ((name, inner),) = inner.items()
        path.append(name)
        if isinstance(inner, list):
            inner = inner[0]
    return tuple(path)


def _list_paths(meaning: Mapping[str, Any], above: Keys = ()) -> Iterator[Keys]:
    for name, value in meaning.items():
        yield (*above, name)
        if isinstance(value, dict) and len(above) < _DEEPEST:
            yield from _list_paths(value, (*above, name))


def _find_line(keys: Keys, lines: Mapping[Keys, int]) -> int | None:
    """The line of the innermost key of a path that has one."""
    for length in range(len(keys), 0, -1):
        if keys[:length] in lines:
            return lines[keys[:length]]
    return None
