"""Values put into arrays and cast as pandas does both."""

from __future__ import annotations

from typing import Any

import numpy as np

from .columns import INTEGERS, RequestError


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
