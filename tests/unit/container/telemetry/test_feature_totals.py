"""The sums of columns for the page: by model or by column, in bounded time."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from container.telemetry.feature_totals import FeatureTotals
from ensemble_tools import Form, ServingPlan
from ensemble_tools.serving.publish import find_counts
from ensemble_tools.serving.serving_plan import Compiled, PublishedModel
from ensemble_tools.workflows.program import Program
from ensemble_tools.workflows.runtime.counter_file import CounterFile
from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts
from tests.support.counter_files import write_counts

AGE = ColumnCounts("age", rows_seen=5, counted=5, values=5, nulls=2)
ITEM = ColumnCounts("item", rows_seen=5, counted=7, values=7, unseen=3)


def make_plan(name: str, *workflows: str, compiled: bool = True) -> ServingPlan:
    """A plan of these models, whose programs nobody runs."""
    program = Compiled(cast(Program, None), "1/model.py") if compiled else None
    published = tuple(
        PublishedModel(f"{name}.{it}", it, None, compiled=program) for it in workflows
    )
    return ServingPlan(name, Form.PURE_ENSEMBLE, name, published)


def count(repository: Path, plan: ServingPlan, *columns: ColumnCounts) -> list[CounterFile]:
    """One process of each workflow counts these."""
    held = []
    for directory in find_counts(plan, repository).values():
        directory.mkdir(parents=True, exist_ok=True)
        held.append(write_counts(directory, *columns))
    return held


def test_sums_of_all_columns_or_each(tmp_path: Path) -> None:
    """Over all workflows of a model, and all processes of each."""
    plan = make_plan("m", "retrieval", "ranking")
    held = [count(tmp_path, plan, AGE, ITEM), count(tmp_path, plan, AGE, ITEM)]
    for by_column, totals in (
        (False, {"": (48, 12, 8)}),
        (True, {"age": (20, 0, 8), "item": (28, 12, 0)}),
    ):
        features = FeatureTotals(tmp_path, by_column=by_column)
        assert features.of([("m", 1)]) == {}
        features.refresh({("m", 1): plan})
        assert features.of([("m", 1)]) == {"m": totals}
    assert len(held) == 2


def test_a_model_that_counts_nothing_has_no_sums(tmp_path: Path) -> None:
    """Without a compiled workflow, or before one of its processes has counted."""
    plans = {("a", 1): make_plan("a", "w", compiled=False), ("b", 1): make_plan("b", "w")}
    features = FeatureTotals(tmp_path, by_column=False)
    features.refresh(plans)
    assert features.of([*plans]) == {"b": {}}


def test_each_life_has_its_own_sums(tmp_path: Path) -> None:
    """What was read of a model that left is not said of the one that comes in its place."""
    plan = make_plan("m", "w")
    held = count(tmp_path, plan, AGE)
    features = FeatureTotals(tmp_path, by_column=False)
    features.refresh({("m", 1): plan})
    assert features.of([("m", 2)]) == {}
    features.refresh({("m", 2): plan})
    assert features.of([("m", 1)]) == {}
    assert features.of([("m", 2)]) == {"m": {"": (5, 0, 2)}}
    del held


def test_a_refresh_that_comes_to_one_model_goes_on_with_the_next(tmp_path: Path) -> None:
    """However many there are, a page waits for a bounded time; each gets its turn."""
    plans = {(name, 1): make_plan(name, "w") for name in "abc"}
    held = [count(tmp_path, plan, AGE) for plan in plans.values()]
    features = FeatureTotals(tmp_path, by_column=False, refresh_s=0.0)
    for seen in (1, 2, 3):
        features.refresh(plans)
        assert len(features.of([*plans])) == seen
    held += [count(tmp_path, plan, AGE) for plan in plans.values()]
    for grown in (1, 2, 3):
        features.refresh(plans)
        sums = [it[""] for it in features.of([*plans]).values()]
        assert sums.count((10, 0, 4)) == grown


@pytest.mark.parametrize("by_column", [False, True])
def test_sums_stay_while_files_go(by_column: bool, tmp_path: Path) -> None:
    """As at an unload, in any order: a counter that falls would be read as one that begins anew."""
    plan = make_plan("m", "w")
    held = [*count(tmp_path, plan, AGE, ITEM), *count(tmp_path, plan, AGE, ITEM)]
    features = FeatureTotals(tmp_path, by_column=by_column)
    features.refresh({("m", 1): plan})
    before = features.of([("m", 1)])
    for path in sorted(tmp_path.rglob("*.counts"), reverse=True):
        path.unlink()
        features.refresh({("m", 1): plan})
        assert features.of([("m", 1)]) == before
    assert before["m"]
    del held


@pytest.mark.parametrize(
    ("column", "label"), [("a" * 300, "a" * 256), ("half \ud83d", "half ?"), ("", "_")]
)
def test_any_name_is_a_label(column: str, label: str, tmp_path: Path) -> None:
    """An empty one would be the sum of all columns."""
    plan = make_plan("m", "w")
    held = count(tmp_path, plan, ColumnCounts(column, rows_seen=1, counted=1, values=1))
    features = FeatureTotals(tmp_path, by_column=True)
    features.refresh({("m", 1): plan})
    assert features.of([("m", 1)])["m"] == {label: (1, 0, 0)}
    del held
