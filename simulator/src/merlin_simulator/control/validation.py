"""Members of calls, held against botocore's model of the service."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from merlin_simulator.control.errors import ServiceError

#: The years 1 to 9999, seconds since the epoch.
_EARLIEST_S, _LATEST_S = -62_135_596_800.0, 253_402_300_799.0


def read_time(value: float | str) -> float:
    """A time as JSON or a form has it: seconds since the epoch, or ISO 8601, which is UTC where it
    has no zone. Raises ValueError for what is no time of the years 1 to 9999."""
    try:
        seconds = float(value)
    except ValueError:
        parsed = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        seconds = (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()
    except OverflowError as error:
        raise ValueError("it is out of the calendar") from error
    if not (math.isfinite(seconds) and _EARLIEST_S <= seconds <= _LATEST_S):
        raise ValueError("it is out of the calendar")
    return seconds


#: Of a refused value, so much is shown.
_SHOWN_CHARACTERS = 200
#: How many breaches a message lists at most.
_LISTED = 10

#: Smithy, "Simple types": bits beside the sign; the largest number, which NaN is not below.
_WHOLE_BITS = {"integer": 31, "long": 63}
_LARGEST = {"float": 3.4028234663852886e38, "double": sys.float_info.max}
_SURROGATES = re.compile(r"[\ud800-\udfff]")

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
    "structure": (dict,),
    "list": (list,),
    "map": (dict,),
    "timestamp": (int, float, str),
}


def read_members(shape: Shape | None, members: Mapping[str, Any]) -> Mapping[str, Any]:
    """The members that an operation's input shape has: no nulls, times as read_time has them.

    Raises what AWS answers where they are not what the shape allows.
    """
    if not isinstance(shape, StructureShape):
        return members
    breaches = list[str]()
    known = _read_structure(shape, members, "", breaches)
    if breaches:
        count = len(breaches)
        errors = "1 validation error" if count == 1 else f"{count} validation errors"
        raise ServiceError(f"{errors} detected: {'; '.join(breaches[:_LISTED])}")
    return known


def _read_structure(
    shape: StructureShape, value: Mapping[str, Any], path: str, breaches: list[str]
) -> dict[str, Any]:
    for name in shape.required_members:
        if value.get(name) is None:
            breaches.append(_breach(None, _below(path, name), "Member must not be null"))
    return {
        name: _read(member, value[name], _below(path, name), breaches)
        for name, member in shape.members.items()
        if value.get(name) is not None
    }


def _read(shape: Shape, value: Any, path: str, breaches: list[str]) -> Any:
    _check_type(shape, value, path)
    if isinstance(shape, StructureShape):
        return _read_structure(shape, value, path, breaches)
    if isinstance(shape, ListShape):
        breaches += _sized(shape, len(value), value, path)
        return [
            _read(shape.member, element, f"{path}.{number}.member", breaches)
            for number, element in enumerate(value, 1)
        ]
    if isinstance(shape, MapShape):
        breaches += _sized(shape, len(value), value, path)
        return {
            _read(shape.key, key, f"{path}.key", breaches): _read(
                shape.value, element, f"{path}.value", breaches
            )
            for key, element in value.items()
        }
    if shape.type_name == "string":
        breaches += _string(shape, value, path)
    elif shape.type_name in ("integer", "long", "float", "double"):
        breaches += _bounded(
            shape, value, value, path, "Member must have value {} than or equal to"
        )
    return read_time(value) if shape.type_name == "timestamp" else value


def _check_type(shape: Shape, value: Any, path: str) -> None:
    expected = _TYPES.get(shape.type_name)
    is_boolean = isinstance(value, bool) and shape.type_name != "boolean"
    if expected is not None and (
        is_boolean or not isinstance(value, expected) or not _fits(shape.type_name, value)
    ):
        raise ServiceError(
            f"{path} is {type(value).__name__} ({str(value)[:_SHOWN_CHARACTERS]!r}): "
            f"expected {shape.type_name}.",
            "SerializationException",
        )


def _fits(type_name: str, value: Any) -> bool:
    """Whether a value of a fitting kind can be one of that type."""
    if type_name in _WHOLE_BITS:
        return bool(-(2 ** _WHOLE_BITS[type_name]) <= value < 2 ** _WHOLE_BITS[type_name])
    if type_name in _LARGEST:
        return bool(-_LARGEST[type_name] <= value <= _LARGEST[type_name])
    if type_name == "string":
        # Half of a surrogate pair is no text.
        return value.isascii() or not _SURROGATES.search(value)
    if type_name == "timestamp":
        try:
            read_time(value)
        except ValueError:
            return False
    return True


def _string(shape: Shape, value: str, path: str) -> Iterator[str]:
    if (enum := shape.metadata.get("enum")) and value not in enum:
        yield _breach(value, path, f"Member must satisfy enum value set: [{', '.join(enum)}]")
    yield from _sized(shape, len(value), value, path)
    pattern = shape.metadata.get("pattern")
    if pattern and not _pattern(pattern)(value):
        yield _breach(value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _sized(shape: Shape, size: int, value: Any, path: str) -> Iterator[str]:
    yield from _bounded(shape, size, value, path, "Member must have length {} than or equal to")


def _bounded(shape: Shape, number: float, value: Any, path: str, message: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and number < least:
        yield _breach(value, path, f"{message.format('greater')} {least}")
    if most is not None and number > most:
        yield _breach(value, path, f"{message.format('less')} {most}")


def _breach(value: Any, path: str, constraint: str) -> str:
    shown = "null" if value is None else f"'{str(value)[:_SHOWN_CHARACTERS]}'"
    return f"Value {shown} at '{path}' failed to satisfy constraint: {constraint}"


def _below(path: str, name: str) -> str:
    """AWS names members in camel case, from the outermost on."""
    lower = name[:1].lower() + name[1:]
    return f"{path}.{lower}" if path else lower


@lru_cache
def _pattern(pattern: str) -> Callable[[str], object]:
    """Java's, as service models have them; one that Python does not read lets everything pass."""
    translated = "".join(_translated(pattern))
    try:
        return re.compile(translated, re.DOTALL).fullmatch
    except re.error:
        return lambda _: True


def _translated(pattern: str) -> Iterator[str]:
    """Unicode's classes as Python writes them, within brackets and without."""
    within = False
    for part in _PARTS.findall(pattern):
        if part in _CLASSES:
            yield _CLASSES[part] if within else f"[{_CLASSES[part]}]"
            continue
        within = {"[": True, "]": False}.get(part, within)
        yield part


_PARTS = re.compile(r"\\p\{(?:L|N|Z|Print|ASCII|Alnum)\}|\\.|.", re.DOTALL)
_CLASSES: Mapping[str, str] = {
    r"\p{L}": r"A-Za-z\u00aa-\uffff",
    r"\p{N}": r"\d",
    r"\p{Z}": r"\s",
    r"\p{Print}": r" -~",
    r"\p{ASCII}": r"\x00-\x7f",
    r"\p{Alnum}": r"a-zA-Z0-9",
}
