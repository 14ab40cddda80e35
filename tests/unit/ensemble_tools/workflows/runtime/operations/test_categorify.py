"""Labels of known, of missing and of unseen values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ensemble_tools.workflows.runtime.columns import Column
from ensemble_tools.workflows.runtime.operations.categorify import Categorify
from tests.support.operations import done, lists, rows_of

NULL, UNSEEN, FIRST = 1, 2, 3


class Labels:
    """A table of the categories 10, 20 and 30 with the labels 3, 4 and 5; 1 is that of nothing."""

    def first(self, _: str) -> int:
        return NULL

    def find(self, columns: list[Any]) -> tuple[Any, Any]:
        (values,) = columns
        return np.isin(values, [10, 20, 30]), np.clip(values // 10 - 1, 0, 2).astype(np.intp)

    def beside(self, _: str, places: Any) -> Any:
        return places + FIRST


def categorify(null: int | None = None, buckets: int | None = None) -> Categorify:
    return Categorify(table=0, null=null, buckets=buckets, dtype="int64", columns=("c",))


def test_unseen_values_have_the_label_behind_that_of_nothing() -> None:
    """In rows and in lists; the table's first label is that of nothing."""
    (rows,) = done(categorify(), [30, 7, 10, 99], tables=[Labels()])
    assert rows.values.tolist() == [5, UNSEEN, 3, UNSEEN]
    (inside,) = done(categorify(), lists([10, 7], [], [20]), tables=[Labels()])
    assert rows_of(inside) == [[3, UNSEEN], [], [4]]


def test_missing_values_have_the_label_of_nothing() -> None:
    """The table's first, or the one that is given; unseen ones come behind it."""
    some = Column(np.array([10, 0, 7]), missing=np.array([False, True, False]))
    assert done(categorify(), some, tables=[Labels()])[0].values.tolist() == [3, NULL, UNSEEN]
    assert done(categorify(null=0), some, tables=[Labels()])[0].values.tolist() == [3, 0, 1]


def test_unseen_values_fall_into_buckets() -> None:
    """Always the same one, behind the label of nothing; known values keep their labels."""
    values = [10, *range(100, 160), 10]
    (found,) = done(categorify(buckets=4), values, tables=[Labels()])
    assert (found.values[0], found.values[-1]) == (3, 3)
    assert set(found.values[1:-1].tolist()) == {UNSEEN + bucket for bucket in range(4)}
    (again,) = done(categorify(buckets=4), values, tables=[Labels()])
    assert again.values.tolist() == found.values.tolist()
