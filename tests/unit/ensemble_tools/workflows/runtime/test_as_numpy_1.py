"""Compiled workflows calculate as numpy 1 does, NVTabular's, whichever numpy runs them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.casting import difference, meet
from ensemble_tools.workflows.runtime.records import NumpyNumber
from ensemble_tools.workflows.runtime.sorting import argsort
from tests.support.container import ROOT
from tests.support.numpy_facts import OPERATIONS, columns, described, pairs


@pytest.fixture(scope="module")
def numpy_1() -> Any:
    """What numpy 1 says of itself; the tests run on numpy 2."""
    done = subprocess.run(
        [ROOT / ".venv-merlin/bin/python", "-W", "ignore", "-m", "tests.support.numpy_facts"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    facts = json.loads(done.stdout)
    assert (facts["numpy"].split(".")[0], np.__version__.split(".")[0]) == ("1", "2")
    return facts


def test_an_array_and_a_number(numpy_1: Any) -> None:
    """Types and bits, for each type of both, at the edges of each."""
    found = list(pairs())
    assert len(found) == len(numpy_1["met"]) > 1000
    with np.errstate(all="ignore"):
        for (values, number), expected in zip(found, numpy_1["met"], strict=True):
            made = [described(each(*meet(values, number))) for each in OPERATIONS.values()]
            assert made == expected, (values.dtype, type(number), number)


def test_rows_with_equal_values(numpy_1: Any) -> None:
    """They come in the order of numpy 1's quicksort, which this numpy's has no more."""
    for values, expected in zip(columns(), numpy_1["orders"], strict=True):
        assert argsort(values).tolist() == expected, (values.dtype, len(values))


@pytest.mark.parametrize(
    ("high", "low", "dtype"),
    [
        (NumpyNumber("f4", 3.0), 0.5, "float64"),
        (NumpyNumber("f4", 3.0), NumpyNumber("f4", 0.5), "float32"),
        (NumpyNumber("i2", 3), 1, "int64"),
        (NumpyNumber("i2", 3), NumpyNumber("i4", 1), "int32"),
    ],
)
def test_two_numbers(high: Any, low: Any, dtype: str) -> None:
    """One of Python's is float64 or int64 beside one of numpy's."""
    assert difference(high, low).dtype == dtype


def test_two_numbers_of_pythons() -> None:
    assert difference(3, 1) == 2
    assert type(difference(3, 1)) is int
