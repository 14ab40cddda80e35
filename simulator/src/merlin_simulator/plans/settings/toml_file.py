"""A TOML file whose every value has its line and column, for who has to say what is wrong."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from merlin_simulator.plans.bounds import LEAST, MOST_BYTES, MOST_PLAN_BYTES, MOST_SECONDS
from merlin_simulator.plans.errors import UnusableFile, shown
from merlin_simulator.plans.text_files import read_text
from merlin_simulator.sizes import read_room

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Line and column from 1 on; which table of that name, from 0 on.
Place = tuple[int, int]
_Which = tuple[str, int]
#: No archive and no instance is smaller; a number below it is one of MB.
_LEAST_BYTES = 10_000

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\-]+)\s*\]\]?")
#: A key a.a.a… takes its length squared of memory; a list of numbers may have as many dots.
_MOST_DOTS = 500
_NUMBER = re.compile(r"(?<![\w.\"'])-?[0-9]+\.[0-9eE+-]+(?=\s*(?:,|\]|$))")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_KEY = re.compile(r"(\s*)([A-Za-z0-9_\-]+)\s*=")


class Table:
    """A table of the file. Each value is asked for by its key; finish() refuses those that nobody
    asked for. What is wrong raises UnusableFile with its place.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        values: Mapping[str, Any],
        places: Mapping[str, Place],
        place: Place | None,
    ) -> None:
        self._path, self._name, self._values = path, name, values
        self._places, self._place, self._asked = places, place, set[str]()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def refuse(self, key: str | None, what: str) -> NoReturn:
        """Raise UnusableFile at the key's place, or the table's."""
        place = self._places.get(key, self._place) if key else self._place
        line, column = place or (None, None)
        table = f"[{self._name}]: " if self._name else ""
        name = f"{self._name}.{key}: ".lstrip(".") if key else table
        raise UnusableFile(self._path, name + what, line, column)

    def number(
        self, key: str, default: float | None, *, least: float = 0.0, most: float = MOST_SECONDS
    ) -> float:
        """Between these, which are meant, too."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"found {shown(value)}, expected a number")
        if not least <= value <= most:
            expected = f"a number from {least:g} to {most:g}"
            self.refuse(key, f"found {shown(value)}, expected {expected}")
        return float(value)

    def more_than_nothing(
        self, key: str, default: float | None, *, most: float = MOST_SECONDS
    ) -> float:
        """A number above 0."""
        value = self.number(key, default, most=most)
        if value < LEAST:
            self.refuse(key, f"found {value:g}, expected more than 0, {LEAST:g} or above")
        return value

    def whole(self, key: str, default: int | None, *, most: int, least: int = 0) -> int:
        """A whole number between these, which are meant, too."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            expected = f"a whole number from {least} to {most}"
            self.refuse(key, f"found {shown(value)}, expected {expected}")
        return value

    def text(self, key: str, default: str | None) -> str:
        """Not empty."""
        value = self._get(key, default)
        if not isinstance(value, str) or not value:
            self.refuse(key, f"found {shown(value)}, expected a text")
        return value

    def file(self, key: str) -> Path:
        """Beside the file that names it."""
        return self._path.parent / self.text(key, None)

    def size(self, key: str, default: int | None) -> int:
        """Bytes, of a text as 4GB or of a number; a small one lacks its unit."""
        value = self._get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LEAST_BYTES:
            self.refuse(key, f'found {value} bytes, expected a size such as "{value}MB"')
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_BYTES:
            return value
        try:
            room = read_room(value)
        except (ValueError, TypeError, AttributeError):
            room = MOST_BYTES + 1
        if room > MOST_BYTES:
            self.refuse(key, f"found {shown(value)}, expected a size such as 4GB or 512MB")
        return room

    def numbers(self, key: str, *, most: int | None = None) -> tuple[float, ...]:
        """One number or a list of them, each from 0 on and finite."""
        value = self._get(key, None)
        found = value if isinstance(value, list) else [value]
        if not found or (most is not None and len(found) > most):
            few = "one or more" if most is None else f"1 to {most}"
            self.refuse(key, f"found {len(found)} numbers, expected {few}")
        for one in found:
            if (
                isinstance(one, bool)
                or not isinstance(one, int | float)
                or not 0 <= one <= MOST_SECONDS
            ):
                expected = f"numbers from 0 to {MOST_SECONDS:g}"
                self.refuse(key, f"found {shown(one)}, expected {expected}")
        return tuple(float(one) for one in found)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._get(key, None)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.refuse(key, f"found {shown(value)}, expected a list of texts")
        return tuple(value)

    def wholes(self, key: str, *, most: int) -> tuple[int, ...]:
        """A list of whole numbers from 1 on, or a text as "1-4"."""
        value = self._get(key, None)
        if isinstance(value, str) and (found := _RANGE.fullmatch(value)):
            first, last = int(found[1]), int(found[2])
            numbers = list(range(first, last + 1)) if last <= most else []
        else:
            numbers = value if isinstance(value, list) else []
        if not numbers or any(type(one) is not int or not 1 <= one <= most for one in numbers):
            expected = f'numbers from 1 to {most}, as [1, 2] or "1-4"'
            self.refuse(key, f"found {shown(value)}, expected {expected}")
        return tuple(numbers)

    def finish(self) -> None:
        """Refuse what nobody has asked for."""
        for key in self._values:
            if key not in self._asked:
                hint = _hint(key, self._asked)
                self.refuse(key, f"found a key that is not known here; {hint}")

    def _get(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        value = self._values.get(key, default)
        if value is None:
            self.refuse(None, f"found no {key}, expected one")
        return value


class TomlFile:
    """The whole file. Raises UnusableFile for what is no TOML."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = read_text(path, "expected a PLAN.toml", MOST_PLAN_BYTES)
        for number, line in enumerate(text.splitlines(), 1):
            if _NUMBER.sub("", line).count(".") > _MOST_DOTS:
                what = f"found more than {_MOST_DOTS} dots in a line, expected them in several"
                raise UnusableFile(path, what, number)
        try:
            self._values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            place = (int(where[1]), int(where[2])) if where else (None, None)
            words = str(error)[: where.start()] if where else str(error)
            raise UnusableFile(path, f"it is no TOML: {words}", *place) from error
        except RecursionError as error:
            what = "found values inside of values, too deep to be read, expected two levels"
            raise UnusableFile(path, what) from error
        except ValueError as error:  # int() of thousands of digits
            raise UnusableFile(path, "found a number of thousands of digits") from error
        self._headers, self._keys = _find_places(text)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def top(self) -> Table:
        """What stands above all tables."""
        return self._table("", 0, self._values)

    def table(self, name: str, *, without: str | None = None) -> Table:
        """[name]; an empty one where it is not there. without: a key whose tables are asked for
        by tables()."""
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            Table(self._path, "", {}, self._keys.get(("", 0), {}), None).refuse(
                name, f"found {shown(value)}, expected a table [{name}]"
            )
        flat = {key: one for key, one in value.items() if key != without}
        return self._table(name, 0, flat)

    def tables(self, name: str) -> list[Table]:
        """[[name]], in order; name may be that of a table and one of its keys."""
        value: Any = self._values
        for part in name.split("."):
            value = value.get(part, {}) if isinstance(value, dict) else {}
        if not value:
            return []
        if not _is_tables(value):
            self.table(name.split(".")[0]).refuse(None, f"expected [[{name}]], a table of each")
        return [self._table(name, place, one) for place, one in enumerate(value)]

    def finish(self, known: tuple[str, ...]) -> None:
        """Refuse tables that are not known."""
        for name in self._values:
            if name not in known:
                places = {name: self._headers.get((name, 0), (1, 1))}
                places.update(self._keys.get(("", 0), {}))
                Table(self._path, "", {}, places, None).refuse(
                    name, f"found a table that is not known; {_hint(name, known)}"
                )

    def _table(self, name: str, place: int, values: Mapping[str, Any]) -> Table:
        keys = self._keys.get((name, place), {})
        return Table(self._path, name, values, keys, self._headers.get((name, place)))


def _hint(found: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(found, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _find_places(text: str) -> tuple[dict[_Which, Place], dict[_Which, dict[str, Place]]]:
    """Where each table begins, and each of its keys stands."""
    headers: dict[_Which, Place] = {}
    keys: dict[_Which, dict[str, Place]] = {("", 0): {}}
    now: _Which = ("", 0)
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = header[2]
            place = counts.get(name, -1) + 1 if header[1] == "[[" else 0
            counts[name] = place
            now = (name, place)
            headers[now] = (number, header.start(1) + 1)
            keys.setdefault(now, {})
        elif key := _KEY.match(line):
            keys[now].setdefault(key[2], (number, len(key[1]) + 1))
    return headers, keys
