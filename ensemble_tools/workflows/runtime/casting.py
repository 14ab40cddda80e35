"""Numbers that arrays meet, and casts, as numpy 1 and pandas do both, whichever numpy runs this."""

from __future__ import annotations

from typing import Any

import numpy as np

from .columns import INTEGERS, RequestError
from .records import Number, NumpyNumber, number_of

#: Kinds of types, the wider ones later, as numpy 1 compares an array's with a number's.
_CATEGORIES = {"b": 0, "u": 1, "i": 1, "f": 2}


def meet(values: Any, number: Any) -> tuple[Any, Any]:
    """An array and a number, both in the type in which numpy 1 calculates with them.

    NVTabular runs on numpy 1, which looks at a number's value where numpy 2 looks at its type
    (NEP 50): float32 values less a np.float64 are float32 there, and float64 in numpy 2; int8
    values less 200 are int16 there, and an error in numpy 2.
    """
    own, other = values.dtype, np.asarray(number).dtype
    if _CATEGORIES.get(other.kind, 3) <= _CATEGORIES[own.kind]:
        other = np.min_scalar_type(number)
        fits_signed = other.kind == "u" and number <= np.iinfo(f"i{other.itemsize}").max
        if fits_signed and own.kind == "i":
            other = np.dtype(f"i{other.itemsize}")
    common = np.promote_types(own, other)
    return values.astype(common, copy=False), common.type(number)


def difference(high: Number, low: Number) -> Any:
    """high - low, of two numbers: numpy 1 takes Python's for float64 and int64 beside its own."""
    if isinstance(high, NumpyNumber) or isinstance(low, NumpyNumber):
        return np.subtract(np.asarray(number_of(high)), np.asarray(number_of(low)))[()]
    return high - low


def put(values: Any, mask: Any, value: Any) -> Any:
    """A copy with the value where the mask is, in a wider type if this one cannot hold it.

    As pandas does it, the type changes only if the mask is somewhere.
    """
    if not mask.any():
        return values
    own = values.dtype
    if own.kind == "f":  # as Python's floats: numpy 1 and 2 compare their own otherwise
        holds = float(own.type(value)) == float(value) or value != value
    else:
        holds = value == int(value)
        if holds and not np.iinfo(own).min <= value <= np.iinfo(own).max:
            values = values.astype(np.int64)  # of uint32: what is narrower is not compiled
    values = values.copy() if holds else values.astype(np.float64)
    values[mask] = value
    return values


class Caster:
    """pandas' astype: what is not finite becomes no integer, what is negative no unsigned one.

    column: its name in the words of a refusal.
    """

    def __init__(self, dtype: str, column: str) -> None:
        self._dtype, self._column = np.dtype(dtype), column

    def cast(self, values: Any) -> Any:
        """The values in that type; raises RequestError."""
        dtype, column = self._dtype, self._column
        if values.dtype.kind == "f" and dtype.kind in INTEGERS:
            if not np.isfinite(values).all():
                raise RequestError(f"column {column!r}: NaN or infinity cannot become {dtype.name}")
            if dtype.kind == "u" and (values < 0).any():
                raise RequestError(
                    f"column {column!r}: a negative value cannot become {dtype.name}"
                )
        return values.astype(dtype)
