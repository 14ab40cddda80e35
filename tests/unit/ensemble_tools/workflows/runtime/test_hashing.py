"""pandas' hash of rows, against numbers that pandas 1.5.3 gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.columns import Column
from ensemble_tools.workflows.runtime.hashing import hash_rows, siphash

#: pandas.util.hash_pandas_object(pandas.Series(values))
SEEN_BY_PANDAS: list[tuple[Any, list[int]]] = [
    (
        np.array([0, 1, -1, 2**62, 1]),
        [
            3713087409444908179,
            7554402398462747209,
            18166673690586955672,
            9968968260090966996,
            9788992550609991128,
        ],
    ),
    (np.array([1, 255], "uint8"), [14639053686158035780, 13083176707967595980]),
    (np.array([-1], "int8"), [5907618880632303057]),
    (
        np.array([0.0, -0.0, 1.5, np.nan]),
        [3713087409444908179, 7265526215548662568, 6590795005001972353, 10168866073802396674],
    ),
    (np.array([0.1, -2.0], "float32"), [4443566483538893201, 2435322845591698974]),
    (np.array([True, False]), [14639053686158035780, 7478705303072568462]),
    (
        np.array([b"", b"a", b"beer", b"12345678", b"123456789", b"x" * 40]),
        [
            66814057316169985,
            14044658390916132862,
            13769590924398844244,
            8764767755248339517,
            3097876446365188939,
            12993902224891150806,
        ],
    ),
]


@pytest.mark.parametrize(("values", "hashes"), SEEN_BY_PANDAS)
def test_hashes_are_pandas(values: Any, hashes: list[int]) -> None:
    assert [int(hashed) for hashed in hash_rows(Column(values))] == hashes


def test_the_row_is_part_of_the_hash() -> None:
    """NVTabular hashes series with their index: equal values in two rows differ."""
    first, second = hash_rows(Column(np.array([9, 9])))
    assert first != second


def test_siphash() -> None:
    """The width of the array does not change a text's hash."""
    narrow = siphash(np.array([b"beer"]))
    assert siphash(np.array([b"beer", b"y" * 33]))[0] == narrow[0]


def test_texts_are_told_apart_up_to_a_zero() -> None:
    """pandas numbers texts before it hashes them, and takes the first of those that begin alike."""
    hashes = [int(hashed) for hashed in hash_rows(Column(np.array([b"a", b"\0b", b"\0c", b""])))]
    apart = [int(hashed) for hashed in hash_rows(Column(np.array([b"a", b"\0b", b"\0b", b"\0b"])))]
    assert hashes == apart
