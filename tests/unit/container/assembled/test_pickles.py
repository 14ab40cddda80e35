"""SERVE_PICKLES=off: what anybody would unpickle is refused at the load, and nothing of it runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.category_files import with_a_category_twice
from tests.support.container import ROOT
from tests.support.pickled_files import SAVED, hostile, write_torch
from tests.support.protocol import complaint
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

EXPORTS = ROOT / "examples/merlin"
STEP = "0_transformworkflowtriton/1"


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerOnFake]:
    with container_on_fake(tmp_path_factory.mktemp("careful"), SERVE_PICKLES="off") as found:
        yield found


def copied(endpoint: ContainerOnFake, export: str, name: str) -> Path:
    """An export where the endpoint may load it from."""
    return shutil.copytree(ROOT / f"examples/{export}/repository", endpoint.model_root / name)


def refusal(endpoint: ContainerOnFake, archive: Path) -> str:
    """What the load says, after which nothing is left of it."""
    answer = endpoint.load("model", archive)
    assert answer.status_code == 400, answer.text
    assert endpoint.models() == {}
    assert endpoint.published() == frozenset()
    assert "SERVE_PICKLES=off allows nobody to; " in complaint(answer)
    return complaint(answer)


@pytest.mark.slow
@pytest.mark.parametrize("export", ["dense", "session"])
def test_what_is_compiled_is_served_as_ever(
    export: str, careful: ContainerOnFake, tmp_path: Path
) -> None:
    """The pickles in it are read as data: what tritonserver gets is the same, byte for byte."""

    def published(endpoint: ContainerOnFake) -> dict[str, bytes]:
        with endpoint.loaded("model", copied(endpoint, f"merlin/{export}", export)):
            (record,) = endpoint.asked("load")[-1:]
            assert record["model"] == "model"
            files = [path for path in endpoint.serving.rglob("*") if path.is_file()]
            root = endpoint.serving
            return {str(path.relative_to(root)): path.read_bytes() for path in files}

    with container_on_fake(tmp_path / "careless") as careless:
        assert published(careful) == published(careless)


def _workflow(archive: Path, marker: Path) -> str:
    """One that NVTabular would load, and a hostile one."""
    with (archive / STEP / "model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    (archive / STEP / "workflow/workflow.pkl").write_bytes(hostile(marker))
    return f"{archive / STEP}/workflow/workflow.pkl: NVTabular would unpickle it"


def _tables(archive: Path, marker: Path) -> str:
    """It is compiled in the plan, and only writing it tells that NVTabular would be asked."""
    with_a_category_twice(archive / STEP / "workflow/categories/unique.item_id.parquet")
    return "workflow.pkl: NVTabular would unpickle it (the category file unique.item_id"


def _executor(archive: Path, marker: Path) -> str:
    """It is served where the archive's model.py is not Merlin's own."""
    with (archive / "executor_model/1/model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    return "ensemble.pkl: Merlin's executor would unpickle it (the executor: model.py is"


def _saved_by_torch(archive: Path, marker: Path) -> str:
    model = archive / "1_predictpytorchtriton/1/model.pt"
    write_torch(model, *SAVED)
    return f"{model}: torch would unpickle it (it is no TorchScript)"


@pytest.mark.parametrize("spoil", [_workflow, _tables, _executor, _saved_by_torch])
def test_an_export_that_somebody_would_unpickle(
    spoil: Callable[[Path, Path], str], careful: ContainerOnFake, tmp_path: Path
) -> None:
    """Neither the load nor anybody after it runs what it says."""
    archive = copied(careful, "merlin/dense", spoil.__name__)
    said = spoil(archive, tmp_path / "ran")
    assert said in refusal(careful, archive)
    assert not (tmp_path / "ran").exists()


def test_a_python_model_with_a_pickle_beside_it(careful: ContainerOnFake, tmp_path: Path) -> None:
    """The file is refused; the same model without it is served."""
    archive = models.write_archive(careful.model_root / "python", {"m": models.identity})
    pickled = archive / "m/1/encoder.pkl"
    pickled.write_bytes(hostile(tmp_path / "ran"))
    said = refusal(careful, archive)
    assert f"{pickled}: the archive's own Python (model.py) would unpickle it" in said
    pickled.unlink()
    with careful.loaded("model", archive):
        assert not (tmp_path / "ran").exists()


def test_feast(careful: ContainerOnFake) -> None:
    archive = copied(careful, "multistage", "feast")
    assert "feature_repo: Feast would unpickle it (" in refusal(careful, archive)
