"""Publishing compiled workflows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools import (
    Choices,
    Compile,
    Namespace,
    ServingPlan,
    WorkflowsUnusable,
    plan_archive,
    publish,
    read_executor_graph,
    read_repository,
    retract,
    write_tables,
)
from ensemble_tools.errors import PayloadBroken
from ensemble_tools.serving.joining import Predictor
from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.serving.publish import MOST_COUNTED, find_counts
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts
from ensemble_tools.workflows.tables import TableBroken, TableUnusable
from tests.support.counter_files import write_counts

EXAMPLES = Path(__file__).parents[4] / "examples/merlin"


def compiled(name: str) -> ServingPlan:
    repository = read_repository(EXAMPLES / name / "repository")
    graph, choices = read_executor_graph(repository), Choices(compile=Compile.AUTO)
    return plan_archive(repository, graph, Namespace("m"), choices)


def test_a_second_workflow_whose_files_are_broken(tmp_path: Path) -> None:
    """The archive is refused, and of the first workflow nothing is left behind."""
    wanted = compiled("two_workflows")
    written = []

    def break_the_second(tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        written.append(directory)
        if len(written) == 2:
            raise TableBroken(Path("/models/m/unique.a.parquet"), "cannot be read (cut off)")
        return write_tables(tables, directory)

    with pytest.raises(PayloadBroken):
        publish(wanted, tmp_path, break_the_second)
    assert len(written) == 2
    assert not list(tmp_path.iterdir())


def test_a_name_in_use(tmp_path: Path) -> None:
    """What was published before it is taken back; what has the name stays."""
    wanted = compiled("two_workflows")
    assert wanted.models[-1].triton_name == wanted.entry
    (tmp_path / wanted.entry).mkdir()
    with pytest.raises(FileExistsError):
        publish(wanted, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [wanted.entry]


@pytest.mark.parametrize("name", ["tables", "compiled_workflow"])
def test_a_link_that_leads_nowhere_in_the_place_of_ours(tmp_path: Path, name: str) -> None:
    """It is the archive's own."""
    wanted = compiled("dense")
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / name).symlink_to("nowhere")
    models = tuple(
        replace(model, links=(*model.links, (f"1/{name}", archive / name)))
        if model.compiled is not None
        else model
        for model in own_versions(wanted, archive)
    )
    serving = tmp_path / "serving"
    serving.mkdir()
    with pytest.raises(WorkflowsUnusable) as unusable:
        publish(replace(wanted, models=models), serving)
    assert [*unusable.value.reasons.values()] == [f"it has a {name}/ of its own"]


def own_versions(wanted: ServingPlan, archive: Path) -> list[PublishedModel]:
    """The models without links to whole version directories, so that more can be put into them."""
    made = []
    for model in wanted.models:
        links = [
            (f"{place}/{one.name}", one)
            for place, target in model.links
            for one in (sorted(target.iterdir()) if target.is_dir() else [])
        ]
        made.append(replace(model, links=tuple(links)) if model.compiled is not None else model)
    return made


def test_a_category_file_that_nothing_can_read(tmp_path: Path) -> None:
    """NVTabular would fail at each request: nothing is published."""

    def write(*_: object) -> list[dict[str, Any]]:
        raise TableBroken(Path("/models/m/unique.a.parquet"), "cannot be read (cut off)")

    with pytest.raises(PayloadBroken) as error:
        publish(compiled("dense"), tmp_path, write)
    assert str(error.value) == (
        "/models/m/unique.a.parquet: cannot be read (cut off); export it again"
    )
    assert not list(tmp_path.iterdir())


def test_all_workflows_that_are_unusable_are_told_at_once(tmp_path: Path) -> None:
    """So the plan is made anew once, however many there are; nothing is left behind."""

    def write(tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        raise TableUnusable(f"no table in {directory.parts[-3][-1]}")

    wanted = compiled("two_workflows")
    with pytest.raises(WorkflowsUnusable) as unusable:
        publish(wanted, tmp_path, write)
    assert len(unusable.value.reasons) == wanted.compiled == 2
    for name, why in unusable.value.reasons.items():
        assert f"{name}: {why}" in str(unusable.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("warm", [False, True])
def test_counts_have_a_directory(tmp_path: Path, warm: bool) -> None:
    """Beside the tables, of a joined model's steps too; what is counted stays for the next load."""
    repository = read_repository(EXAMPLES / "dense/repository")
    graph = read_executor_graph(repository)
    predictors = {"pytorch": Predictor("torch", Path("/code/torchscript.py"))}
    choices = Choices(compile=Compile.AUTO, warm=warm, predictors=predictors)
    plan = plan_archive(repository, graph, Namespace("m"), choices)
    assert len(plan.models) == (1 if warm else 3)
    serving, counts = tmp_path / "serving", tmp_path / "counts"
    serving.mkdir()
    publish(plan, serving)
    (directory,) = find_counts(plan, serving).values()
    assert not directory.exists()
    retract(plan, serving)
    publish(plan, serving, counts=counts)
    assert directory.is_dir()
    assert (directory.parent / "tables").is_dir()
    (directory / "0.counts").write_text("12")
    retract(plan, serving)
    assert not [*serving.iterdir()]
    publish(plan, serving, counts=counts)
    assert (directory / "0.counts").read_text() == "12"


def test_counts_are_of_one_workflow(tmp_path: Path) -> None:
    """Another one under the model's name begins anew; so does each workflow of a model."""
    counts = tmp_path / "counts"

    def count(plan: ServingPlan) -> list[list[Path]]:
        """What each workflow finds, which then counts; the model goes."""
        publish(plan, tmp_path, counts=counts)
        directories = find_counts(plan, tmp_path).values()
        found = [[*directory.iterdir()] for directory in directories]
        for directory in directories:
            (directory / "0.counts").touch(exist_ok=False)
        retract(plan, tmp_path)
        return found

    assert count(compiled("two_workflows")) == [[], []]
    assert count(compiled("dense")) == [[]]
    assert len([*counts.glob("*/*")]) == 1
    assert count(compiled("two_workflows")) == [[], []]


def test_counts_of_a_thousand_models_stay(tmp_path: Path) -> None:
    """Those that were loaded the longest ago go, unless a process counts there."""
    counts = tmp_path / "counts"
    (here := counts / "0" / "0-workflow").mkdir(parents=True)
    held = write_counts(here, ColumnCounts("age", rows_seen=1))
    for age in range(1, MOST_COUNTED + 2):
        (counts / str(age)).mkdir()
    for age in range(MOST_COUNTED + 2):
        os.utime(counts / str(age), (age, age))
    plan = compiled("dense")
    publish(plan, tmp_path, counts=counts)
    names = {path.name for path in counts.iterdir()}
    assert len(names) == MOST_COUNTED + 1
    assert {"0", "1", "2", "3", plan.model_name} & names == {"0", "3", plan.model_name}
    del held
