"""Series of pandas as columns."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.columns import RequestError
from ensemble_tools.workflows.runtime.kept import TakeArray

DATES = np.array([1, "NaT"], "datetime64[ns]")


def _series(values: Any, dtype: Any = None) -> Any:
    """What a step looks at of a series; the server has no pandas."""
    return types.SimpleNamespace(values=values, dtype=dtype or values.dtype)


def test_dates() -> None:
    """They may be missing."""
    (column,) = TakeArray("ts", "date", "values").run(_series(DATES))
    assert column.values is DATES


@pytest.mark.parametrize(
    "series",
    [
        _series(DATES, "datetime64[ns, Europe/Berlin]"),
        _series(DATES.astype("datetime64[s]")),
        _series(np.zeros(2)),
    ],
    ids=["with a zone", "seconds", "numbers"],
)
def test_other_than_dates(series: Any) -> None:
    """The array of dates with a zone does not have it."""
    with pytest.raises(RequestError, match="made something else of it than date values"):
        TakeArray("ts", "date", "values").run(series)
