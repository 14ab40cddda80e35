"""JSON of somebody else, whose members are checked as they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from merlin_simulator.plans.bounds import MOST_FILE_BYTES
from merlin_simulator.plans.errors import UnusableFile, shown
from merlin_simulator.plans.text_files import read_text


class Members:
    """An object in a file. way: to it, as costs[0]. All methods raise UnusableFile.

    null is as good as nothing: the default is taken then, and refused where there is none.
    """

    def __init__(self, path: Path, found: object, way: str = "") -> None:
        self._path, self._way = path, way
        if not isinstance(found, dict):
            self.refuse(None, found, "an object")
        self._found: Mapping[str, Any] = found

    def __contains__(self, key: str) -> bool:
        return self._found.get(key) is not None

    def refuse(self, key: str | None, found: object, expected: str) -> NoReturn:
        """Raise UnusableFile for what stands at a key."""
        way = ".".join(one for one in (self._way, key) if one)
        name = f"{way}: " if way else ""
        raise UnusableFile(self._path, f"{name}found {shown(found)}, expected {expected}")

    def number(self, key: str, default: float | None, *, most: float, least: float = 0.0) -> float:
        """Between these, which are meant, too."""
        value = self._get(key, default)
        if not _is_number(value) or not least <= value <= most:
            self.refuse(key, value, f"a number from {least:g} to {most:g}")
        return float(value)

    def whole(self, key: str, default: int | None, *, most: int, least: int = 0) -> int:
        """As number; a number without a fraction is whole, too."""
        value = self._get(key, default)
        if not _is_number(value) or not least <= value <= most or int(value) != value:
            self.refuse(key, value, f"a whole number from {least} to {most}")
        return int(value)

    def numbers(self, key: str, *, most: float) -> tuple[float, ...] | None:
        """A list of them, from 0; None where there is none, or nothing in it."""
        value = self._found.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            self.refuse(key, value, f"a list of numbers from 0 to {most:g}")
        for one in value:
            if not _is_number(one) or not 0 <= one <= most:
                self.refuse(key, one, f"numbers from 0 to {most:g}")
        return tuple(map(float, value)) or None

    def text(self, key: str, default: str | None) -> str | None:
        """None where there is none."""
        value = self._found.get(key, default)
        if value is not None and not isinstance(value, str):
            self.refuse(key, value, "a text")
        return value

    def inner(self, key: str) -> Members:
        """The object at a key; an empty one where there is none."""
        value = self._found.get(key)
        return Members(self._path, {} if value is None else value, self._way_to(key))

    def objects(self, key: str) -> list[Members]:
        """A list of objects; an empty one where there is none."""
        value = self._get(key, [])
        if not isinstance(value, list):
            self.refuse(key, value, "a list of objects")
        way = self._way_to(key)
        return [Members(self._path, one, f"{way}[{place}]") for place, one in enumerate(value)]

    def keys(self) -> list[str]:
        """Of all members."""
        return list(self._found)

    def _way_to(self, key: str) -> str:
        return f"{self._way}.{key}" if self._way else key

    def _get(self, key: str, default: Any) -> Any:
        value = self._found.get(key)
        if value is None:
            value = default
        if value is None:
            way = f" in {self._way}" if self._way else ""
            raise UnusableFile(self._path, f"found no {key}{way}, expected one")
        return value


def read_json(path: Path, expected: str) -> Any:
    """What stands in a file. Raises UnusableFile."""
    text = read_text(path, expected, MOST_FILE_BYTES)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        what = f"found no JSON ({error.msg}), {expected}"
        raise UnusableFile(path, what, error.lineno, error.colno) from error
    except _NoNumber as error:
        raise UnusableFile(path, f"found {error}, which is no JSON, {expected}") from error
    except RecursionError as error:
        what = f"found values inside of values, too deep to be read, {expected}"
        raise UnusableFile(path, what) from error
    except ValueError as error:  # int() of thousands of digits
        raise UnusableFile(path, f"found a number of thousands of digits, {expected}") from error


class _NoNumber(ValueError):
    """NaN, Infinity or -Infinity, which Python reads."""


def _refuse_constant(word: str) -> NoReturn:
    raise _NoNumber(word)


def _is_number(value: object) -> bool:
    """NaN is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not (isinstance(value, float) and math.isnan(value))
