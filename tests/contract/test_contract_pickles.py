"""SERVE_PICKLES=off: what anybody would unpickle is refused at the load, and nothing of it runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.category_files import with_a_category_twice
from tests.support.container import ROOT, Container, running
from tests.support.pickled_files import SAVED, hostile, write_torch
from tests.support.protocol import complaint

EXPORTS = ROOT / "examples/merlin"
STEP = "0_transformworkflowtriton/1"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="module")
def careful(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    settings = {"SERVE_MODEL_ROOT": str(root), "SERVE_PICKLES": "off"}
    with running(tmp_path_factory.mktemp("careful"), **settings) as container:
        yield container


@pytest.fixture
def archive(root: Path, request: pytest.FixtureRequest) -> Path:
    """Where an archive of the test's own is to be."""
    return root / str(request.node.name)


def refusal(container: Container, archive: Path) -> str:
    """What the load says, after which nothing is left of it."""
    answer = container.load("model", archive)
    assert answer.status_code == 400, answer.text
    assert container.http.get("/models").json() == {"models": []}
    assert "SERVE_PICKLES=off allows nobody to; " in complaint(answer)
    return complaint(answer)


@pytest.mark.parametrize("name", ["dense", "session"])
def test_what_is_compiled_is_served(name: str, careful: Container, archive: Path) -> None:
    """The pickles in it are read as data; the numbers are Merlin's."""
    shutil.copytree(EXPORTS / name / "repository", archive)
    with careful.loaded("model", archive):
        answer = careful.invoke("model", (EXPORTS / name / "request.json").read_bytes())
    expected = json.loads((EXPORTS / name / "expected.json").read_text())["outputs"]
    (found,) = answer.json()["outputs"]
    assert found["data"] == pytest.approx(expected[0]["data"], rel=1e-5)


def test_a_workflow_that_nvtabular_would_load(careful: Container, archive: Path) -> None:
    """A hostile one: neither the load nor anybody after it runs what it says."""
    shutil.copytree(EXPORTS / "dense/repository", archive)
    marker = archive.parent / "ran"
    with (archive / STEP / "model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    (archive / STEP / "workflow/workflow.pkl").write_bytes(hostile(marker))
    said = refusal(careful, archive)
    assert f"{archive / STEP}/workflow/workflow.pkl: NVTabular would unpickle it" in said
    assert not marker.exists()


def test_a_workflow_whose_tables_turn_out_unusable(careful: Container, archive: Path) -> None:
    """It is compiled in the plan, and only writing it tells that NVTabular would be asked."""
    shutil.copytree(EXPORTS / "dense/repository", archive)
    with_a_category_twice(archive / STEP / "workflow/categories/unique.item_id.parquet")
    said = refusal(careful, archive)
    assert "workflow.pkl: NVTabular would unpickle it (the category file unique.item_id" in said


def test_merlins_executor(careful: Container, archive: Path) -> None:
    """It is served where the archive's model.py is not Merlin's own."""
    shutil.copytree(EXPORTS / "dense/repository", archive)
    with (archive / "executor_model/1/model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    said = refusal(careful, archive)
    assert "ensemble.pkl: Merlin's executor would unpickle it (the executor: model.py is" in said


def test_what_torch_save_wrote(careful: Container, archive: Path) -> None:
    shutil.copytree(EXPORTS / "dense/repository", archive)
    model = archive / "1_predictpytorchtriton/1/model.pt"
    write_torch(model, *SAVED)
    assert f"{model}: torch would unpickle it (it is no TorchScript)" in refusal(careful, archive)


def test_a_python_model_with_a_pickle_beside_it(careful: Container, archive: Path) -> None:
    """The file is refused; the same model without it is served."""
    models.write_archive(archive, {"m": models.identity})
    marker = archive.parent / "ran"
    pickled = archive / "m/1/encoder.pkl"
    pickled.write_bytes(hostile(marker))
    said = refusal(careful, archive)
    assert f"{pickled}: the archive's own Python (model.py) would unpickle it" in said
    pickled.unlink()
    with careful.loaded("model", archive):
        assert not marker.exists()


def test_feast(careful: Container, archive: Path) -> None:
    shutil.copytree(ROOT / "examples/multistage/repository", archive)
    assert "feature_repo: Feast would unpickle it (" in refusal(careful, archive)
