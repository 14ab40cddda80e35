"""Archives of Merlin's exports, whole and their workflows alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import models
from bench.errors import BenchError
from bench.models import Archives


def test_workflow_alone_is_an_archive_of_one_model(tmp_path: Path) -> None:
    """The first of several; what it takes is read from its config, outputs left out."""
    archives = Archives(tmp_path)
    name = archives.workflow("alone", "two_workflows")
    (step,) = archives.path(name).iterdir()
    assert (step / "1" / "workflow" / "workflow.pkl").exists()
    assert archives.inputs(name) == ("user_id", "age")
    assert archives.workflow("alone", "two_workflows") == name


def test_every_workflow_of_an_export_is_found() -> None:
    """And its predictor and executor are none."""
    found = models.workflow_steps(models.export_directory("two_workflows"))
    assert len(found) == 2
    assert all(map(models.is_workflow, found))
    assert not models.is_workflow("1_predictpytorchtriton")


def test_wide_export_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when what makes it changes; one of another recipe is removed."""
    recipe = tmp_path / "recipe.py"
    monkeypatch.setattr(models, "_MADE", tmp_path / "exports")
    monkeypatch.setattr(models, "_MADE_BY", (recipe,))
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nmkdir -p "$3/wide"\necho made >> "$3/../../count"\n')
    python.chmod(0o755)
    monkeypatch.setattr(models, "_MODELS_PYTHON", python)
    recipe.write_text("one")
    made = models.export_directory(models.WIDE)
    assert made.is_dir()
    assert models.export_directory(models.WIDE) == made
    recipe.write_text("two")
    again = models.export_directory(models.WIDE)
    assert again != made
    assert not made.exists()
    assert (tmp_path / "count").read_text().split() == ["made", "made"]


def test_wide_export_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last words, or that the environment is not there."""
    monkeypatch.setattr(models, "_MADE", tmp_path / "exports")
    python = tmp_path / "python"
    monkeypatch.setattr(models, "_MODELS_PYTHON", python)
    with pytest.raises(BenchError, match="make setup"):
        models.export_directory(models.WIDE)
    python.write_text("#!/bin/sh\necho no such operator >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(BenchError, match="no such operator"):
        models.export_directory(models.WIDE)
