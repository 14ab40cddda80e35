"""JSON of NVTabular's, within bounds, and its fields, held against their types.

What NVTabular would not read, or has not written so, is told with the object and the field.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ensemble_tools.archive.inert_pickle import Unpicklable
from ensemble_tools.errors import quoted, shortened

#: A thousand columns through thirty operators are 40 MB, as NVTabular indents them.
MAX_BYTES = 64 * 1024 * 1024
#: Commas, and objects and lists: what parsing takes, in time and memory, is by them. Other threads
#: wait meanwhile, half a second at most. Those 40 MB have 840,000 and 400,000 of them.
MAX_ITEMS, MAX_CONTAINERS = 1_000_000, 500_000
#: A name, or a path of an artifact.
MAX_TEXT = 4096
#: What a field may hold, in words.
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    type(None): "null",
}
NUMBER = (int, float)
NONE = type(None)
REQUIRED = object()


class NotAWorkflow(Unpicklable):
    """NVTabular writes no such file; the message says what was found, and where."""


def parse_json(data: bytes) -> Any:
    """The value; raises NotAWorkflow for what is too large, no JSON, or has a key twice."""
    if len(data) > MAX_BYTES:
        raise NotAWorkflow(f"it has more than {MAX_BYTES} bytes")
    if data.count(b",") > MAX_ITEMS:
        raise NotAWorkflow(f"it has more than {MAX_ITEMS} values")
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise NotAWorkflow(f"it has more than {MAX_CONTAINERS} objects and lists")
    try:
        return json.loads(data.decode(), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise NotAWorkflow("it is not UTF-8 text") from error
    except RecursionError as error:
        raise NotAWorkflow("it is nested too deeply") from error
    except ValueError as error:
        raise NotAWorkflow(f"it is no JSON ({shortened(str(error))})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise NotAWorkflow(f"an object has the key {quoted(twice)} twice")
    return fields


class Fields:
    """An object of the file, whose fields are held against their types. where: for messages."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise NotAWorkflow(f"{where} is {name_kind(value)}, expected an object")
        self._values, self.where = value, where
        self._asked: set[str] = set()

    def field(self, name: str, *types: type, default: Any = REQUIRED) -> Any:
        """The field, of one of the types; a default for one that is absent."""
        self._asked.add(name)
        if name not in self._values:
            if default is REQUIRED:
                raise self.refuse(name, "is missing")
            return default
        value = self._values[name]
        if type(value) not in types:
            expected = " or ".join(_WORDS[kind] for kind in types)
            raise self.refuse(name, f"is {name_kind(value)}, expected {expected}")
        if type(value) is str and len(value) > MAX_TEXT:
            raise self.refuse(name, f"has more than {MAX_TEXT} characters")
        return value

    def inner(self, name: str) -> Fields:
        """A field that is an object itself."""
        return Fields(self.field(name, dict), f"{self.where}: {name}")

    def list_objects(self, name: str, what: str) -> Iterable[Fields]:
        """A field that is a list of objects."""
        for number, value in enumerate(self.field(name, list)):
            yield Fields(value, f"{self.where}: {what} {number}")

    def names(self, name: str) -> list[str]:
        """A field that is a list of names."""
        names: list[Any] = self.field(name, list)
        for value in names:
            if type(value) is not str or len(value) > MAX_TEXT:
                raise self.refuse(name, f"has {name_kind(value)} among its names")
        return names

    def ids(self, name: str) -> list[int]:
        """A field that is a list of nodes' ids; none where it is absent."""
        ids: list[Any] = self.field(name, list, default=[])
        for value in ids:
            if type(value) is not int:
                raise self.refuse(name, f"has {name_kind(value)} among its ids")
        return ids

    def floats(self, name: str) -> dict[str, float]:
        """Numbers by columns, as NVTabular makes floats of them."""
        numbers: dict[str, Any] = self.field(name, dict, default={})
        try:
            return {column: float(_checked(value)) for column, value in numbers.items()}
        except TypeError as error:
            raise self.refuse(name, f"has {error} among its numbers") from error
        except OverflowError as error:
            raise self.refuse(name, "has a number of more than 64 bits") from error

    @property
    def rest(self) -> set[str]:
        """The names of the fields that nobody has asked for."""
        return self._values.keys() - self._asked

    def refuse(self, name: str, why: str) -> NotAWorkflow:
        """The error that says what is wrong with a field."""
        return NotAWorkflow(f"{self.where}: {name} {why}")


def _checked(value: Any) -> Any:
    if type(value) not in NUMBER:
        raise TypeError(name_kind(value))
    return value


def name_kind(value: Any) -> str:
    return _WORDS.get(type(value), "something else")
