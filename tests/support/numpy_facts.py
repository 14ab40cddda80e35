"""What numpy itself makes of arrays and numbers, and in which order it sorts, as JSON.

`.venv-merlin/bin/python -m tests.support.numpy_facts` tells it of NVTabular's, numpy 1.24.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
_NUMBERS: tuple[int | float, ...] = (
    *(1, -1, 100, 127, 128, 200, 255, 256, -128, -129, 32767, 32768, 65536, 2**31 - 1, 2**31),
    *(2**40, -(2**40), 2**62, 0.1, -2.5, 1e5, 1e30, 1e39, -1e300),
)
OPERATIONS: dict[str, Callable[..., Any]] = {
    "subtract": np.subtract,
    "divide": np.true_divide,
    "less": np.less,
    "greater": np.greater,
}


def pairs() -> Iterator[tuple[Any, Any]]:
    """Arrays, and numbers that they meet: Python's, and numpy's of all types that can be them."""
    for dtype in TYPES:
        plain: Any = np.array([0, 1, 3, 100]) * (1.1 if dtype[0] == "f" else 1)
        values: Any = plain.astype(dtype)
        for number in _NUMBERS:
            yield values, number
            for other in TYPES:
                with np.errstate(all="ignore"):
                    fits = other[0] == "f" or (
                        number == int(number)
                        and np.iinfo(other).min <= number <= np.iinfo(other).max
                    )
                    own = (
                        np.dtype(other).type(number if other[0] == "f" else int(number))
                        if fits
                        else 0
                    )
                if fits and np.isfinite(own):
                    yield values, own


def described(array: Any) -> list[str]:
    """Its type and its bits."""
    return [array.dtype.str, array.tobytes().hex()]


def columns() -> Iterator[Any]:
    """Columns with equal values: random ones, sorted ones, and such as make partitions uneven."""
    random = np.random.RandomState(1)
    for dtype in (*TYPES, "?", "S3"):
        for size in (2, 16, 17, 18, 33, 100, 700):
            numbers = random.randint(0, max(2, size // 4), size) % 120
            values = numbers.astype("S3" if dtype == "S3" else dtype)
            yield from (values, np.sort(values, kind="stable"), np.sort(values)[::-1])
    for size in (200, 3000):
        yield _uneven(size) // 3


def _uneven(size: int) -> Any:
    """Of which the median of three is nearly always the smallest."""
    half = size // 2
    values: Any = np.zeros(size, np.int64)
    for place in range(1, half, 2):
        values[place - 1], values[place] = place, half + place
    values[half:] = 2 * np.arange(1, size - half + 1)
    return values


def main() -> None:
    """Print what this numpy does."""
    with np.errstate(all="ignore"):
        met = [
            [described(operation(values, number)) for operation in OPERATIONS.values()]
            for values, number in pairs()
        ]
    orders = [values.argsort(kind="quicksort").tolist() for values in columns()]
    json.dump({"numpy": np.__version__, "met": met, "orders": orders}, sys.stdout)


if __name__ == "__main__":
    main()
