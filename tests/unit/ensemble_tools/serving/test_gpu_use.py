"""Which models are forked on a machine with GPUs, and which are where the GPUs are."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tritonclient.grpc import model_config_pb2 as pb

from container.warm.libraries import choose_libraries
from container.warm.predictors import find_predictors
from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.config_limits import Limits
from ensemble_tools.serving.demand import measure_demand
from ensemble_tools.serving.gpu_use import mark_gpu_use
from ensemble_tools.serving.joining import join_steps
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, ServingPlan, plan_archive
from ensemble_tools.serving.publish import publish
from tests.unit.ensemble_tools.serving.test_joining import generated

ROOT = Path(__file__).parents[4]
FUNCTIONS = ROOT / "tests/golden/functions/with_filter/repository"
OTHERS = ROOT / "tests/golden/graph_json/lambda/repository"
#: A workflow with functions, and a predictor.
JOINED = ROOT / "tests/golden/tutorials/t4r_end_to_end/repository"
STEP = "0_transformworkflowtriton"
STAND_INS = ("pytorch", "tensorflow", "fil")
CPU = pb.ModelInstanceGroup.KIND_CPU


def planned(archive: Path, gpus: int = 2) -> ServingPlan:
    """As a container on such a machine plans it."""
    read = read_repository(archive)
    made = Choices(
        compile=Compile.AUTO,
        warm=True,
        predictors=find_predictors(STAND_INS),
        limits=Limits(gpus=gpus),
    )
    return plan_archive(read, read_executor_graph(read), Namespace("m"), made)


def copied(archive: Path, folder: Path) -> Path:
    return Path(shutil.copytree(archive, folder / "archive"))


def give_instances(archive: Path, group: str) -> None:
    """One group, in the place of those that it has."""
    config = archive / STEP / "config.pbtxt"
    others = re.sub(r"instance_group \{.*?\}", "", config.read_text(), flags=re.DOTALL)
    config.write_text(f"{others}\ninstance_group {{ {group} }}\n")


def rename(archive: Path, old: bytes, new: bytes) -> None:
    """In the pickle of the workflow; of one length, which the pickle says before each."""
    assert len(old) == len(new)
    file = archive / STEP / "1/workflow/workflow.pkl"
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new))


def kinds(made: ServingPlan, name: str) -> set[int]:
    """Of the instances that tritonserver is to make of it."""
    (model,) = (it for it in made.models if it.source_name == name)
    return {group.kind for group in model.config.instance_group}


def test_functions_in_pandas(tmp_path: Path) -> None:
    """They are forked, and on the CPU, where as many instances are made as without GPUs."""
    made = planned(FUNCTIONS)
    model = made.models[0]
    assert (model.source_name, model.warm) == (STEP, "1/model.py")
    assert kinds(made, model.source_name) == {CPU}
    demand = measure_demand(made, gpus=2).models[0]
    assert (demand.instances, demand.on_gpus) == (1, {})
    publish(made, tmp_path)
    program = tmp_path / model.triton_name / "1/model.py"
    assert "LIBRARY = 'pandas'" in program.read_text()
    assert planned(FUNCTIONS, gpus=0).models[0].warm


@pytest.mark.parametrize(
    "group", ["kind: KIND_GPU", "kind: KIND_GPU gpus: [1]", "kind: KIND_MODEL", "kind: 9"]
)
def test_a_config_that_asks_for_a_gpu(group: str, tmp_path: Path) -> None:
    """It is left as it is, and its process sees the GPUs."""
    archive = copied(FUNCTIONS, tmp_path)
    give_instances(archive, group)
    model = planned(archive).models[0]
    assert (model.warm, model.may_use_gpu) == ("", True)
    assert model.config_text is not None
    assert group in model.config_text


@pytest.mark.parametrize("group", ["", "count: 2", "kind: KIND_AUTO gpus: [1]", "kind: KIND_CPU"])
def test_a_config_that_asks_for_none(group: str, tmp_path: Path) -> None:
    """Its instances are on the CPU, as many as it says."""
    archive = copied(FUNCTIONS, tmp_path)
    give_instances(archive, group)
    made = planned(archive)
    assert made.models[0].warm
    assert kinds(made, STEP) == {CPU}
    demand = measure_demand(made, gpus=2).models[0]
    assert (demand.instances, demand.on_gpus) == (2 if "count" in group else 1, {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\x06pandas", b"\x06jaxlib"),  # a global of a function
        (b"\x05numpy", b"\x05numba"),
        (b"\x06pandas", b"\x06merlin"),  # a part of it that is not told
        (b"\x06pandas", b"\x06my-ops"),  # a file of the user's
    ],
)
def test_functions_that_name_other_modules(old: bytes, new: bytes, tmp_path: Path) -> None:
    """Nothing is known of these: they are where the GPUs are."""
    archive = copied(FUNCTIONS, tmp_path)
    rename(archive, old, new)
    model = planned(archive).models[0]
    assert (model.warm, model.may_use_gpu) == ("", True)


def test_functions_of_the_archive_s_own_module() -> None:
    """It may import anything."""
    (model,) = planned(OTHERS).models
    assert model.compiled is not None
    assert (model.warm, model.may_use_gpu) == ("", True)
    assert planned(OTHERS, gpus=0).models[0].warm


@pytest.mark.parametrize(
    "name", ["dense", "session", "ragged", "two_workflows", "tensorflow_ragged", "forest_xgboost"]
)
def test_predictors_are_where_the_gpus_are(name: str) -> None:
    """Each in a process of its own, and the steps in front of it on the CPU."""
    archive = ROOT / "examples/merlin" / name / "repository"
    made = planned(archive)
    assert not any(model.steps or model.warm for model in made.models)
    delivered = read_repository(archive).models
    predictors = [it for it in made.models if it.may_use_gpu]
    assert [delivered[it.source_name].backend in STAND_INS for it in predictors] == [True]
    for model in predictors:
        config = delivered[model.source_name].config
        assert config is not None
        assert model.config.instance_group == config.message.instance_group


def with_a_step_for_the_predictor(archive: Path, interpreter: str) -> ServingPlan:
    """An ensemble of a workflow with functions and a step of ours, marked and joined."""
    read = read_repository(archive)
    choices = Choices(compile=Compile.AUTO)
    made = plan_archive(read, read_executor_graph(read), Namespace("m"), choices)
    behind = generated(made.models[1], "# converts", interpreter)
    models = tuple(
        mark_gpu_use(it, read.models.get(it.source_name))
        for it in (made.models[0], behind, *made.models[2:])
    )
    joined, not_joined = join_steps(models, made.called, find_predictors(STAND_INS))
    return replace(made, models=joined, not_joined=not_joined)


@pytest.mark.parametrize(("interpreter", "library"), [("", "pandas"), ("feast", "feast")])
def test_steps_without_a_predictor_are_joined(interpreter: str, library: str) -> None:
    """On the CPU, by an interpreter that is there."""
    made = with_a_step_for_the_predictor(JOINED, interpreter)
    (model,) = made.models
    assert f"LIBRARY = '{library}'" in dict(model.files)["1/model.py"]
    assert library in choose_libraries(2)
    assert measure_demand(made, gpus=2).models[0].on_gpus == {}


def test_a_step_whose_functions_may_use_a_gpu_is_not_joined(tmp_path: Path) -> None:
    """It is where the GPUs are, and its ensemble says why it is what it was."""
    archive = copied(JOINED, tmp_path)
    give_instances(archive, "kind: KIND_GPU")
    made = with_a_step_for_the_predictor(archive, "")
    assert len(made.models) == 3
    (why,) = made.not_joined
    assert why.endswith(f"the step {STEP} may use a GPU, and has a process of its own")


def test_interpreters_are_those_of_what_is_forked() -> None:
    """On a machine with GPUs there are no others, nor what predictors alone need."""
    libraries = choose_libraries(2)
    assert [*libraries] == ["feast", "pandas"]
    assert not any("torch" in library.modules for library in libraries.values())
    assert len(choose_libraries(0)) > 2
