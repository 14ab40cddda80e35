"""Values of files that somebody wrote: readers of them for pydantic, and what is wrong in words.

A reader raises ValueError with a sentence: what was found, and what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NoReturn, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from merlin_simulator.measuring.quantities import read_capacity

#: Thirty years; a PiB; the cores of a host of today.
MOST_SECONDS, MOST_BYTES, MOST_CORES = 1e9, 2**50, 1_000
#: SageMaker's own quotas of an endpoint are in the tens.
MOST_INSTANCES = 1_000
MOST_MODELS, MOST_RPS = 100_000, 1e6
#: Requests of one model, loads of one instance.
MOST_AT_ONCE = 10_000
MOST_SEED = 10**18
#: Below it a number above 0 is meant to be none.
LEAST = 1e-6
#: No archive and no instance is smaller; a number below it is one of MB.
_LEAST_BYTES = 10_000
#: Characters of a value in a sentence.
_MOST_SHOWN = 80

#: Takes what TOML or JSON has.
Reader = Callable[[Any], Any]
#: The way to a value: names of tables and keys, places in lists.
Keys = tuple[str | int, ...]
T = TypeVar("T")


def shown(value: object) -> str:
    """A value in a sentence: escaped, and no longer than a line has room for."""
    if isinstance(value, str | bytes):
        message = repr(value[: _MOST_SHOWN + 1])
    elif isinstance(value, list | dict):
        message = f"a list of {len(value)}" if isinstance(value, list) else "a table"
    else:
        try:
            message = repr(value)
        except ValueError:  # Python writes no whole number of more than 4300 digits
            return "a number of thousands of digits"
    return message if len(message) <= _MOST_SHOWN else f"{message[: _MOST_SHOWN - 1]}…"


def refuse(value: object, expected: str) -> NoReturn:
    """Raise ValueError: what was found, and what is expected."""
    raise ValueError(f"found {shown(value)}, expected {expected}")


def number(least: float = 0.0, most: float = MOST_SECONDS) -> Reader:
    """A number within bounds, as a float."""

    def read(value: Any) -> float:
        if not _is_number(value):
            refuse(value, "a number")
        if not least <= value <= most:
            refuse(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return read


def positive(most: float = MOST_SECONDS) -> Reader:
    """A number above 0."""
    read_number = number(0.0, most)

    def read(value: Any) -> float:
        read: float = read_number(value)
        if read < LEAST:
            raise ValueError(f"found {read:g}, expected more than 0, {LEAST:g} or above")
        return read

    return read


def share(value: Any) -> float:
    """A number from 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        refuse(value, "a share from 0 to 1")
    return float(value)


def whole(least: int, most: int) -> Reader:
    """A number without a fraction, within bounds."""

    def read(value: Any) -> int:
        if not _is_number(value) or not least <= value <= most or int(value) != value:
            refuse(value, f"a whole number from {least} to {most}")
        return int(value)

    return read


def numbers(value: Any) -> tuple[float, ...]:
    """A number or a list of them, in their order."""
    members = value if isinstance(value, list) else [value]
    if not members:
        raise ValueError("found 0 numbers, expected one or more")
    for member in members:
        if not _is_number(member) or not 0 <= member <= MOST_SECONDS:
            refuse(member, f"numbers from 0 to {MOST_SECONDS:g}")
    return tuple(map(float, members))


def quantiles(value: Any) -> tuple[float, ...]:
    """A number or a list of them, from the least to the most."""
    return tuple(sorted(numbers(value)))


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        refuse(value, "a text")
    return value


def size(value: Any) -> int:
    """Bytes: a text as 4GB, or a number that is not so small that it lacks its unit."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LEAST_BYTES:
        raise ValueError(f'found {value} bytes, expected a size such as "{value}MB"')
    try:
        count = read_capacity(value) if isinstance(value, str) else value
    except ValueError:
        count = -1
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_BYTES:
        refuse(value, "a size such as 4GB or 512MB")
    return count


def _is_number(value: Any) -> bool:
    """Whether a value is a number; NaN is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not (isinstance(value, float) and math.isnan(value))


def validate(kind: type[T], value: object, context: object = None) -> T:
    """A value as a dataclass whose fields have readers. Raises ValidationError."""
    hashable: Any = kind
    valid: T = _make_adapter(hashable).validate_python(value, context=context)
    return valid


@cache
def _make_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class Table:
    """For dataclasses that have a field for each key that may be there."""

    __pydantic_config__ = ConfigDict(extra="forbid")


UNKNOWN_KEY = "found a key that is not known here"


def find_mistakes(error: ValidationError) -> Iterator[tuple[Keys, str]]:
    """The way to each, and a sentence."""
    for mistake in error.errors(include_url=False):
        keys = mistake["loc"]
        if mistake["type"] == "missing":
            yield keys[:-1], f"found no {keys[-1]}, expected one"
        elif mistake["type"] == "value_error":
            yield keys, str(mistake["ctx"]["error"])
        elif mistake["type"] == "unexpected_keyword_argument":
            yield keys, UNKNOWN_KEY
        else:
            expected = "a list of tables" if mistake["type"] == "list_type" else "a table"
            yield keys, f"found {shown(mistake['input'])}, expected {expected}"


def without_nothing(value: Any) -> Any:
    """JSON without members that are null or an empty list: they are as good as left out."""
    if isinstance(value, Mapping):
        members = {key: without_nothing(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, [])}
    return [without_nothing(member) for member in value] if isinstance(value, list) else value
