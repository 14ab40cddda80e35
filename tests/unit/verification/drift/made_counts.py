"""Counts of columns, as a container's route gives them."""

from __future__ import annotations

from typing import Any

from ensemble_tools.serving.features import ModelFeatures
from ensemble_tools.workflows.runtime.feature_counts import BUCKETS, ColumnCounts, FittedColumn


def spread(*counts: int) -> tuple[int, ...]:
    """The buckets of a vocabulary that has values in the first of them alone."""
    return (*counts, *([0] * (BUCKETS - len(counts))))


def make_ids(
    column: str = "user_id",
    came: tuple[int, ...] = (1, 3),
    fitted: tuple[int, ...] = (0, 4),
    **more: Any,
) -> ColumnCounts:
    """A column with a vocabulary; all that came was looked at."""
    values = sum(came) + more.get("unseen", 0) + more.get("nulls", 0)
    return ColumnCounts(
        column,
        **{"rows_seen": values, "counted": values, "values": values, **more},
        buckets=spread(*came),
        fitted=FittedColumn(buckets=spread(*fitted)),
    )


def make_numbers(
    column: str = "age", numbers: tuple[float, ...] = (3, 7, 3, 7), times: int = 1, **more: Any
) -> ColumnCounts:
    """A column that is normalized, fitted to mean 3 and standard deviation 4, from 0 to 20."""
    came = len(numbers) * times
    return ColumnCounts(
        column,
        **{"rows_seen": came, "counted": came, "values": came, "finite": came, **more},
        sum=float(sum(numbers) * times),
        sum_of_squares=float(sum(number * number for number in numbers) * times),
        fitted=FittedColumn(mean=3.0, std=4.0, low=0.0, high=20.0),
        has_keys=False,
    )


def make_model(*columns: ColumnCounts, name: str = "3fb1", target: str = "shop") -> ModelFeatures:
    """A model of one workflow."""
    return ModelFeatures(name, target, {"0_transformworkflowtriton": columns})
