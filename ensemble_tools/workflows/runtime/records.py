"""Parts of program.json: the compiler fills them in, the runtime reads them.

Each is a frozen dataclass. How one is written, and how it is read again, stands here alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

_Own = TypeVar("_Own", bound="Record")


@dataclass(frozen=True)
class NumpyNumber:
    """A finite number of numpy's.

    It is no Python number: int16 less a float32 is another type than less a float.
    """

    #: numpy's code of its type, such as `f4`.
    dtype: str
    value: int | float


#: A finite number, Python's or numpy's.
Number = int | float | NumpyNumber


def number_of(number: Number) -> Any:
    """The number to calculate with: Python's as it is, numpy's in its type."""
    if isinstance(number, NumpyNumber):
        return np.dtype(number.dtype).type(number.value)
    return number


class Record:
    """A part of program.json. Subclasses are frozen dataclasses.

    Their fields are numbers, texts, booleans, None, and tuples of these.
    """

    def to_json(self) -> dict[str, Any]:
        """The fields by their names, as json.dumps takes them."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls: type[_Own], written: dict[str, Any]) -> _Own:
        """The record that to_json wrote; raises ValueError where the fields are others."""
        fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if fields != written.keys():
            raise ValueError(f"{cls.__name__} has {sorted(fields)} and not {sorted(written)}")
        return cls(**{name: _value_of(value) for name, value in written.items()})


class Parameters(Record):
    """The parameters of a step."""

    #: The step's operation, as program.json names it.
    name: ClassVar[str]


def _value_of(written: Any) -> Any:
    if isinstance(written, list):
        return tuple(map(_value_of, written))
    return NumpyNumber(**written) if isinstance(written, dict) else written
