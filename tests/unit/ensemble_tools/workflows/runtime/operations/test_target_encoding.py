"""Means of targets, from a table of one category."""

from __future__ import annotations

from typing import Any

import numpy as np

from ensemble_tools.workflows.runtime.operations.target_encoding import TargetEncode
from tests.support.operations import done

NAN = float("nan")


class Means:
    """A table of one category, whose mean is not a number: no row of it, and nothing to smooth."""

    def find(self, columns: list[Any]) -> tuple[Any, Any]:
        return columns[0] == 1, np.zeros(len(columns[0]), np.intp)

    def beside(self, _: str, places: Any) -> Any:
        return np.full(len(places), NAN)


def test_targets_of_what_has_no_mean() -> None:
    """The mean of all, for a category that was not seen and for one without rows."""
    operation = TargetEncode(
        table=0, means=(0.25,), folds=1, seed=42, dtypes=("float32",), keeps=False
    )
    (found,) = done(operation, [1, 2], tables=[Means()])
    assert found.values.tolist() == [0.25, 0.25]
