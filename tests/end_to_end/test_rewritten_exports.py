"""`rewrite` makes what AWS's own SageMaker Triton container serves, with Merlin's numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ensemble_tools import __main__ as command
from tests.end_to_end.conftest import EXAMPLES, EXPORTS
from tests.end_to_end.test_merlin_exports import check_outputs
from tests.support.sagemaker_triton import SageMakerTriton, sagemaker_triton


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageMakerTriton]:
    with sagemaker_triton(tmp_path_factory.mktemp("frontend")) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "workflows"),
    [
        ("dense", "auto"),
        *(pytest.param(name, "auto", marks=pytest.mark.thorough) for name in EXPORTS[1:]),
        pytest.param("two_workflows", "off", marks=pytest.mark.thorough),
    ],
)
def test_served_by_nvidias_frontend(
    name: str, workflows: str, frontend: SageMakerTriton, tmp_path: Path
) -> None:
    """The rewritten export is found, loaded, answers Merlin's offline numbers, and is unloaded."""
    made = tmp_path / "model"
    source = EXAMPLES / name / "repository"
    arguments = ["--name", f"my_{name}", "--compile", workflows]
    assert command.main(["rewrite", str(source), str(made), *arguments]) == 0
    assert bool(list(made.glob("*/1/tables"))) == (workflows == "auto")
    loaded = frontend.load(name, made)
    assert loaded.status_code == 200, loaded.text
    answer = frontend.invoke(name, json.loads((EXAMPLES / name / "request.json").read_text()))
    assert answer.status_code == 200, answer.text
    expected = json.loads((EXAMPLES / name / "expected.json").read_text())
    check_outputs(answer.json()["outputs"], expected["outputs"])
    assert frontend.unload(name).status_code == 200


@pytest.mark.thorough
def test_as_exported_it_is_refused(frontend: SageMakerTriton, tmp_path: Path) -> None:
    """What the rewrite is for: the frontend loads no executor export with right numbers."""
    # A copy: the model's process writes __pycache__ beside what it runs.
    export = shutil.copytree(EXAMPLES / "dense" / "repository", tmp_path / "export")
    loaded = frontend.load("raw", export)
    answer = frontend.invoke("raw", json.loads((EXAMPLES / "dense" / "request.json").read_text()))
    assert (loaded.status_code, answer.status_code) != (200, 200)
