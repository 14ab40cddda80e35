"""What of an archive is loaded: the executor, what is served in its place, and that compiled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ensemble_tools import Compile, ServingPlan
from ensemble_tools import __main__ as command
from tests.support.category_files import with_a_category_twice
from verification.__main__ import EQUAL, main
from verification.comparing.forms import read_forms

EXAMPLES = Path(__file__).parents[4] / "examples/merlin"
DENSE = EXAMPLES / "dense/repository"
TWO = EXAMPLES / "two_workflows/repository"
STEPS = ("0_transformworkflowtriton", "1_transformworkflowtriton")


def compiled_in(plan: ServingPlan | None) -> list[str]:
    """The models of it that are compiled workflows."""
    return [model.source_name for model in plan.models if model.compiled] if plan else []


def test_executor_export() -> None:
    """NVTabular itself in the executor and in what is served; compiled in a form of its own."""
    forms = read_forms(TWO)
    assert forms is not None
    assert compiled_in(forms.executor) == compiled_in(forms.served) == []
    assert compiled_in(forms.compiled) == [*STEPS]
    assert [form.title for form in (forms.right, *forms.others)] == [
        "executor",
        "pure ensemble",
        "pure ensemble, compiled",
    ]
    assert len({form.plan.entry for form in (forms.right, *forms.others)}) == 3


def test_compile_off() -> None:
    """Two forms, and no word on workflows."""
    forms = read_forms(TWO, workflows=Compile.OFF)
    assert forms is not None
    assert forms.compiled is None
    assert forms.not_compiled == ()
    assert len(forms.others) == 1


@pytest.mark.parametrize("broken", [STEPS[:1], STEPS])
def test_unusable_category_files(broken: tuple[str, ...], tmp_path: Path) -> None:
    """Which workflow is not compiled, and why; without any that is, no such form."""
    shutil.copytree(TWO, tmp_path / "export")
    for step in broken:
        for path in (tmp_path / "export" / step).rglob("*.parquet"):
            with_a_category_twice(path)
    forms = read_forms(tmp_path / "export")
    assert forms is not None
    assert [name for name, _ in forms.not_compiled] == [*broken]
    assert all("has a category twice" in reason for _, reason in forms.not_compiled)
    assert compiled_in(forms.compiled) == [step for step in STEPS if step not in broken]
    assert len(forms.others) == (1 if broken == STEPS else 2)


def rewritten(directory: Path, workflows: str) -> Path:
    arguments = ["rewrite", str(DENSE), str(directory / "made"), "--compile", workflows]
    assert command.main(arguments) == 0
    return directory / "made"


def test_archive_without_an_executor(tmp_path: Path) -> None:
    """With a workflow it is compared with itself."""
    forms = read_forms(rewritten(tmp_path, "off"))
    assert forms is not None
    assert (forms.served, forms.right.title) == (None, "as delivered")
    assert [form.title for form in forms.others] == ["as delivered, compiled"]
    assert forms.original is forms.executor


def test_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an executor and a workflow there is nothing; why none is compiled is said."""
    made = rewritten(tmp_path, "auto")
    assert read_forms(made) is None
    assert main([str(made)], {}) == EQUAL
    said = capsys.readouterr().out
    assert "this archive holds no executor export" in said
    assert "`request` writes a request to try it with" in said
    (tmp_path / "second").mkdir()
    delivered = rewritten(tmp_path / "second", "off")
    for path in delivered.rglob("*.parquet"):
        with_a_category_twice(path)
    capsys.readouterr()
    assert main([str(delivered)], {}) == EQUAL
    said = capsys.readouterr().out
    assert said.startswith("not compiled: made.0_transformworkflowtriton: the category file ")
    assert "this archive holds no executor export" in said


def test_a_category_file_that_nothing_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused in one sentence."""
    shutil.copytree(DENSE, tmp_path / "export")
    path = next((tmp_path / "export").rglob("unique.item_id.parquet"))
    path.write_bytes(b"")
    assert main([str(tmp_path / "export")], {}) not in (0, EQUAL)
    said = capsys.readouterr().err
    assert f"{path}: cannot be read (" in said
    assert "export it again" in said
