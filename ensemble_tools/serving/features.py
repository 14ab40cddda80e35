"""What a model's compiled workflows have counted of its columns, and the JSON that says it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ensemble_tools.serving.publish import find_counts
from ensemble_tools.serving.serving_plan import ServingPlan
from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts, read_began, read_counts

#: `version` counts the changes that would break a reader.
FORMAT, VERSION = "merlin-sagemaker-features", 1
FITTED = ("mean", "std", "low", "high")


@dataclass(frozen=True)
class ModelFeatures:
    """The counts of one model since its first load."""

    model_name: str
    target_model: str = ""
    #: By the workflows' names in the archive.
    workflows: Mapping[str, tuple[ColumnCounts, ...]] = field(default_factory=dict)
    #: Why nothing is counted; empty where something is.
    why_none: str = ""
    #: When the counting of each workflow began, in seconds since 1970, in each container.
    began: tuple[float, ...] = ()
    #: Whether these are the counts of what came after an earlier look alone.
    is_since: bool = False


def read_features(
    plan: ServingPlan, serving_repository: Path
) -> dict[str, tuple[ColumnCounts, ...]]:
    """The counts of a plan's workflows. Blocking: a millisecond for 26 columns; raises nothing."""
    return {
        name: tuple(columns)
        for name, directory in find_counts(plan, serving_repository).items()
        if (columns := read_counts(directory))
    }


def find_began(plan: ServingPlan, serving_repository: Path) -> tuple[float, ...]:
    """When the counting of each of a plan's workflows began."""
    return tuple(map(read_began, find_counts(plan, serving_repository).values()))


def explain_no_counts(plan: ServingPlan, serving_repository: Path, setting: str) -> str:
    """Why a model whose counts are empty has none. setting: what switches the counting off."""
    if not plan.compiled:
        if plan.not_compiled:
            return f"no workflow is compiled, and NVTabular counts nothing: {plan.not_compiled[0]}"
        return "the archive has no NVTabular workflow, whose columns could be counted"
    if not any(map(os.path.isdir, find_counts(plan, serving_repository).values())):
        return f"nothing is counted while {setting} is off"
    return "none of its processes has counted anything yet"


def write_features(*models: ModelFeatures, more: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """The JSON of some models. more: of each what its object has besides; none for nothing."""
    written = [asdict(_make_finite(it)) for it in models]
    for model, members in zip(written, more, strict=False):
        model.update(members)
    document = {"format": FORMAT, "version": VERSION, "models": written}
    return json.dumps(document, allow_nan=False).encode()


def _make_finite(model: ModelFeatures) -> ModelFeatures:
    workflows = {name: tuple(map(_make_column_finite, it)) for name, it in model.workflows.items()}
    return replace(model, workflows=workflows)


def _make_column_finite(counts: ColumnCounts) -> ColumnCounts:
    """JSON has no infinite numbers: sums that overflowed give no mean, and such a fit is none."""
    fitted: dict[str, Any] = {it: _if_finite(getattr(counts.fitted, it)) for it in FITTED}
    counts = replace(counts, fitted=replace(counts.fitted, **fitted))
    if math.isfinite(counts.sum) and math.isfinite(counts.sum_of_squares):
        return counts
    return replace(counts, finite=0, sum=0.0, sum_of_squares=0.0)


def _if_finite(number: float | None) -> float | None:
    return number if isinstance(number, float | int) and math.isfinite(number) else None
