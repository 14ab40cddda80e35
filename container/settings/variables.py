"""A setting is one field of a dataclass: its type, its variable and what people read of it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from container.settings.values import Parser

_METADATA = "variable"


@dataclass(frozen=True)
class Variable:
    """One row of the table; of several names the first that is set counts.

    `field` is the setting's name. `default` is written as it would stand in the environment; "" is
    unset. `shown` replaces it in docs/settings.md where the default is not one fixed word.
    """

    names: tuple[str, ...]
    default: str
    meaning: str
    parser: Parser
    shown: str = ""
    field: str = ""


def variable(*names: str, default: str, meaning: str, parser: Parser, shown: str = "") -> Any:
    """The field of a settings class that these variables say."""
    return field(metadata={_METADATA: Variable(names, default, meaning, parser, shown)})


def variables_of(settings: type) -> tuple[Variable, ...]:
    """All of a settings class, in the order of its fields."""
    rows = [(it.name, it.metadata[_METADATA]) for it in fields(settings) if it.metadata]
    return tuple(replace(row, field=name) for name, row in rows)
