"""Publishing compiled workflows with a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools import (
    Namespace,
    ServingPlan,
    compile_plan,
    plan,
    publish,
    read_executor_graph,
    read_repository,
    write_tables,
)
from ensemble_tools.errors import PayloadBroken
from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import TableBroken

EXAMPLES = Path(__file__).parents[4] / "examples/merlin"


def compiled(name: str) -> ServingPlan:
    repository = read_repository(EXAMPLES / name / "repository")
    served = plan(repository, read_executor_graph(repository), Namespace("m"))
    return compile_plan(served, repository)


def tree(root: Path) -> dict[str, object]:
    """Every file, by its content or by where its link leads."""
    return {
        str(path.relative_to(root)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_a_workflow_that_fails_the_check(tmp_path: Path) -> None:
    """It is published as it was delivered; other models are not asked about."""
    asked = []

    def check(model: PublishedModel, directory: Path) -> str:
        asked.append(model.triton_name)
        version = directory / "1"
        assert not (version / "model.py").is_symlink()
        assert (version / "tables/program.json").is_file()
        assert (version / "compiled_workflow/program.py").is_file()
        assert (version / "workflow/workflow.pkl").exists()
        return "it is wrong" if model.source_name.startswith("1_") else ""

    wanted = compiled("two_workflows")
    both = [model.triton_name for model in wanted.models if model.compiled is not None]
    assert len(both) == 2
    published = publish(wanted, tmp_path, write_tables, check)
    assert asked == both
    assert [model.not_compiled for model in published.models if model.not_compiled] == [
        "it is wrong"
    ]
    assert published.compiled == 1
    (failed,) = (model for model in published.models if model.not_compiled)
    other = tmp_path / "delivered"
    other.mkdir()
    delivered = replace(failed, not_compiled="")
    publish(replace(published, models=(delivered,)), other)
    assert tree(tmp_path / failed.triton_name) == tree(other / failed.triton_name)


def test_a_check_that_passes(tmp_path: Path) -> None:
    """What is published is what it would be without one."""
    wanted = compiled("dense")
    published = publish(wanted, tmp_path, write_tables, lambda *_: "")
    assert published == wanted
    unchecked = tmp_path / "unchecked"
    unchecked.mkdir()
    publish(wanted, unchecked)
    for model in wanted.models:
        assert tree(tmp_path / model.triton_name) == tree(unchecked / model.triton_name)


def test_a_check_that_raises(tmp_path: Path) -> None:
    """Nothing is left behind."""

    def check(*_: object) -> str:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        publish(compiled("dense"), tmp_path, write_tables, check)
    assert not list(tmp_path.iterdir())


def test_checks_come_last(tmp_path: Path) -> None:
    """A check runs the archive's own code: an archive that is refused has run none of it."""
    wanted = compiled("two_workflows")
    written = []

    def break_the_second(tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        written.append(directory)
        if len(written) == 2:
            raise TableBroken(Path("/models/m/unique.a.parquet"), "cannot be read (cut off)")
        return write_tables(tables, directory)

    with pytest.raises(PayloadBroken):
        publish(wanted, tmp_path, break_the_second, lambda *_: pytest.fail("checked"))
    assert len(written) == 2
    (tmp_path / wanted.entry).mkdir()
    with pytest.raises(FileExistsError):
        publish(wanted, tmp_path, write_tables, lambda *_: pytest.fail("checked"))


def test_what_has_no_tables_is_not_checked(tmp_path: Path) -> None:
    """Nor what the table writer refused: it is served by NVTabular already."""
    delivered = replace(
        compiled("dense"),
        models=tuple(replace(model, compiled=None) for model in compiled("dense").models),
    )
    publish(delivered, tmp_path, write_tables, lambda *_: pytest.fail("asked"))


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
    published = publish(replace(wanted, models=models), serving)
    (reason,) = published.not_compiled
    assert reason.endswith(f"it has a {name}/ of its own")


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
