"""Reads the parameters of fitted operators from their inert states; runs and guesses nothing."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

from ensemble_tools.archive.inert_pickle import Inert, class_name
from ensemble_tools.archive.model_config import TRITON_TYPES
from ensemble_tools.workflows.runtime.records import Number, NumpyNumber

#: numpy's codes of numbers, with how struct reads them.
_CODES = {
    "b1": "?",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "f4": "f",
    "f8": "d",
}
#: Types that operators may be told to make, by every name that they go by.
_TYPES = {name: name for name in TRITON_TYPES if name not in ("bool", "float16")} | {
    "float": "float64",
    "int": "int64",
}
_NUMPY_SCALARS = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
_CODED = {
    f"{kind}{bits // 8}": f"{name}{bits}"
    for kind, name in (("i", "int"), ("u", "uint"), ("f", "float"))
    for bits in (8, 16, 32, 64)
}


class Unknown(Exception):
    """A parameter is not what NVTabular 23.8 would have put there; the message says what it is."""


def number(value: Any, name: str) -> Number:
    """A finite number, Python's or numpy's as it was."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise Unknown(f"{name} is a number of more than 64 bits")
        if not math.isfinite(value):
            raise Unknown(f"{name} is {value}")
        return value
    if class_name(value) in _NUMPY_SCALARS and len(value.args) == 2:
        kind, data = value.args
        code = kind.args[0] if class_name(kind) == "numpy.dtype" and kind.args else None
        if code in _CODES and code != "b1" and isinstance(data, bytes):
            try:
                (plain,) = struct.unpack(f"<{_CODES[code]}", data)
            except struct.error as error:
                raise Unknown(f"{name} is cut off") from error
            if math.isfinite(plain):
                return NumpyNumber(code, plain)
    raise Unknown(f"{name} is not a number ({_type_of(value)})")


def number_for(numbers: Mapping[str, Any], column: str, name: str) -> Number:
    """A column's number of those that an operator has by columns."""
    if column not in numbers:
        raise Unknown(f"{name} has nothing for {column}")
    return number(numbers[column], f"{name} of {column}")


def plain(value: Number) -> int | float:
    """The number alone."""
    return value.value if isinstance(value, NumpyNumber) else value


def holds(like: Number, value: float) -> bool:
    """Whether a whole number of numpy's keeps its type with that value."""
    if not isinstance(like, NumpyNumber) or like.dtype[0] not in "iu":
        return True
    bits = 8 * int(like.dtype[1:]) - (like.dtype[0] == "i")
    limit: int = 2**bits
    return -limit <= value < limit


def fits_all_types(value: Number) -> bool:
    """Whether a column of any type surely keeps it when it takes the value."""
    number = float(plain(value))
    return number.is_integer() and abs(number) < 2**24


def dtype(value: Any, name: str, default: str) -> str:
    """A numeric numpy type by its name; default for None."""
    if value is None:
        return default
    if isinstance(value, type) and issubclass(value, Inert):
        module, _, text = value.qualified_name.rpartition(".")
        if module in ("numpy", "builtins") and text in _TYPES:
            return _TYPES[text]
    elif isinstance(value, str) and value in _TYPES:
        return _TYPES[value]
    elif class_name(value) == "numpy.dtype" and value.args and value.args[0] in _CODED:
        return _CODED[value.args[0]]
    elif isinstance(value, Inert) and value.state.get("name") in _TYPES:
        return _TYPES[value.state["name"]]
    raise Unknown(f"{name} is {_type_of(value)}, not a numeric type")


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """A dict with names as keys."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    raise Unknown(f"{name} is not a dict by names ({_type_of(value)})")


def names(value: Any, name: str) -> tuple[str, ...]:
    """A list of names."""
    if isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        return tuple(value)
    raise Unknown(f"{name} is not a list of names ({_type_of(value)})")


def whole(value: Any, name: str) -> int:
    """A whole number of Python."""
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    raise Unknown(f"{name} is not a whole number ({_type_of(value)})")


def bucket_count(value: Any) -> int:
    """How many buckets values are hashed to."""
    count = whole(value, "num_buckets")
    if not 0 < count < 2**63:
        raise Unknown(f"num_buckets is {count}")
    return count


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if isinstance(value, bool):
        return value
    raise Unknown(f"{name} is not a boolean ({_type_of(value)})")


def node_columns(value: Any, name: str) -> tuple[str, ...]:
    """The columns that a node of merlin-core puts out, or else those that it selects."""
    state = value.state if isinstance(value, Inert) else {}
    schema, selector = state.get("output_schema"), state.get("_selector")
    if isinstance(schema, Inert):
        return tuple(mapping(schema.state.get("column_schemas"), name))
    if isinstance(selector, Inert) and not selector.state.get("subgroups"):
        return names(selector.state.get("_names"), name)
    raise Unknown(f"{name} is no node with columns")


def closed_over(value: Any, module: str, name: str) -> Any:
    """The only cell of a function that was made in that function of NVTabular.

    cloudpickle keeps a function's module and qualified name; a user's function has others.
    """
    if isinstance(value, Inert):
        state = value.state
        cells = state.get("__closure__")
        if (
            (state.get("__module__"), state.get("__qualname__")) == (module, name)
            and isinstance(cells, tuple)
            and len(cells) == 1
            and isinstance(cells[0], Inert)
            and len(cells[0].args) == 1
        ):
            return cells[0].args[0]
    raise Unknown("it calls a function of the user's")


def _type_of(value: Any) -> str:
    return class_name(value) or type(value).__name__
