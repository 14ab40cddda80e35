"""Columns and their tensors."""

from __future__ import annotations

import pytest

from ensemble_tools.archive.tensor_names import find_column, list_ragged_tensors, name_produced


@pytest.mark.parametrize("column", ["a", "a__offsets", "a__values", "", "a.b"])
def test_ragged_tensors(column: str) -> None:
    """The column of either tensor of a ragged column is that column, whatever it is called."""
    values, offsets = list_ragged_tensors(column)
    assert (values, offsets) == (f"{column}__values", f"{column}__offsets")
    assert find_column(values) == find_column(offsets) == column


def test_dense_tensor() -> None:
    """Any other tensor is its own column."""
    assert find_column("user_id") == "user_id"
    assert find_column("__values_of") == "__values_of"


def test_produced_by() -> None:
    """A step's tensor bears the step's name."""
    assert name_produced("0_workflow", "user") == "user.0_workflow"
