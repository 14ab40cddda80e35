"""What somebody would unpickle, by its file, its reader and its reason."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.repository import ModelRepository, read_repository
from ensemble_tools.errors import PicklesRefused
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.opened_archive import read_archive
from ensemble_tools.serving.overlay import overlay_model
from ensemble_tools.serving.plan import Choices, Form, Rewrite, ServingPlan, plan_archive
from ensemble_tools.serving.unpickling import check_unpickled, find_unpickled
from ensemble_tools.workflows.program import Kept
from tests.support import models
from tests.support.pickled_files import SAVED, SCRIPTED, hostile, write_parquet, write_torch

ROOT = Path(__file__).parents[4]
STEP = "0_transformworkflowtriton"
PYTORCH = """
platform: "pytorch_libtorch"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
"""


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples/merlin/dense/repository", tmp_path / "export"))


def planned(
    path: Path, rewrite: Rewrite = Rewrite.AUTO, compiles: bool = True
) -> tuple[ServingPlan, ModelRepository]:
    repository = read_repository(path)
    graph = read_executor_graph(repository)
    choices = Choices(rewrite=rewrite, compile=Compile.AUTO if compiles else Compile.OFF)
    return plan_archive(repository, graph, Namespace("model"), choices), repository


def found(path: Path, rewrite: Rewrite = Rewrite.AUTO, compiles: bool = True) -> dict[str, str]:
    """The files below the archive -> who unpickles each."""
    unpickled = find_unpickled(*planned(path, rewrite, compiles))
    return {str(each.path.relative_to(path)): each.reader for each in unpickled}


# --- Merlin's own


@pytest.mark.parametrize("name", ["dense", "ragged", "session", "two_workflows", "forest_xgboost"])
def test_nobody_unpickles_what_is_compiled(name: str) -> None:
    """The graph and the workflows are read as data; TorchScript and forests are no pickles."""
    assert found(ROOT / f"examples/merlin/{name}/repository") == {}


def test_the_executors_graph(export: Path) -> None:
    assert found(export, Rewrite.EXECUTOR) == {
        "executor_model/1/ensemble/ensemble.pkl": "Merlin's executor"
    }


def test_a_workflow_that_is_not_compiled(export: Path) -> None:
    """In each version that is served."""
    pickled = f"{STEP}/1/workflow/workflow.pkl"
    assert found(export, compiles=False) == {pickled: "NVTabular"}
    shutil.copytree(export / STEP / "1", export / STEP / "2")
    second = f"{STEP}/2/workflow/workflow.pkl"
    assert found(export) == {pickled: "NVTabular", second: "NVTabular"}
    (export / pickled).unlink()
    shutil.rmtree(export / STEP / "1")
    (unpickled,) = find_unpickled(*planned(export, compiles=False))
    assert unpickled.why == "it is served as delivered"


def test_a_workflow_that_is_compiled_in_part(export: Path) -> None:
    """The sentence names the operator that runs in pandas, and why."""
    made, repository = planned(export)
    kept = Kept("LambdaOp", ("age",), "LambdaOp, column 'age': it calls a function of yours")
    (step,) = (model for model in made.models if model.compiled)
    assert step.compiled is not None
    program = replace(step.compiled.program, kept=(kept,))
    in_part = replace(step, compiled=replace(step.compiled, program=program))
    others = tuple(in_part if model is step else model for model in made.models)
    with pytest.raises(PicklesRefused) as error:
        check_unpickled(replace(made, models=others), repository)
    assert str(error.value) == (
        f"{export / STEP}/1/workflow/workflow.pkl: the model's process would unpickle it "
        "(compiled in part: LambdaOp, column 'age': it calls a function of yours), and "
        "SERVE_PICKLES=off allows nobody to; export a workflow that is compiled whole "
        "(docs/workflows.md lists the operators), or serve it where SERVE_PICKLES is on"
    )


def test_a_workflow_of_another_program(export: Path) -> None:
    """A changed model.py may load it, as Merlin's own does."""
    with (export / STEP / "1/model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    assert found(export) == {f"{STEP}/1/workflow/workflow.pkl": "NVTabular"}


def test_parquet_files_that_nvtabular_reads(export: Path) -> None:
    """pyarrow before 14.0.1 unpickles a type that one may name: without any other pickle."""
    (export / STEP / "1/model.py").write_text("class TritonPythonModel: pass\n")
    made, repository = planned(export)
    (export / STEP / "1/workflow/workflow.pkl").unlink()
    assert find_unpickled(made, repository) == ()
    path = export / STEP / "1/workflow/categories/unique.item_id.parquet"
    write_parquet(path, export / "ran")
    (unpickled,) = find_unpickled(made, repository)
    assert (unpickled.reader, unpickled.path) == ("NVTabular's pyarrow", path)
    path.unlink()
    path.mkdir()
    write_parquet(path / "part.0.parquet", export / "ran")
    (unpickled,) = find_unpickled(made, repository)
    assert unpickled.path == path


@pytest.mark.parametrize("name", ["dense", "lambda", "lists"])
def test_a_workflow_without_a_pickle(name: str) -> None:
    """NVTabular that writes graph.json leaves nothing to unpickle, also where it runs a part."""
    assert found(ROOT / f"tests/golden/graph_json/{name}/repository") == {}


def test_what_was_to_be_compiled_and_is_not(export: Path) -> None:
    """Tables may turn out to be unusable when they are written: then NVTabular would be asked."""
    repository = read_repository(export)
    graph = read_executor_graph(repository)
    choices = Choices(compile=Compile.AUTO, pickles=False)
    assert plan_archive(repository, graph, Namespace("model"), choices).compiled == 1
    repository = repository.with_unusable({STEP: "its tables are unusable"})
    with pytest.raises(PicklesRefused, match=r"workflow\.pkl: NVTabular .* tables are unusable"):
        plan_archive(repository, graph, Namespace("model"), choices)


def test_steps_of_several_stages() -> None:
    """Feast reads functions of its registry; FAISS' index is no pickle."""
    path = ROOT / "examples/multistage/repository"
    assert found(path) == {"executor_model/1/ensemble/feature_repo": "Feast"}


# --- other models


def torch_model(directory: Path) -> Path:
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(PYTORCH)
    return directory / "1/model.pt"


def test_torch_reads_torchscript_itself(tmp_path: Path) -> None:
    write_torch(torch_model(tmp_path / "m"), *SCRIPTED)
    assert found(tmp_path) == {}


@pytest.mark.parametrize("content", ["saved", "legacy", "cut off", "empty", "another name"])
def test_torch_may_unpickle_what_is_no_torchscript(content: str, tmp_path: Path) -> None:
    """What torch.save writes, in both of its formats, and what nobody knows."""
    path = torch_model(tmp_path / "m")
    if content == "another name":
        path = path.with_name("weights.bin")
        config = tmp_path / "m/config.pbtxt"
        config.write_text(f'{PYTORCH}default_model_filename: "weights.bin"')
    is_saved = content in ("saved", "another name")
    write_torch(path, *(SAVED if is_saved else SCRIPTED))
    if content == "legacy":
        path.write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2))
    elif not is_saved:
        path.write_bytes(path.read_bytes()[:100] if content == "cut off" else b"")
    made = plan_of_one(tmp_path)
    assert [each.reader for each in find_unpickled(*made)] == ["torch"]


@pytest.mark.parametrize("place", ["", "m"])
def test_torch_may_unpickle_a_bare_file(place: str, tmp_path: Path) -> None:
    """A file without a version directory is looked at where it lies."""
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "config.pbtxt").write_text(PYTORCH)
    write_torch(tmp_path / place / "model.pt", *SAVED)
    assert found(tmp_path) == {f"{place}/model.pt".lstrip("/"): "torch"}


def plan_of_one(path: Path) -> tuple[ServingPlan, ModelRepository]:
    """The plan of a model that is refused for other reasons as well."""
    repository = read_repository(path)
    model = overlay_model(repository.entry, {repository.entry.name: "model"}, repository.path)
    return ServingPlan("model", Form.AS_DELIVERED, "model", (model,)), repository


def test_an_archives_own_python(tmp_path: Path) -> None:
    """Pickles beside it are taken for what it reads, by their names and by what they begin with."""
    models.write_archive(tmp_path, {"m": models.identity})
    version = tmp_path / "m/1"
    (version / "words.json").write_text("{}")
    (version / "numbers.npy").write_bytes(b"\x93NUMPY")
    write_torch(version / "scripted.pt", *SCRIPTED)
    assert found(tmp_path) == {}
    (version / "encoder.joblib").write_bytes(b"compressed")
    (version / "words.bin").write_bytes(hostile(tmp_path / "ran"))
    (version / "inner").mkdir()
    write_torch(version / "inner/weights", *SAVED)
    names = ["encoder.joblib", "inner/weights", "words.bin"]
    assert found(tmp_path) == {
        f"m/1/{name}": "the archive's own Python (model.py)" for name in names
    }
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("m/1/encoder.pkl.gz", b"compressed"),
        ("m/1/weights", pickle.dumps(0x1950A86A20F9469CFC6C, 2) + b"storages"),
        ("m/1/texts.npy", b"\x93NUMPY\x01\0v\0{'descr': '|O', 'fortran_order': False, }"),
        ("shared/encoder.pkl", b""),
    ],
)
def test_what_else_may_be_unpickled(place: str, content: bytes, tmp_path: Path) -> None:
    """What was compressed, torch's format of old, arrays of objects; and beside the models."""
    models.write_archive(tmp_path, {"m": models.identity})
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_bytes(content)
    assert found(tmp_path) == {place: "the archive's own Python (model.py)"}


def test_a_program_of_the_pytorch_backend(tmp_path: Path) -> None:
    """NVIDIA's runs a model.py, which is the archive's own Python, too."""
    write_torch(torch_model(tmp_path / "m"), *SCRIPTED)
    (tmp_path / "m/1/model.py").write_text("")
    (tmp_path / "m/1/words.pkl").touch()
    made = plan_of_one(tmp_path)
    assert [each.path.name for each in find_unpickled(*made)] == ["words.pkl"]


def test_functions_of_a_workflow_without_a_pickle(tmp_path: Path) -> None:
    """They lie in a module of the archive's, which is its own Python."""
    shutil.copytree(ROOT / "tests/golden/graph_json/lambda/repository", tmp_path / "it")
    pickled = f"{STEP}/1/words.pkl"
    (tmp_path / "it" / pickled).touch()
    assert found(tmp_path / "it") == {pickled: "the archive's own Python (model.py)"}


# --- beforehand


def test_explain_and_pack_tell_of_it(export: Path) -> None:
    """A note for each file, by its place in the archive."""
    archive = read_archive(export, "model", rewrite=Rewrite.EXECUTOR, workflows=Compile.AUTO)
    assert archive.plan is not None
    assert archive.plan.notes[-1] == (
        "executor_model/1/ensemble/ensemble.pkl: Merlin's executor unpickles it, which runs what "
        "it says (SERVE_REWRITE=executor asks for it); SERVE_PICKLES=off refuses that"
    )
    whole = read_archive(export, "model", workflows=Compile.AUTO)
    assert whole.plan is not None
    assert not any("unpickles" in note for note in whole.plan.notes)
