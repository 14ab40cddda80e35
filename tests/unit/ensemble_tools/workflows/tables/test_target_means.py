"""Means of targets, worked out from sums and counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.program import Means, Table
from ensemble_tools.workflows.tables import TableUnusable
from tests.support.category_files import looked_up, parquet


def test_target_means(tmp_path: Path) -> None:
    """Sums and counts of a category, drawn towards the mean of all."""
    path = parquet(tmp_path / "f", a=np.array([1, 2]), n=np.array([2, 0]), s=np.array([3.0, 0.0]))
    table = Table(path, ("a",), ("whole",), means=Means(None, 20, (0.5,)))
    found, places = looked_up(tmp_path, table).find([np.array([1, 2])])
    assert found.all()
    values = looked_up(tmp_path, table).beside("0", places)
    assert values.tolist() == [(3.0 + 20 * 0.5) / 22, 0.5]


def test_target_means_of_folds(tmp_path: Path) -> None:
    """A fold's mean is of all the others' rows."""
    folds = parquet(
        tmp_path / "folds",
        __fold__=np.array([0, 1]),
        a=np.array([1, 1]),
        n=np.array([1, 3]),
        s=np.array([1.0, 2.0]),
    )
    overall = parquet(tmp_path / "all", a=np.array([1]), n=np.array([4]), s=np.array([3.0]))
    table = Table(folds, ("__fold__", "a"), ("whole", "whole"), means=Means(overall, 0, (0.5,)))
    lookup = looked_up(tmp_path, table)
    _, places = lookup.find([np.array([0, 1]), np.array([1, 1])])
    assert lookup.beside("0", places).tolist() == [2.0 / 3, 1.0]


@pytest.mark.parametrize(
    "columns",
    [
        {"a": np.array([1]), "n": np.array([1])},
        {"a": np.array([1]), "n": np.array([1]), "s": ["x"]},
        {"a": np.array([1]), "n": np.array([1]), "s": np.ones(1), "t": np.ones(1)},
    ],
)
def test_target_files_of_another_schema(tmp_path: Path, columns: dict[str, Any]) -> None:
    path = parquet(tmp_path / "f", **columns)
    with pytest.raises(TableUnusable, match="1 keys, a count and 1 sums"):
        looked_up(tmp_path, Table(path, ("a",), ("whole",), means=Means(None, 20, (0.5,))))


def test_folds_that_are_not_in_the_file_of_all(tmp_path: Path) -> None:
    folds = parquet(
        tmp_path / "folds", __fold__=np.array([0]), a=np.array([2]), n=np.array([1]), s=np.ones(1)
    )
    overall = parquet(tmp_path / "all", a=np.array([1]), n=np.array([4]), s=np.ones(1))
    table = Table(folds, ("__fold__", "a"), ("whole", "whole"), means=Means(overall, 0, (0.5,)))
    with pytest.raises(TableUnusable, match="does not fit"):
        looked_up(tmp_path, table)
