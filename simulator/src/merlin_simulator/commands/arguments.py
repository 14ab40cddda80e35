"""Readers of options for argparse: each raises ArgumentTypeError with a sentence."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from merlin_simulator.measuring.quantities import read_capacity, read_size

ValueT = TypeVar("ValueT")


def make_reader(
    convert: Callable[[str], ValueT], expected: str, accepts: Callable[[ValueT], bool]
) -> Callable[[str], ValueT]:
    """A reader of what convert takes without a ValueError and accepts is true for."""

    def read(text: str) -> ValueT:
        try:
            value = convert(text)
        except ValueError:
            pass
        else:
            if accepts(value):
                return value
        raise argparse.ArgumentTypeError(f"found {text[:60]!r}, expected {expected}")

    return read


def keep_sentence(convert: Callable[[str], ValueT]) -> Callable[[str], ValueT]:
    """A reader whose ValueError is a sentence for people already; argparse would not show it."""

    def read(text: str) -> ValueT:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def digits(text: str) -> int:
    """Digits as a number: int() takes signs, spaces and underscores, too. Raises ValueError."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError
    return int(text)


def at_least(least: float) -> Callable[[str], float]:
    """A reader of numbers that have an end."""
    return make_reader(float, f"a number from {least:g}", lambda value: least <= value < math.inf)


count = make_reader(digits, "a whole number from 1", lambda value: value >= 1)
port = make_reader(digits, "0 to 65535", lambda value: 0 <= value < 2**16)
seconds = make_reader(float, "seconds, more than 0", lambda value: 0 < value < math.inf)
part = make_reader(float, "a number more than 0, and 1 at most", lambda value: 0 < value <= 1)
share = make_reader(float, "a share from 0 to 1", lambda value: 0 <= value <= 1)
folder = make_reader(Path, "a folder that is there", Path.is_dir)
size, room = keep_sentence(read_size), keep_sentence(read_capacity)
