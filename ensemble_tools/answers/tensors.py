"""Tensors as the v2 protocol names them, with their numbers as numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: numpy's arrays; numpy itself is left untyped (mypy's settings).
Array = Any

#: v2's data types and numpy's; strings are arrays of bytes objects.
NUMPY_TYPES: dict[str, str] = {
    "BOOL": "bool",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BYTES": "object",
}
STRINGS = "BYTES"


@dataclass(frozen=True, eq=False)
class Tensor:
    """data_type in v2's words; array holds the numbers in its shape."""

    data_type: str
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape, rows first."""
        return tuple(int(size) for size in self.array.shape)

    @property
    def is_float(self) -> bool:
        """Whether there are NaN and nearly equal numbers in this data type."""
        return self.data_type.startswith(("FP", "BF"))

    def __str__(self) -> str:
        return f"{self.data_type} [{', '.join(map(str, self.shape))}]"


Tensors = Mapping[str, Tensor]


def encode_strings(texts: list[bytes]) -> Array:
    """A one-dimensional array of bytes objects."""
    array: Array = np.empty(len(texts), dtype=np.object_)
    array[:] = texts
    return array
