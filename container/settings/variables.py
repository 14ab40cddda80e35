"""A setting is one field of a dataclass: its type, its variable and what people read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from container.settings.values import (
    Parser,
    PortRange,
    absolute_path,
    boolean,
    one_of,
    port_range,
    seconds,
    text,
)

_METADATA = "variable"
#: How a value is read of which the type says all that there is to say.
_PARSERS: Mapping[object, Parser] = {
    bool: boolean,
    float: seconds,
    str: text,
    Path: absolute_path,
    PortRange: port_range,
}


@dataclass(frozen=True)
class Variable:
    """One row of the table."""

    #: Of several names the first that is set counts.
    names: tuple[str, ...]
    #: As it would stand in the environment; "" is unset.
    default: str
    meaning: str
    parser: Parser
    #: Replaces the default in docs/settings.md where that is not one fixed word.
    shown: str = ""
    #: The setting's name.
    field: str = ""


def variable(
    name: str | tuple[str, ...],
    default: str,
    meaning: str,
    parser: Parser | None = None,
    shown: str = "",
) -> Any:
    """The field of a settings class that this variable says, or the first that is set of several.

    parser: None where the field's type says how it is read: a bool, a path, one of some words.
    """
    names = (name,) if isinstance(name, str) else name
    row = Variable(names, default, meaning, parser or text, shown)
    return field(metadata={_METADATA: (row, parser is None)})


def variables_of(settings: type) -> tuple[Variable, ...]:
    """The variables of a settings class, in the order of its fields."""
    types = get_type_hints(settings)
    rows = []
    for it in fields(settings):
        if it.metadata:
            row, by_type = it.metadata[_METADATA]
            parser = _find_parser(types[it.name]) if by_type else row.parser
            rows.append(replace(row, field=it.name, parser=parser))
    return tuple(rows)


def _find_parser(kind: Any) -> Parser:
    """kind: a type, perhaps or None."""
    if get_origin(kind) is Literal:
        return one_of(*get_args(kind))
    if kind in _PARSERS:
        return _PARSERS[kind]
    return next(_find_parser(each) for each in get_args(kind) if each is not type(None))
