"""Numbers to numbers: in which type it is calculated, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.columns import RequestError
from ensemble_tools.workflows.runtime.operations.scaling import Cast, Clip, Normalize, Scale
from ensemble_tools.workflows.runtime.records import NumpyNumber
from tests.support.operations import done

NAN = float("nan")


def test_normalize_keeps_the_precision_of_the_request() -> None:
    """float32 is calculated with in float32, and then cast."""
    operation = Normalize(mean=0.1, std=0.3, dtype="float64", column="a")
    (found,) = done(operation, np.array([0.7], np.float32))
    wanted = (np.float32(0.7) - np.float32(0.1)) / np.float32(0.3)
    assert found.values.dtype == np.float64
    assert found.values[0] == np.float64(wanted)


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf])
def test_what_is_not_finite_becomes_no_whole_number(value: float) -> None:
    with pytest.raises(RequestError, match="column 'age'"):
        done(Cast("int32", "age"), [1.0, value])


def test_clip() -> None:
    """First from below, then from above; NaN stays."""
    (found,) = done(Clip(min=5, max=1), [0.0, 3.0, NAN])
    np.testing.assert_array_equal(found.values, [1.0, 1.0, NAN])


def test_a_bound_that_the_type_cannot_hold() -> None:
    """An unsigned column that is clipped to a negative number is int64, as pandas makes it."""
    (found,) = done(Clip(min=None, max=-5), np.array([1, 2], np.uint32))
    assert (found.values.dtype, found.values.tolist()) == (np.int64, [-5, -5])


def test_parameters_keep_their_numpy_type() -> None:
    """int16 less a float32 is a float32, and less a Python float a float64."""
    low, high = NumpyNumber("f4", -32768.0), NumpyNumber("f4", 32767.0)
    values = np.array([19202, -5], np.int16)
    (found,) = done(Scale(low, high, "float64", "x"), values)
    least, width = np.float32(-32768), np.float32(32767) - np.float32(-32768)
    assert found.values.tolist() == ((values - least) / width).astype(np.float64).tolist()
