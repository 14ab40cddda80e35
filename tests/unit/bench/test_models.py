"""Archives of Merlin's exports, whole and their workflows alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import models
from bench.errors import BenchError
from bench.models import Archives, WideExport


def test_workflow_alone_is_an_archive_of_one_model(tmp_path: Path) -> None:
    """The first of several; what it takes is read from its config, outputs left out."""
    archives = Archives(tmp_path)
    name = archives.copy_workflow("alone", "two_workflows")
    (step,) = archives.path(name).iterdir()
    assert (step / "1" / "workflow" / "workflow.pkl").exists()
    assert archives.read_inputs(name) == ("user_id", "age")
    assert archives.copy_workflow("alone", "two_workflows") == name


def test_every_workflow_of_an_export_is_found() -> None:
    """And its predictor and executor are none."""
    found = models.list_workflow_steps(models.find_export("two_workflows"))
    assert len(found) == 2
    assert all("transformworkflow" in step for step in found)


def test_wide_export_is_made_once(tmp_path: Path) -> None:
    """And again when what makes it changes; one of another recipe is removed."""
    recipe, python = tmp_path / "recipe.py", tmp_path / "python"
    wide = WideExport(tmp_path / "exports", (recipe,), python)
    python.write_text('#!/bin/sh\nmkdir -p "$3/wide"\necho made >> "$3/../../count"\n')
    python.chmod(0o755)
    recipe.write_text("one")
    first = models.find_export(models.WIDE, wide)
    assert first.is_dir()
    assert models.find_export(models.WIDE, wide) == first
    recipe.write_text("two")
    again = models.find_export(models.WIDE, wide)
    assert again != first
    assert not first.exists()
    assert (tmp_path / "count").read_text().split() == ["made", "made"]


def test_wide_export_that_fails_says_why(tmp_path: Path) -> None:
    """Its last words, or that the environment is not there."""
    python = tmp_path / "python"
    wide = WideExport(folder=tmp_path / "exports", python=python)
    with pytest.raises(BenchError, match="make setup"):
        models.find_export(models.WIDE, wide)
    python.write_text("#!/bin/sh\necho no such operator >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(BenchError, match="no such operator"):
        models.find_export(models.WIDE, wide)
