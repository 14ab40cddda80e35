"""A choice is one field of a section: its type, its reason, and how its value is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

#: Reads what TOML has; raises ValueError with what was expected.
Reader = Callable[[object], Any]
_METADATA = "choice"


@dataclass(frozen=True)
class Choice:
    """reason: a sentence for whoever chooses. example: TOML, where there is no default."""

    name: str
    reason: str
    read: Reader
    example: str
    required: bool


def choice(reason: str, read: Reader, *, default: Any = MISSING, example: str = "") -> Any:
    """A field of a section; without a default it is required."""
    metadata = {_METADATA: (reason, read, example)}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def choices_of(section: type) -> tuple[Choice, ...]:
    """All of a section, in the order of its fields."""
    return tuple(
        Choice(
            it.name,
            it.metadata[_METADATA][0],
            it.metadata[_METADATA][1],
            it.metadata[_METADATA][2],
            it.default is MISSING,
        )
        for it in fields(section)
    )
